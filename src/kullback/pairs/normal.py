"""KL(Normal ‖ q). Expectations under a Gaussian."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Gumbel, Laplace, Normal

from kullback._core.special._double_double import minus, rounded, times, two_difference, two_product
from kullback._core.special._precision import horner
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.moments import exact, multiple
from kullback.pairs.parameters import read
from kullback.pairs.products import corrected, settled
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.special import expm1mx, log1pmx

# √(2/π), and what follows its double.
_ROOT_2_OVER_PI = (0.7978845608028654, -4.98465440455546e-17)
_GROWTH = [(-0.5) ** k / (math.factorial(k) * (2 * k + 1) * (2 * k + 2)) for k in range(10)]
# Scales whose squares are beyond these are not squared.
_SMALL, _LARGE = 1e-280, 1e280


@register(Normal, Normal, source="½[φ(2s) + (Δμ/σ_q)²], s = log(σ_p/σ_q), φ(x) = eˣ − 1 − x", finished=True)
def kl_normal_normal(p: Normal, q: Normal) -> Tensor:
    """See `normal_normal`."""
    return normal_op(p.loc, p.scale, q.loc, q.scale)


def normal_normal(loc_p: Tensor, scale_p: Tensor, loc_q: Tensor, scale_q: Tensor) -> Tensor:
    """Both terms are non-negative; the logarithm of the ratio is taken so that no σ² over- or underflows.

    For σ_p far below |Δμ| ≈ σ_q the slope in σ_q is that of ½[φ(2·log(|Δμ|/σ_q)) + (σ_p/σ_q)²] + log(|Δμ|/σ_p), where
    its two large terms do not cancel.
    """
    difference, rest = two_difference(loc_p, loc_q)
    usual = (expm1mx(2 * log_ratio(scale_p, scale_q)) + (difference / scale_q) ** 2) / 2
    sign = torch.where(difference < 0, -1.0, 1.0)
    distance = sign * difference
    tied = (distance > 0.5 * scale_q) & (distance < 2 * scale_q) & (scale_p < 0.5 * scale_q)
    far, scale, narrow = (torch.where(tied, t, 1.0) for t in (distance, scale_q, scale_p))
    log_far = log_ratio(far, scale) + (torch.where(tied, sign * rest, 0.0) / far).detach()
    apart = (expm1mx(2 * log_far) + (narrow / scale) ** 2) / 2 + log_ratio(far, narrow)
    return torch.where(tied, apart, usual)


normal_op = PairOp("normal", normal_normal, arguments=("loc_p", "scale_p", "loc_q", "scale_q"))


@register(Normal, Gumbel, source="½φ(2s) + φ(½e^(2s) − Δμ/β) + 1 − ½log 2π, s = log(σ/β)")
def kl_normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    """E e^(−z) = e^u with u = ½(σ/β)² − Δμ/β; u + E z = ½(σ/β)² joins the entropy."""
    loc_p, scale_p = read(p, "loc", "scale")
    loc_q, scale_q = read(q, "loc", "scale")
    log_mgf = (scale_p / scale_q) ** 2 / 2 - (loc_p - loc_q) / scale_q
    # Next to the closest Gumbel the two terms agree: (σ² − 2βΔμ)/2β² knows their difference.
    at_p, at_q = scale_p.detach(), scale_q.detach()
    twice, lost = two_difference(2 * loc_p.detach(), 2 * loc_q.detach())
    difference = minus(two_product(at_p, at_p), times((twice, lost), exact(at_q)))
    square = at_q * at_q
    usual = (square > _SMALL) & (square < _LARGE)
    log_mgf = torch.where(usual, corrected(log_mgf, rounded(difference) / at_q / at_q / 2), log_mgf)
    constant = 1 - 0.5 * math.log(2 * math.pi)
    return settled(expm1mx(2 * log_ratio(scale_p, scale_q)) / 2 + expm1mx(log_mgf) + constant)


@register(Normal, Laplace, source="E|x − μ_q|/b + log(b/σ) − ½log(πe/2)")
def kl_normal_laplace(p: Normal, q: Laplace) -> Tensor:
    """E|x − μ_q| = σ·√(2/π)·e^(−δ²/2) + Δμ·erf(δ/√2), δ = Δμ/σ; see `_near_laplace` for b close to it."""
    loc_p, scale_p = read(p, "loc", "scale")
    loc_q, scale_q = read(q, "loc", "scale")
    difference = loc_p - loc_q
    delta = difference / scale_p
    absolute = math.sqrt(2 / math.pi) * scale_p * torch.exp(-delta * delta / 2)
    absolute = absolute + difference * torch.erf(delta * math.sqrt(0.5))
    apart = absolute / scale_q - log_ratio(scale_p, scale_q) - 0.5 * math.log(math.pi * math.e / 2)
    near = (delta.abs() < 0.5) & ((absolute - scale_q).abs() < 0.5 * scale_q)
    inner = (torch.where(near, x, one) for x, one in ((difference, 0.0), (scale_p, 1.0), (scale_q, 1.0)))
    return torch.where(near, _near_laplace(*inner), apart)


def _near_laplace(difference: Tensor, scale_p: Tensor, scale_q: Tensor) -> Tensor:
    """φ(log(m/b)) + log g + ½ − log(π/2) with m = E|x − μ_q| = √(2/π)·σ·g; the least value, at b = m, is 0.048.

    g − 1 = Σ (−1)ᵏ δ^(2k+2)/(2ᵏ k! (2k+1)(2k+2)) is small, so that m − b is known as well as √(2/π)·σ − b is.
    """
    delta = difference / scale_p
    square = delta * delta
    growth = square * horner(square, _GROWTH)
    around, lost = multiple(scale_p, _ROOT_2_OVER_PI)
    relative = (((around - scale_q) + lost) + around * growth) / scale_q
    return torch.log1p(growth) - log1pmx(relative) + (0.5 - math.log(math.pi / 2))
