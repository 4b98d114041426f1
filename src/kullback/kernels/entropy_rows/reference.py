"""Entropy and cross-entropy of rows: -Σ p log p and -Σ p log q, sums of non-negative terms.

The derivatives with respect to log p are -p (log p + H) and -p (log q + H(p, q)); with respect to a weight the same
without p, over the sum of the weights, and 0 where the limit is infinite. H(p, q) = H(p) + KL(p || q), so that its
derivative with respect to q is that of KL.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kullback.kernels.kl_rows.reference import kl_gradients
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


def entropy_gradients(needs: Sequence[bool], p: Side) -> tuple[Tensor | None]:
    """∂H/∂p, with respect to logits, or to weights where the side is linear."""
    del needs
    return (_gradient_to_p(p, log_probabilities(p), p.support),)


def cross_entropy_gradients(needs: Sequence[bool], p: Side, q: Side) -> tuple[Tensor | None, Tensor | None]:
    """∂H(p, q)/∂p and ∂H(p, q)/∂q."""
    to_p = None
    if needs[0]:
        to_p = _gradient_to_p(p, log_probabilities(q), q.support)
        if q.support is not None:
            missing = ~q.support if p.support is None else p.support & ~q.support
            to_p = torch.where(missing.any(-1, keepdim=True), 0.0, to_p)
    return to_p, kl_gradients((False, True), p, q)[1] if needs[1] else None


def _gradient_to_p(p: Side, log_q: Tensor, support: Tensor | None) -> Tensor:
    """-p (log q - E_p log q) where q is not zero."""
    probs = probabilities(p, log_probabilities(p))
    centred = log_q
    # The mean is off by a rounding of log q, the next one by a rounding of what is left. A class with all but a trace
    # of p is that trace from the mean.
    for _ in range(3):
        centred = where(support, centred - (probs * centred).sum(-1, keepdim=True), 0.0)
    return -centred / p.weight.sum(-1, keepdim=True) if p.weight is not None else -probs * centred


def logsumexp_value(p: Side) -> Tensor:
    """The log of the sum of the weights per row."""
    # A weight has a derivative where it is zero, its logarithm has none.
    return torch.logsumexp(p.log, -1) if p.weight is None else torch.log(p.weight.sum(-1))


def logsumexp_gradients(needs: Sequence[bool], p: Side) -> tuple[Tensor | None]:
    """The probabilities; per weight one over their sum."""
    del needs
    if p.weight is None:
        return (probabilities(p, log_probabilities(p)),)
    return ((1 / p.weight.sum(-1, keepdim=True)).expand_as(p.weight),)


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
