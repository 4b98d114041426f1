"""Rényi's divergence within an exponential family, by the distribution m ∝ p^α q^(1−α); `pairs.divergences` calls it.

The natural parameters of m are those of p and q in the same proportion, and it knows the divergence:

    (1−α)·D_α(p ‖ q) = α·KL(m ‖ p) + (1−α)·KL(m ‖ q),    D_α(p ‖ q) = KL(p ‖ q) + KL(p ‖ m)/(α−1) for α > 1,

sums of non-negative terms. m is where the first sum is least, so that roundings of m count by their squares.

References:
    van Erven, Harremoës, "Rényi divergence and Kullback-Leibler divergence", IEEE Trans. Inf. Theory 60 (2014), §VII.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

from kullback.densities.parameters import read
from kullback.pairs.dispatch import answer as kl_answer

# Below this KL the first sum is the accurate one for α > 1, too.
_CLOSE = 1e-2
# A geometric mixture, valid everywhere, and where it is the one asked for: for α > 1 that may lie outside the family.
Mixture = tuple[Distribution, Tensor]


def renyi_in_family(p: Distribution, q: Distribution, alpha: float) -> Tensor | None:
    """D_α in working precision; None for two distributions that are not of one known family."""
    make = next((make for kind, make in _FAMILIES.items() if isinstance(p, kind) and isinstance(q, kind)), None)
    if make is None:
        return None
    between, exists = make(p, q, alpha)
    to_p, to_q, direct = (kl_answer(*pair)[0] for pair in ((between, p), (between, q), (p, q)))
    value = (alpha * to_p + (1 - alpha) * to_q) / (1 - alpha)
    if alpha > 1:
        far = direct.detach() > _CLOSE
        value = torch.where(far, direct + kl_answer(p, between)[0] / (alpha - 1), value.clamp_min(0.0))
    value = torch.where(direct == 0, alpha * direct, value)  # the second derivatives at p = q, too
    return torch.where(exists, value, math.inf)


def _mixed(p: Tensor, q: Tensor, alpha: float) -> Tensor:
    """αp + (1−α)q from the nearer end, so that equal arguments give that number."""
    return p + (1 - alpha) * (q - p) if alpha > 0.5 else q + alpha * (p - q)


def _by_linear(kind: Callable[..., Distribution], *names: str) -> Callable[[Any, Any, float], Mixture]:
    """A family whose named parameters are natural up to constants, and positive."""

    def make(p: Distribution, q: Distribution, alpha: float) -> Mixture:
        mixed = [_mixed(a, b, alpha) for a, b in zip(read(p, *names), read(q, *names), strict=True)]
        exists = torch.stack(torch.broadcast_tensors(*[m > 0 for m in mixed])).all(0)  # type: ignore[no-untyped-call]
        inner = exists.all(-1) if kind is d.Dirichlet else exists
        some = inner.unsqueeze(-1) if kind is d.Dirichlet else inner
        parameters = {n: torch.where(some, m, 1.0) for n, m in zip(names, mixed, strict=True)}
        return kind(**parameters, validate_args=False), inner

    return make


def _normal(p: d.Normal, q: d.Normal, alpha: float) -> Mixture:
    """1/σ² = α/σ_p² + (1−α)/σ_q², from squares of ratios only."""
    (loc_p, scale_p), (loc_q, scale_q) = read(p, "loc", "scale"), read(q, "loc", "scale")
    most = torch.maximum(scale_p, scale_q)
    a, b = (scale_p / most) ** 2, (scale_q / most) ** 2
    total = alpha * b + (1 - alpha) * a
    exists = total > 0
    total = torch.where(exists, total, 1.0)
    # Equal scales give themselves, to the bit.
    same = scale_p == scale_q
    scale = torch.where(same, scale_p, scale_p / most * scale_q / torch.sqrt(total))
    share_q = torch.where(same, 1 - alpha, (1 - alpha) * a / total)
    return d.Normal(loc_p + share_q * (loc_q - loc_p), scale, validate_args=False), exists


def _multivariate_normal(p: Distribution, q: Distribution, alpha: float) -> Mixture:
    loc_p, precision_p = read(p, "loc", "precision_matrix")
    loc_q, precision_q = read(q, "loc", "precision_matrix")
    precision = alpha * precision_p + (1 - alpha) * precision_q
    _, problem = torch.linalg.cholesky_ex(precision)
    exists = problem == 0
    eye = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    precision = torch.where(exists[..., None, None], precision, eye)
    pull = (1 - alpha) * (precision_q @ (loc_q - loc_p).unsqueeze(-1))
    loc = loc_p + torch.linalg.solve(precision, pull).squeeze(-1)
    return d.MultivariateNormal(loc, precision_matrix=precision, validate_args=False), exists


_FAMILIES: dict[type | tuple[type, ...], Callable[[Any, Any, float], Mixture]] = {
    d.Beta: _by_linear(d.Beta, "concentration1", "concentration0"),
    d.Dirichlet: _by_linear(d.Dirichlet, "concentration"),
    d.Exponential: _by_linear(d.Exponential, "rate"),
    d.Gamma: _by_linear(d.Gamma, "concentration", "rate"),
    (d.MultivariateNormal, d.LowRankMultivariateNormal): _multivariate_normal,
    d.Normal: _normal,
}
