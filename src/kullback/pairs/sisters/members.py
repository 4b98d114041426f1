"""The law between two members of an exponential family: density proportional to p^α q^(1−α).

Its natural parameters are those of p and q in the same proportion, and it knows the Rényi divergence: with m that law,

    (1−α)·D_α(p ‖ q) = α·KL(m ‖ p) + (1−α)·KL(m ‖ q),    D_α(p ‖ q) = KL(p ‖ q) + KL(p ‖ m)/(α−1) for α > 1,

sums of non-negative terms. m is where the first sum is least, so that roundings of m count by their squares.

References:
    van Erven, Harremoës, "Rényi divergence and Kullback-Leibler divergence", IEEE Trans. Inf. Theory 60 (2014), §VII.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

from kullback.pairs.outcomes import Chance, chance
from kullback.pairs.parameters import read


class Edge(NamedTuple):
    """Where a law has all its mass on one outcome, and the divergence there."""

    where: Tensor
    value: Tensor


class Member(NamedTuple):
    """The law between.

    Attributes:
        law: The law, a valid one everywhere.
        exists: Where it is the one asked for: for α > 1 that may lie outside the family.
        edge: Degenerate elements that have no such law.
    """

    law: Distribution
    exists: Tensor
    edge: Edge | None = None


def member_between(p: Distribution, q: Distribution, alpha: float) -> Member | None:
    """The member with density proportional to p^α q^(1−α); None for two laws that are not of one known family."""
    for family, make in _FAMILIES.items():
        if isinstance(p, family) and isinstance(q, family):
            return make(p, q, alpha)
    return None


def _mixed(p: Tensor, q: Tensor, alpha: float) -> Tensor:
    """αp + (1−α)q from the nearer end, so that equal arguments give that number."""
    return p + (1 - alpha) * (q - p) if alpha > 0.5 else q + alpha * (p - q)


def _by_linear(kind: Callable[..., Distribution], *names: str) -> Callable[[Any, Any, float], Member]:
    """A family whose named parameters are natural up to constants, and positive."""

    def make(p: Distribution, q: Distribution, alpha: float) -> Member:
        mixed = [_mixed(a, b, alpha) for a, b in zip(read(p, *names), read(q, *names), strict=True)]
        exists = torch.stack(torch.broadcast_tensors(*[m > 0 for m in mixed])).all(0)  # type: ignore[no-untyped-call]
        parameters = {n: torch.where(exists, m, 1.0) for n, m in zip(names, mixed, strict=True)}
        return Member(kind(**parameters, validate_args=False), exists)

    return make


def _normal(p: d.Normal, q: d.Normal, alpha: float) -> Member:
    loc_p, scale_p = read(p, "loc", "scale")
    loc_q, scale_q = read(q, "loc", "scale")
    scale, share_q, exists = _mixed_scale(scale_p, scale_q, alpha)
    return Member(d.Normal(loc_p + share_q * (loc_q - loc_p), scale, validate_args=False), exists)


def _half_normal(p: d.HalfNormal, q: d.HalfNormal, alpha: float) -> Member:
    (scale_p,), (scale_q,) = read(p, "scale"), read(q, "scale")
    scale, _, exists = _mixed_scale(scale_p, scale_q, alpha)
    return Member(d.HalfNormal(scale, validate_args=False), exists)


def _mixed_scale(scale_p: Tensor, scale_q: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
    """1/σ² = α/σ_p² + (1−α)/σ_q², and q's share of it; squares of ratios only."""
    most = torch.maximum(scale_p, scale_q)
    a, b = (scale_p / most) ** 2, (scale_q / most) ** 2
    total = alpha * b + (1 - alpha) * a
    exists = total > 0
    total = torch.where(exists, total, 1.0)
    # Equal scales give themselves, to the bit.
    same = scale_p == scale_q
    scale = torch.where(same, scale_p, scale_p / most * scale_q / torch.sqrt(total))
    return scale, torch.where(same, 1 - alpha, (1 - alpha) * a / total), exists


def _poisson(p: d.Poisson, q: d.Poisson, alpha: float) -> Member | None:
    (loss_p,), (loss_q,) = read(p, "rate"), read(q, "rate")
    some = (loss_p > 0) & (loss_q > 0)
    rate_p, rate_q = (torch.where(some, rate, 1.0) for rate in (loss_p, loss_q))
    log_rate = _mixed(torch.log(rate_p), torch.log(rate_q), alpha)
    rate = torch.where(rate_p == rate_q, rate_p, torch.exp(log_rate))
    exists = torch.ones_like(rate, dtype=torch.bool)
    return Member(d.Poisson(rate, validate_args=False), exists, _at_zero(~some, loss_p, loss_q, alpha))


