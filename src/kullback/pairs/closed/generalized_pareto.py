"""KL(GeneralizedPareto ‖ q) for q that needs the mean or the variance only. Called by `pairs.dispatch`.

For x ~ (μ, σ, ξ) the mean is μ + σ/(1−ξ) if ξ < 1, the variance σ²/((1−ξ)²(1−2ξ)) if ξ < ½, the entropy log σ + ξ + 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, distributions
from torch.distributions import Distribution, Exponential, HalfNormal, Normal

from kullback.pairs.moments import kl_to_normal
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.special import kl_div, log1pmx


def kl_generalized_pareto_exponential(p: Distribution, q: Exponential) -> Tensor:
    """No term is negative: rate·μ, the cost of the scales, and that of a tail that is not exponential."""
    loc, scale, xi = read(p, "loc", "scale", "concentration")
    (rate,) = read(q, "rate")
    infinite = (xi >= 1) | (loc < 0)
    xi, loc = torch.where(infinite, 0.0, xi), torch.where(infinite, 0.0, loc)
    mean = rate * scale / (1 - xi)
    value = rate * loc + kl_div(torch.ones_like(mean), mean) - log1pmx(-xi)
    return torch.where(infinite, math.inf, value)


def kl_generalized_pareto_half_normal(p: Distribution, q: HalfNormal) -> Tensor:
    """E x² = μ² + 2μσ/(1−ξ) + 2σ²/((1−ξ)(1−2ξ)); the least value over σ_q is above 0.02."""
    loc, scale, xi = read(p, "loc", "scale", "concentration")
    (scale_q,) = read(q, "scale")
    infinite = (xi >= 0.5) | (loc < 0)
    xi, loc = torch.where(infinite, 0.0, xi), torch.where(infinite, 0.0, loc)
    shift = loc / scale
    square = shift * (shift + 2 / (1 - xi)) + 2 / ((1 - xi) * (1 - 2 * xi))
    ratio = square * (scale / scale_q) ** 2
    value = (kl_div(torch.ones_like(ratio), ratio) + torch.log(square) + (math.log(math.pi / 2) - 1)) / 2 - xi
    return torch.where(infinite, math.inf, value)


def kl_generalized_pareto_normal(p: Distribution, q: Normal) -> Tensor:
    """J = ½log(2π/e) − ξ − log(1−ξ) − ½log(1−2ξ) ≥ 0.15."""
    loc, scale, xi = read(p, "loc", "scale", "concentration")
    infinite = xi >= 0.5
    xi = torch.where(infinite, 0.0, xi)
    negentropy = (math.log(2 * math.pi) - 1 - torch.log1p(-2 * xi)) / 2 - log1pmx(-xi)
    excess = scale / (1 - xi)
    value = kl_to_normal(negentropy, excess * torch.rsqrt(1 - 2 * xi), loc + excess, *read(q, "loc", "scale"))
    return torch.where(infinite, math.inf, value)


if hasattr(distributions, "GeneralizedPareto"):  # newer than the oldest torch supported
    _P = distributions.GeneralizedPareto
    register(
        _P,
        Exponential,
        source="rate·μ + φ(log(rate·σ/(1−ξ))) − log(1−ξ) − ξ; infinite if ξ ≥ 1",
        decides_support=True,
    )(kl_generalized_pareto_exponential)
    register(
        _P, HalfNormal, source="½φ(log(E x²/σ_q²)) + ½log(π·E x²/2eσ²) − ξ; infinite if ξ ≥ ½", decides_support=True
    )(kl_generalized_pareto_half_normal)
    register(_P, Normal, source="½log(2π/e) − ξ − log(1−ξ) − ½log(1−2ξ) + KL(Normal of the same moments ‖ q); ξ < ½")(
        kl_generalized_pareto_normal
    )
