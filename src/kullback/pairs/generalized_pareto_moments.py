"""KL(GeneralizedPareto ‖ q) for q that needs the mean or the variance only: Exponential, HalfNormal, Normal.

For x ~ (μ, σ, ξ) the mean is μ + σ/(1−ξ) if ξ < 1, the variance σ²/((1−ξ)²(1−2ξ)) if ξ < ½, the entropy log σ + ξ + 1.
"""

from __future__ import annotations

import math

import torch
from torch import distributions
from torch.distributions import Distribution, Exponential, HalfNormal, Normal

from kullback._core.special._double_double import divided, plus, root, two_difference
from kullback.pairs.moments import exact, kl_to_normal, known_to
from kullback.pairs.parameters import read
from kullback.pairs.products import log_quotient, settled
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.roundings import Answer, rounded
from kullback.special import expm1mx, log1pmx


def kl_generalized_pareto_exponential(p: Distribution, q: Exponential) -> Answer:
    """No term is negative: rate·μ, the cost of the scales, and that of a tail that is not exponential."""
    loc, scale, xi = read(p, "loc", "scale", "concentration")
    (rate,) = read(q, "rate")
    finite = xi < 1
    xi = torch.where(finite, xi, 0.0)
    log_mean = log_quotient(rate, scale, 1 - xi, torch.ones_like(rate))
    inside = torch.where(loc >= 0, loc, 0.0)
    value = rate * inside + expm1mx(log_mean) - log1pmx(-xi)
    return rounded(torch.where(finite, value, torch.inf), value + torch.expm1(log_mean).abs() * (1 + log_mean.abs()))


def kl_generalized_pareto_half_normal(p: Distribution, q: HalfNormal) -> Answer:
    """E x² = μ² + 2μσ/(1−ξ) + 2σ²/((1−ξ)(1−2ξ)); the least value over σ_q is above 0.02."""
    loc, scale, xi = read(p, "loc", "scale", "concentration")
    (scale_q,) = read(q, "scale")
    finite = xi < 0.5
    xi = torch.where(finite, xi, 0.0)
    shift = torch.where(loc >= 0, loc, 0.0) / scale
    square = shift * (shift + 2 / (1 - xi)) + 2 / ((1 - xi) * (1 - 2 * xi))
    constant = math.log(math.pi / 2) / 2 - 1
    log_scales = log_ratio(scale, scale_q)
    cost = square * (scale / scale_q) ** 2 / 2
    value = settled(torch.where(finite, cost + (constant - xi) - log_scales, torch.inf))
    return rounded(value, cost + 1 + xi.abs() + log_scales.abs())


def kl_generalized_pareto_normal(p: Distribution, q: Normal) -> Answer:
    """J = ½log(2π/e) − ξ − log(1−ξ) − ½log(1−2ξ) ≥ 0.15."""
    loc, scale, xi = read(p, "loc", "scale", "concentration")
    finite = xi < 0.5
    xi = torch.where(finite, xi, 0.0)
    negentropy = (math.log(2 * math.pi) - 1 - torch.log1p(-2 * xi)) / 2 - log1pmx(-xi)
    at_xi, at_scale = xi.detach(), exact(scale.detach())
    one = torch.ones_like(at_xi)
    excess = divided(at_scale, two_difference(one, at_xi))
    sd = known_to(scale / (1 - xi) * torch.rsqrt(1 - 2 * xi), divided(excess, root(two_difference(one, 2 * at_xi))))
    loc_q, scale_q = read(q, "loc", "scale")
    offset = (loc - loc_q) + scale / (1 - xi)
    gap = known_to(offset, plus(two_difference(loc.detach(), loc_q.detach()), excess))
    value = kl_to_normal(negentropy, sd, gap, q)
    terms = (loc.abs() + loc_q.abs() + scale / (1 - xi)) / scale_q
    sizes = value + 1 + log_ratio(sd[0], scale_q).abs() + (offset / scale_q).abs() * terms + (sd[0] / scale_q) ** 2
    return rounded(settled(torch.where(finite, value, torch.inf)), sizes)


if hasattr(distributions, "GeneralizedPareto"):  # newer than the oldest torch supported
    _P = distributions.GeneralizedPareto
    register(_P, Exponential, source="rate·μ + φ(log(rate·σ/(1−ξ))) − log(1−ξ) − ξ; infinite if ξ ≥ 1")(
        kl_generalized_pareto_exponential
    )
    register(_P, HalfNormal, source="E x²/2σ_q² + ½log(π/2) + log(σ_q/σ) − 1 − ξ; infinite if ξ ≥ ½")(
        kl_generalized_pareto_half_normal
    )
    register(_P, Normal, source="½log(2π/e) − ξ − log(1−ξ) − ½log(1−2ξ) + KL(Normal of the same moments ‖ q); ξ < ½")(
        kl_generalized_pareto_normal
    )
