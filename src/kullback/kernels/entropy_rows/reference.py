"""Entropy and cross-entropy of rows: -Σ p log p and -Σ p log q, sums of non-negative terms."""

from __future__ import annotations

import torch
from torch import Tensor

from kullback.kernels.sides import Side, both, where


def entropy_value(p: Side) -> Tensor:
    """-Σ p log p per row."""
    log_p = log_probabilities(p)
    return -(probabilities(p, log_p) * log_p).sum(-1)


def cross_entropy_value(p: Side, q: Side) -> Tensor:
    """-Σ p log q per row; infinite where q is zero and p is not."""
    log_q = log_probabilities(q)
    weight = probabilities(p, log_probabilities(p))
    finite = -where(both(p.support, q.support), weight * log_q, 0.0).sum(-1)
    if q.support is None:
        return finite
    missing = ~q.support if p.support is None else p.support & ~q.support
    return torch.where(missing.any(-1), torch.inf, finite)


def log_probabilities(side: Side) -> Tensor:
    """Normalised log-probabilities, zero outside the support; accurate as the probability of one class nears 1.

    log p = (a - a_max) - log1p(Σ' exp(a - a_max)), the sum over all classes but one that attains the maximum: both
    terms have the same sign, and the second keeps its digits when it is far below the rounding of 1.
    """
    top, peak = side.log.detach().max(-1, keepdim=True)
    top = where(None if side.support is None else top != -torch.inf, top, 0.0)
    shifted = where(side.support, side.log, top) - top
    if side.low is not None:
        low = where(side.support, side.low, 0.0)
        shifted = shifted + (low - low.gather(-1, peak))
    # A weight has a derivative where it is zero, its logarithm has none.
    weights = where(side.support, torch.exp(shifted), 0.0) if side.weight is None else side.weight * torch.exp(-top)
    others = weights.scatter(-1, peak, 0.0).sum(-1, keepdim=True)
    return where(side.support, shifted - torch.log1p(others + torch.expm1(shifted.gather(-1, peak))), 0.0)


def probabilities(side: Side, log_probs: Tensor) -> Tensor:
    """Probabilities, zero outside the support."""
    return where(side.support, torch.exp(log_probs), 0.0)
