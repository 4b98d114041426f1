"""KL(Laplace ‖ q)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Gumbel, Laplace, Normal

from kullback._core.special._double_double import two_difference, two_sum
from kullback.pairs.moments import kl_to_normal, multiple
from kullback.pairs.parameters import read
from kullback.pairs.products import settled
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.roundings import Answer, rounded
from kullback.special import expm1mx

_NEGENTROPY = 0.5 * math.log(math.pi) - 0.5
# √2, and what follows its double.
_ROOT_2 = (1.4142135623730951, -9.667293313452913e-17)


@register(Laplace, Laplace, source="φ(log(b_p·m/b_q)) + log m, m = E|x − μ_q|/b_p = 1 + φ(−|Δμ|/b_p)")
def kl_laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    """The term log m is second order in Δμ, the first term in log b, and neither is negative."""
    loc_p, scale_p = read(p, "loc", "scale")
    loc_q, scale_q = read(q, "loc", "scale")
    difference = loc_p - loc_q
    # |x| with slope 1 at 0: the divergence is smooth there, and torch.abs would lose its second derivative.
    distance = torch.where(difference < 0, -difference, difference)
    log_scales = log_ratio(scale_p, scale_q)
    delta = distance / scale_p
    near = delta < 1
    log_mean = torch.log1p(expm1mx(-torch.where(near, delta, 0.0)))
    close = expm1mx(log_scales + log_mean) + log_mean
    # Far apart E|x − μ_q| is all but |Δμ|, which must not be built from b_p.
    spread = scale_p * torch.exp(-delta)
    absolute = distance + spread
    apart = absolute / scale_q - 1 - log_scales
    # Where it is about b_q, the slope in b_q is its difference from that, to which what was rounded off belongs.
    alike = (absolute - scale_q).abs() < 0.5 * scale_q
    mean, scale = (torch.where(alike, t, 1.0) for t in (absolute, scale_q))
    rest = torch.where(difference < 0, -1.0, 1.0) * two_difference(loc_p, loc_q)[1] + two_sum(distance, spread)[1]
    excess = log_ratio(mean, scale) + (torch.where(alike, rest, 0.0) / mean).detach()
    tied = expm1mx(excess) + log_ratio(mean, torch.where(alike, scale_p, 1.0))
    return torch.where(near, close, torch.where(alike, tied, apart))


@register(Laplace, Normal, source="½log(π/e) + KL(Normal of the same moments ‖ q)")
def kl_laplace_normal(p: Laplace, q: Normal) -> Tensor:
    """The variance of a Laplace is 2b²."""
    loc, scale = read(p, "loc", "scale")
    return kl_to_normal(_NEGENTROPY, multiple(scale, _ROOT_2), two_difference(loc, read(q, "loc")[0]), q)


@register(Laplace, Gumbel, source="φ(L) − log(2t(1 − t²)), L = −Δμ/β − log(1 − t²), t = b/β; infinite if t ≥ 1")
def kl_laplace_gumbel(p: Laplace, q: Gumbel) -> Answer:
    """E e^(−z) = e^L; the second term has the minimum 0.26 at t = 1/√3."""
    loc_p, scale_p = read(p, "loc", "scale")
    loc_q, scale_q = read(q, "loc", "scale")
    finite = scale_p < scale_q
    t = torch.where(finite, scale_p / scale_q, 0.5)
    small = t < 0.5
    near, far = torch.where(small, t, 0.0), torch.where(small, 0.5, t)
    log_rest = torch.where(small, torch.log1p(-near * near), torch.log1p(-far) + torch.log1p(far))
    log_mgf = -(loc_p - loc_q) / scale_q - log_rest
    finite = finite & (log_mgf < 709.0)
    log_mgf = torch.where(finite, log_mgf, 0.0)
    value = expm1mx(log_mgf) - log_rest - torch.log(2 * t)
    known_to = 1 + (loc_p / scale_q).abs() + (loc_q / scale_q).abs() + log_rest.abs()
    sizes = value + torch.expm1(log_mgf).abs() * known_to + log_rest.abs() + torch.log(2 * t).abs()
    return rounded(settled(torch.where(finite, value, torch.inf)), sizes)
