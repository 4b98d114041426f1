"""KL between members of any one exponential family, from its log-normaliser alone.

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
from torch.distributions import ExponentialFamily

from kullback._core.gauss_legendre import Rule, gauss_legendre
from kullback.pairs.parameters import working
from kullback.pairs.registry import register

_COARSE, _FINE = gauss_legendre(20), gauss_legendre(32)


def _one_family(p: type, q: type) -> bool:
    """Whether both classes are members of the same family: they share one log-normaliser."""
    own = getattr(p, "_log_normalizer", None)
    return own is getattr(q, "_log_normalizer", None) and own is not ExponentialFamily._log_normalizer


@register(
    ExponentialFamily,
    ExponentialFamily,
    method="integral",
    source="∫₀¹ (1−t) Δᵀ∇²A(θ_p + tΔ)Δ dt by Gauss–Legendre; A(θ_q) − A(θ_p) − ⟨Δ, ∇A(θ_p)⟩ where that is known better",
    applies=_one_family,
)
def kl_exponential_family_exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> tuple[Tensor, Tensor]:
    """The remainder near equality, the direct form far from it, where the integrand may vary over many scales."""
    theta_p, theta_q = _natural(p, q), _natural(q, p)
    delta = tuple(b - a for a, b in zip(theta_p, theta_q, strict=True))
    log_normalizer = cast("Callable[..., Tensor]", p._log_normalizer)

    def slope(*theta: Tensor) -> Tensor:
        """⟨Δ, ∇A⟩."""
        return cast("Tensor", torch.func.jvp(log_normalizer, theta, delta)[1])

    def remainder(rule: Rule) -> Tensor:
        total: Tensor = torch.zeros_like(at_p)
        for t, weight in zip(*rule, strict=True):
            at = tuple(a + t * d for a, d in zip(theta_p, delta, strict=True))
            total = total + weight * (1 - t) * torch.func.jvp(slope, at, delta)[1]
        return total

    at_p, at_q, first = log_normalizer(*theta_p), log_normalizer(*theta_q), slope(*theta_p)
    direct, size = at_q - at_p - first, at_q.abs() + at_p.abs() + first.abs()
    fine = remainder(_FINE)
    # Where the segment comes close to the edge of the domain the rules disagree; next to equality the terms cancel.
    rounding = torch.finfo(size.dtype).eps
    lost, missed = rounding * size, (fine - remainder(_COARSE)).abs() + rounding * fine.abs()
    far = (direct > 0) & (lost < missed)
    return torch.where(far, direct, fine), torch.where(far, lost, missed).detach()


def _natural(own: ExponentialFamily, other: ExponentialFamily) -> tuple[Tensor, ...]:
    """Natural parameters of one side, in the shape they have together with the other's."""
    both = zip(own._natural_params, other._natural_params, strict=True)
    return tuple(working(a) + torch.zeros_like(working(b)) for a, b in both)
