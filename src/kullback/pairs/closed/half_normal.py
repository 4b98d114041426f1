"""KL(HalfNormal ‖ q); x²/2σ² is a Gamma(½, 1). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Gumbel, HalfNormal, Laplace

from kullback._core.special._precision import horner
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.closed.normal import scale_term
from kullback.pairs.moments import EULER, LogMoments, kl_to_laplace, register_moments
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.special import expm1mx, lgamma_bregman, log_ndtr

_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
_LOG_HALF_PI = math.log(math.pi / 2)
# From here on five terms of erfcx's asymptotic series leave less than a rounding.
_SERIES_FROM, _ERFCX = 50.0, [1.0, 3.0, 15.0, 105.0, 945.0]
# ½R′(½) − R(½) with Binet's remainder R.
_SHAPE = 0.5 * (1 - EULER - math.log(2)) - 0.5 + 0.5 * math.log(2)


@register(HalfNormal, HalfNormal, source="½φ(2·log(σ_p/σ_q)), that of the Normals centred at 0", finished=True)
def kl_half_normal_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    """Both Normals are symmetric, and |x| keeps the rest."""
    return half_normal_op(p.scale, q.scale)


half_normal_op = PairOp("half_normal", scale_term, arguments=("scale_p", "scale_q"))


def half_normal_moments(p: HalfNormal) -> LogMoments:
    """A(c) is that of a Gamma(½, 1) at c/2."""
    (scale,) = read(p, "scale")
    half = torch.full_like(scale, 0.5)

    def jensen(c: Tensor) -> tuple[Tensor, Tensor]:
        infinite = c <= -1
        start, end = torch.broadcast_tensors(half, 0.5 + torch.where(infinite, 1.0, c) / 2)  # type: ignore[no-untyped-call]
        return lgamma_bregman(start, end), infinite

    mean = torch.log(scale) - 0.5 * (EULER + math.log(2))
    return LogMoments(mean, math.pi**2 / 4 * half, math.log(math.pi**2 / 4), 4 * half, _SHAPE, jensen)


register_moments(
    HalfNormal,
    half_normal_moments,
    "E xᶜ = (σ√2)ᶜ·Γ((1+c)/2)/√π, κ = 2",
    [d.Exponential, d.Gamma, d.LogNormal, d.Normal, d.Weibull],
)


@register(
    HalfNormal, Gumbel, source="φ(L) + L − μ/β + t√(2/π) − log t + ½log(2e/π), L = μ/β + t²/2 + log 2Φ(−t), t = σ/β"
)
def kl_half_normal_gumbel(p: HalfNormal, q: Gumbel) -> Tensor:
    """E e^(−x/β) = 2e^(t²/2)·Φ(−t)."""
    (scale_p,), (loc, scale) = read(p, "scale"), read(q, "loc", "scale")
    t = scale_p / scale
    log_moment = _log_erfcx(t * math.sqrt(0.5))
    log_mgf = loc / scale + log_moment
    over = log_mgf > 709
    value = expm1mx(torch.where(over, 0.0, log_mgf)) + (log_moment + t * _ROOT_2_OVER_PI)
    return torch.where(over, math.inf, value - torch.log(t) + (1 - _LOG_HALF_PI) / 2)


def _log_erfcx(x: Tensor) -> Tensor:
    """log(e^(x²)·erfc(x)) for x ≥ 0.

    Its slope 2x − 2/(√π·erfcx(x)) is about −1/x, of which the difference loses x² roundings: for large x the series
    erfcx(x) = (1 + s + 3s² + 15s³ + …)/(x√π), s = −1/(2x²), is differentiated instead. [DLMF 7.12.1]
    """
    small, large = x < 1, x > _SERIES_FROM
    near, far = torch.where(small, x, 0.0), torch.where(large, x, _SERIES_FROM)
    log_near = near * near + log_ndtr(-math.sqrt(2) * near) + math.log(2)
    between = torch.log(torch.special.erfcx(torch.where(small | large, 1.0, x)))
    s = -0.5 / far / far
    log_far = torch.log1p(s * horner(s, _ERFCX)) - torch.log(far) - 0.5 * math.log(math.pi)
    return torch.where(small, log_near, torch.where(large, log_far, between))


@register(
    HalfNormal,
    Laplace,
    source="φ(log(t/b)) + 1 + log 2t − H(p), t/σ = z(2·erf(z/√2) − 1) + √(2/π)(2e^(−z²/2) − 1), z = μ/σ > 0",
)
def kl_half_normal_laplace(p: HalfNormal, q: Laplace) -> Tensor:
    """E|x − μ| is E x − μ for μ ≤ 0."""
    (scale_p,), (loc, scale) = read(p, "scale"), read(q, "loc", "scale")
    z = loc / scale_p
    up = z.clamp_min(0.0)
    above = up * (2 * torch.erf(up * math.sqrt(0.5)) - 1) + _ROOT_2_OVER_PI * (2 * torch.exp(-up * up / 2) - 1)
    absolute = scale_p * torch.where(z > 0, above, _ROOT_2_OVER_PI - z)
    return kl_to_laplace(absolute, torch.log(scale_p) + 0.5 + _LOG_HALF_PI / 2, scale)
