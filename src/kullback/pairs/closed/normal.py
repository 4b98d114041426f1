"""KL(Normal ‖ q), KL(HalfNormal ‖ q) and KL(LogNormal ‖ q), called by `pairs.dispatch`.

The other files in `closed/` call `kl_to_normal`.

KL(p ‖ Normal(μ, σ)) splits at the Normal with the mean m and the deviation s of p: with φ(x) = eˣ − 1 − x it is

    J + ½φ(2·log(s/σ)) + ½((m − μ)/σ)²,    J = ½log(2πe·s²) − H(p) the negentropy,

where no term is negative.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Gumbel, HalfNormal, Laplace, LogNormal, Normal, Weibull

from kullback.densities.parameters import read
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.registry import register
from kullback.special import expm1mx, kl_div

OVERFLOWING_LOG = 709.7828  # the exponential of a little less is the largest double
_LOG_2_PI = math.log(2 * math.pi)
# The square of the exponential of more than this overflows.
_LARGEST_LOG_OF_SQUARE = 354.0


@register(Normal, Normal, source="½[φ(2s) + (Δμ/σ_q)²], s = log(σ_p/σ_q), φ(x) = eˣ − 1 − x", finished=True)
def kl_normal_normal(p: Normal, q: Normal) -> Tensor:
    """See `_normal_normal`."""
    return normal_op(p.loc, p.scale, q.loc, q.scale)


def scale_term(scale_p: Tensor, scale_q: Tensor) -> Tensor:
    """½φ(2·log(σ_p/σ_q)) = ½w² + [w − log(1+w)] with w = σ_p/σ_q − 1; neither part is negative."""
    wider = (scale_p - scale_q) / scale_q
    # The size of σ_q, so that a negative one, which torch accepts without validation, gives infinity and not 0.
    return wider * wider / 2 + kl_div(scale_q, scale_p) / scale_q.abs()


def _normal_normal(loc_p: Tensor, scale_p: Tensor, loc_q: Tensor, scale_q: Tensor) -> Tensor:
    offset = (loc_p - loc_q) / scale_q
    return scale_term(scale_p, scale_q) + offset * offset / 2


normal_op = PairOp("normal", _normal_normal, arguments=("loc_p", "scale_p", "loc_q", "scale_q"))


def kl_to_normal(negentropy: Tensor | float, sd: Tensor, mean: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """KL(p ‖ Normal(loc, scale)) of a p with this negentropy, standard deviation and mean."""
    offset = (mean - loc) / scale
    return negentropy + scale_term(sd, scale) + offset * offset / 2


def phi_of_log_mean(log_mean: Tensor) -> Tensor:
    """φ of the logarithm of an expectation; infinite, without a slope, where the expectation overflows."""
    return expm1mx(log_mean.clamp_max(OVERFLOWING_LOG))


@register(Normal, Gumbel, source="Δμ/β + e^(½(σ/β)² − Δμ/β) − log(σ/β) − ½(1 + log 2π)")
def kl_normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    """E z + E e^(−z) less the entropy of the Normal; at least a constant, so that nothing is lost."""
    return normal_gumbel(*read(p, "loc", "scale"), *read(q, "loc", "scale"))


def normal_gumbel(loc_p: Tensor, scale_p: Tensor, loc_q: Tensor, scale_q: Tensor) -> Tensor:
    """KL(Normal ‖ Gumbel), which is KL(LogNormal ‖ Weibull) of e^(−x), too."""
    mean, ratio = (loc_p - loc_q) / scale_q, scale_p / scale_q
    mgf = torch.exp((ratio * ratio / 2 - mean).clamp_max(OVERFLOWING_LOG))
    return mean + mgf - (torch.log(ratio) + (1 + _LOG_2_PI) / 2)


@register(Normal, Laplace, source="φ(log(t/b)) + log(t/σ) + ½log(2e/π), t = E|x − μ_q|")
def kl_normal_laplace(p: Normal, q: Laplace) -> Tensor:
    """E|x − μ_q| = σ·√(2/π)·e^(−δ²/2) + Δμ·erf(δ/√2), δ = Δμ/σ."""
    loc_p, scale_p = read(p, "loc", "scale")
    loc_q, scale_q = read(q, "loc", "scale")
    difference = loc_p - loc_q
    delta = difference / scale_p
    absolute = math.sqrt(2 / math.pi) * scale_p * torch.exp(-delta * delta / 2)
    absolute = absolute + difference * torch.erf(delta * math.sqrt(0.5))
    rest = torch.log(absolute / scale_p) + (1 + math.log(2 / math.pi)) / 2
    return kl_div(scale_q, absolute) / scale_q + rest


@register(HalfNormal, HalfNormal, source="½φ(2·log(σ_p/σ_q)), that of the Normals centred at 0", finished=True)
def kl_half_normal_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    """Both Normals are symmetric, and |x| keeps the rest."""
    return half_normal_op(p.scale, q.scale)


half_normal_op = PairOp("half_normal", scale_term, arguments=("scale_p", "scale_q"))


@register(LogNormal, LogNormal, source="that of the Normals: the exponential is a bijection", finished=True)
def kl_log_normal_log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    """The Normals of the logarithms."""
    return normal_op(p.loc, p.scale, q.loc, q.scale)


@register(LogNormal, Weibull, source="Normal(−μ, σ) ‖ Gumbel(−log λ, 1/k), the distributions of −log x")
def kl_log_normal_weibull(p: LogNormal, q: Weibull) -> Tensor:
    """The divergence grows as e^(k²σ²/2), beyond what the nodes of an integral reach."""
    (loc, sigma), (scale, k) = read(p, "loc", "scale"), read(q, "scale", "concentration")
    return normal_gumbel(-loc, sigma, -torch.log(scale), k.reciprocal())


@register(LogNormal, Normal, source="½[σ² + log((e^σ² − 1)/σ²)] + KL(Normal of the same moments ‖ q)")
def kl_log_normal_normal(p: LogNormal, q: Normal) -> Tensor:
    """The divergence grows as e^(2σ²), beyond what the nodes of an integral reach."""
    (loc, sigma), (loc_q, scale_q) = read(p, "loc", "scale"), read(q, "loc", "scale")
    variance = sigma * sigma
    infinite = loc + variance - torch.log(scale_q) > _LARGEST_LOG_OF_SQUARE
    loc, variance = torch.where(infinite, 0.0, loc), torch.where(infinite, 1.0, variance)
    mean, widening = torch.exp(loc + variance / 2), torch.log1p(expm1mx(variance) / variance)
    sd = mean * torch.sqrt(variance) * torch.exp(widening / 2)
    value = kl_to_normal((variance + widening) / 2, sd, mean, loc_q, scale_q)
    return torch.where(infinite, math.inf, value)