def _at_zero(where: Tensor, loss_p: Tensor, loss_q: Tensor, alpha: float) -> Edge:
    """One of the laws, or both, is certain of 0, to which they give the probabilities e^(−loss)."""
    lost = (loss_p > 0) & where
    return Edge(where, torch.where(lost, alpha * loss_p / (1 - alpha) if alpha < 1 else torch.inf, loss_q))


def _geometric(p: d.Geometric, q: d.Geometric, alpha: float) -> Member:
    log_p, log_q = (chance(side).inner().flip().log_success() for side in (p, q))
    log_failure = _mixed(log_p, log_q, alpha)
    exists = log_failure < 0
    log_failure = torch.where(exists, log_failure, -1.0)
    sure = chance(p).certain()[1] | chance(q).certain()[1]
    law = d.Geometric(probs=-torch.expm1(log_failure), validate_args=False)
    return Member(law, exists, _at_zero(sure, _loss(chance(p)), _loss(chance(q)), alpha))


def _loss(trial: Chance) -> Tensor:
    """−log of the probability of success; 0 where that is certain."""
    return torch.where(trial.certain()[1], 0.0, -trial.inner().log_success())


def _dirichlet(p: d.Dirichlet, q: d.Dirichlet, alpha: float) -> Member:
    (own,), (other,) = read(p, "concentration"), read(q, "concentration")
    concentration = _mixed(own, other, alpha)
    exists = (concentration > 0).all(-1)
    concentration = torch.where(exists.unsqueeze(-1), concentration, 1.0)
    return Member(d.Dirichlet(concentration, validate_args=False), exists)


def _von_mises(p: d.VonMises, q: d.VonMises, alpha: float) -> Member:
    loc_p, kappa_p = read(p, "loc", "concentration")
    loc_q, kappa_q = read(q, "loc", "concentration")
    turn = loc_q - loc_p
    along = alpha * kappa_p + (1 - alpha) * kappa_q * torch.cos(turn)
    across = (1 - alpha) * kappa_q * torch.sin(turn)
    some = (along != 0) | (across != 0)
    kappa = torch.hypot(torch.where(some, along, 1.0), torch.where(some, across, 0.0))
    loc = loc_p + torch.atan2(torch.where(some, across, 0.0), torch.where(some, along, 1.0))
    kappa = torch.where(some, kappa, _NARROW)
    return Member(d.VonMises(loc, kappa, validate_args=False), torch.ones_like(kappa, dtype=torch.bool))


def _multivariate_normal(p: Distribution, q: Distribution, alpha: float) -> Member:
    loc_p, precision_p = read(p, "loc", "precision_matrix")
    loc_q, precision_q = read(q, "loc", "precision_matrix")
    precision = alpha * precision_p + (1 - alpha) * precision_q
    _, problem = torch.linalg.cholesky_ex(precision)
    exists = problem == 0
    eye = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    precision = torch.where(exists[..., None, None], precision, eye)
    pull = (1 - alpha) * (precision_q @ (loc_q - loc_p).unsqueeze(-1))
    loc = loc_p + torch.linalg.solve(precision, pull).squeeze(-1)
    return Member(d.MultivariateNormal(loc, precision_matrix=precision, validate_args=False), exists)


_NARROW = 1e-300
_FAMILIES: dict[type | tuple[type, ...], Callable[[Any, Any, float], Member | None]] = {
    d.Beta: _by_linear(d.Beta, "concentration1", "concentration0"),
    d.Dirichlet: _dirichlet,
    d.Exponential: _by_linear(d.Exponential, "rate"),
    d.Gamma: _by_linear(d.Gamma, "concentration", "rate"),
    d.Geometric: _geometric,
    d.HalfNormal: _half_normal,
    d.InverseGamma: _by_linear(d.InverseGamma, "concentration", "rate"),
    (d.MultivariateNormal, d.LowRankMultivariateNormal): _multivariate_normal,
    d.Normal: _normal,
    d.Poisson: _poisson,
    d.VonMises: _von_mises,
}
