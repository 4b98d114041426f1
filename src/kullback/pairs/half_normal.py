"""KL(HalfNormal ‖ q)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Gumbel, HalfNormal

from kullback._core.special._precision import horner
from kullback.pairs.parameters import read
from kullback.pairs.products import settled
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.roundings import Answer, rounded
from kullback.special import expm1mx

# From here on erfcx is its asymptotic series in −1/(2x²), whose five terms leave less than a rounding.
_FAR, _ERFCX = 50.0, [1.0, 3.0, 15.0, 105.0, 945.0]


@register(
    HalfNormal, HalfNormal, source="½φ(2·log(σ_p/σ_q)), that of the Normals: |x| keeps all about laws symmetric in 0"
)
def kl_half_normal_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    """The Normals centred at 0."""
    return expm1mx(2 * log_ratio(*read(p, "scale"), *read(q, "scale"))) / 2


@register(
    HalfNormal,
    Gumbel,
    source="φ(L) + log erfcx(t/√2) + t√(2/π) − log t + ½log(2e/π), L = μ/β + log erfcx(t/√2), t = σ/β",
)
def kl_half_normal_gumbel(p: HalfNormal, q: Gumbel) -> Answer:
    """E e^(−x/β) = 2e^(t²/2)·Φ(−t) = erfcx(t/√2)."""
    (scale_p,), (loc, scale) = read(p, "scale"), read(q, "loc", "scale")
    t = scale_p / scale
    log_moment = _log_erfcx(t * math.sqrt(0.5))
    log_mgf = loc / scale + log_moment
    finite = log_mgf < 709.0
    log_mgf = torch.where(finite, log_mgf, 0.0)
    mean = t * math.sqrt(2 / math.pi)
    value = expm1mx(log_mgf) + (log_moment + mean) - torch.log(t) + 0.5 * math.log(2 * math.e / math.pi)
    sizes = value + torch.expm1(log_mgf).abs() * (1 + (loc / scale).abs() + log_moment.abs())
    sizes = sizes + log_moment.abs() + mean + torch.log(t).abs()
    return rounded(settled(torch.where(finite, value, torch.inf)), sizes)


def _log_erfcx(x: Tensor) -> Tensor:
    """log(e^(x²)·erfc(x)) for x ≥ 0.

    Its slope 2x − 2/(√π·erfcx(x)) is about −1/x, of which the difference loses x² roundings: for large x the series

        erfcx(x) = (1 + s + 3s² + 15s³ + …)/(x√π),  s = −1/(2x²),

    is differentiated instead. [DLMF 7.12.1]
    """
    small, large = x < 1, x > _FAR
    near, far = torch.where(small, x, 0.0), torch.where(large, x, _FAR)
    log_near = near * near + torch.log1p(-torch.erf(near))
    between = torch.log(torch.special.erfcx(torch.where(small | large, 1.0, x)))
    s = -0.5 / far / far
    log_far = torch.log1p(s * horner(s, _ERFCX)) - torch.log(far) - 0.5 * math.log(math.pi)
    return torch.where(small, log_near, torch.where(large, log_far, between))
