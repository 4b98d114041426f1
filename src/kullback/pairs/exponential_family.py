"""KL between members of any one exponential family, from its log-normaliser alone; `registry` asks for the rule.

With natural parameters θ and log-normaliser A, Δ = θ_q − θ_p, the divergence is the Bregman divergence of A. Its usual
form A(θ_q) − A(θ_p) − ⟨Δ, ∇A(θ_p)⟩ cancels when p is close to q; Taylor's remainder does not:

    KL(p ‖ q) = ∫₀¹ (1 − t) Δᵀ ∇²A(θ_p + tΔ) Δ dt,

every value of the integrand being non-negative because A is convex. The segment lies in the natural domain because that
domain is convex, too.

References:
    Banerjee, Merugu, Dhillon, Ghosh, "Clustering with Bregman divergences", JMLR 6 (2005).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch.distributions import Distribution, ExponentialFamily

from kullback._core.gauss_legendre import Rule, gauss_legendre
from kullback.densities.parameters import working
from kullback.pairs import registry

_COARSE, _FINE = gauss_legendre(20), gauss_legendre(32)


def kl_exponential_family_exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> tuple[Tensor, Tensor]:
    """The remainder near equality, the direct form far from it, where the integrand may vary over many scales."""
    theta_p, theta_q = _natural(p, q), _natural(q, p)
    delta = tuple(b - a for a, b in zip(theta_p, theta_q, strict=True))
    log_normalizer = cast("Callable[..., Tensor]", p._log_normalizer)

    at_p, first = cast("tuple[Tensor, Tensor]", torch.func.jvp(log_normalizer, theta_p, delta))
    at_q = log_normalizer(*theta_q)
    direct, size = at_q - at_p - first, at_q.abs() + at_p.abs() + first.abs()
    fine, coarse = (taylor_remainder(log_normalizer, theta_p, delta, rule) for rule in (_FINE, _COARSE))
    # Where the segment comes close to the edge of the domain the rules disagree; next to equality the terms cancel.
    rounding = torch.finfo(size.dtype).eps
    lost, missed = rounding * size, (fine - coarse).abs() + rounding * fine.abs()
    far = (direct > 0) & (lost < missed)
    return torch.where(far, direct, fine), torch.where(far, lost, missed).detach()


def taylor_remainder(
    function: Callable[..., Tensor], start: tuple[Tensor, ...], delta: tuple[Tensor, ...], rule: Rule
) -> Tensor:
    """∫₀¹ (1−t)·f″(t) dt of f(t) = function(start + t·Δ), which is f(1) − f(0) − f′(0) without their cancellation."""

    def along(t: Tensor) -> Tensor:
        return function(*(a + t * d for a, d in zip(start, delta, strict=True)))

    one = torch.ones((), dtype=start[0].dtype, device=start[0].device)

    def slope(t: Tensor) -> Tensor:
        return cast("Tensor", torch.func.jvp(along, (t,), (one,))[1])

    terms = [weight * (1 - t) * torch.func.jvp(slope, (t * one,), (one,))[1] for t, weight in zip(*rule, strict=True)]
    return torch.stack(terms).sum(0)


def _natural(own: ExponentialFamily, other: ExponentialFamily) -> tuple[Tensor, ...]:
    """Natural parameters of one side, in the shape they have together with the other's."""
    both = zip(own._natural_params, other._natural_params, strict=True)
    return tuple(working(a) + torch.zeros_like(working(b)) for a, b in both)


def rule_for(p: Distribution, q: Distribution) -> registry.Rule | None:
    """The rule for two members of one family, which share a log-normaliser; None for others."""
    own = getattr(type(p), "_log_normalizer", None)
    if own is not getattr(type(q), "_log_normalizer", None) or own in (None, ExponentialFamily._log_normalizer):
        return None
    source = "∫₀¹ (1−t) Δᵀ∇²A(θ_p + tΔ)Δ dt; A(θ_q) − A(θ_p) − ⟨Δ, ∇A(θ_p)⟩ where that is known better"
    return registry.Rule(type(p), type(q), kl_exponential_family_exponential_family, "integral", source)
