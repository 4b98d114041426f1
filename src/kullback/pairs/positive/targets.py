"""KL(p ‖ q) for q of exponential type on the half-line, or Normal, from what is known of log x under p.

The closest member of q's family (of its scales, for a generalised gamma law) is explicit, and the distance splits into
the distance to it and from it to q, neither of which is negative:

    ‖ LogNormal(μ, σ):    J + ½φ(log(Var y/σ²)) + ½((E y − μ)/σ)²,    J = N + ½log(Var y/τ²);
    ‖ x^c·ρ ~ Gamma(b):   b·φ(log(ρ·E x^c/b)) + ½φ(log(2b·A(c))) + R(b) + N + ½log(1 + r(c));
    ‖ Normal(μ, σ):       J + ½φ(log(Var x/σ²)) + ½((E x − μ)/σ)²,    J = A(1) + N + ½log((Var x/(E x)²)/τ²),

with φ(x) = eˣ − 1 − x, Binet's remainder R, and the excess A, r, N and τ² of `LogLaw`. The second line is
log Γ(b) − b·log b + b = R(b) − ½log(b/2π) applied to E log q, with ½log(2πe·2A/c²) − H(y) added and taken away.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import (
    Distribution,
    Exponential,
    Gamma,
    HalfNormal,
    InverseGamma,
    LogNormal,
    Normal,
    Weibull,
)

from kullback.pairs.parameters import read
from kullback.pairs.positive.law import Excess, LogLaw, log_expm1_ratio
from kullback.pairs.products import settled
from kullback.pairs.ratios import log_ratio
from kullback.pairs.roundings import Answer, rounded
from kullback.special import binet, expm1mx

# Moments beyond e^this are infinite as far as float64 knows.
_LARGEST = 709.0
# From this excess on a moment is computed as it is, not from E log x and the excess.
_WIDE = 1.0


def to_log_normal(law: LogLaw, q: Distribution) -> Answer:
    """Log x against a Normal."""
    return log_to_normal(law, *read(q, "loc", "scale"))


def log_to_normal(law: LogLaw, loc: Tensor, scale: Tensor) -> Answer:
    """Log x against a Normal of these parameters."""
    log_rest = torch.log1p(law.rest)
    log_width = 2 * log_ratio(law.deviation, scale) + log_rest
    offset = (law.mean - loc) / scale
    value = law.negentropy + (log_rest + expm1mx(log_width) + offset**2) / 2
    # Where the means agree to their last digits, what is left of the offset is rounding, and so is its square.
    spread = (law.mean.abs() + loc.abs()) / scale
    by_offset = (offset.abs() + torch.finfo(value.dtype).eps * spread) * spread
    by_width = torch.expm1(log_width).abs() * (1 + law.blur + log_width.abs()) + law.blur
    return rounded(value, value + law.negentropy.abs() + log_rest.abs() + by_offset + by_width)


def to_power_of_gamma(law: LogLaw, b: Tensor, power: Tensor, log_centre: Tensor, log_scale: Tensor) -> Answer:
    """Against x = centre·(G/b)^(1/power) = scale·G^(1/power), G ~ Gamma(b, 1)."""
    relative = law.excess(power)
    excess = power * power / law.precision * relative.ratio / 2
    log_over_b = power * (law.mean - log_centre) + excess
    log_mean = power * (law.mean - log_scale) + excess
    known_to = (power * law.mean).abs() + excess * (1 + law.blur)
    if law.log_moment is not None:
        moment = law.log_moment(power)
        wide = excess > _WIDE
        log_over_b = torch.where(wide, moment - power * log_centre, log_over_b)
        log_mean = torch.where(wide, moment - power * log_scale, log_mean)
    finite = relative.finite & (log_mean < _LARGEST)
    log_over_b, log_mean = torch.where(finite, log_over_b, 0.0), torch.where(finite, log_mean, 0.0)
    log_relative = relative.where_finite(finite).log()
    log_width = log_ratio(b * power * power, law.precision) + log_relative
    # Away from M = b, and for wide laws, b·φ(log(M/b)) and ½φ(log 2bA) both hold ±b·A, which is not in their sum; with
    # it taken out no derivative is a difference of terms of size b.
    far = finite & ((log_over_b.abs() > 1) | (excess > _WIDE))
    drift = power * torch.where(far, law.mean - log_centre, 0.0)
    apart = torch.exp(torch.where(far, log_mean, 0.0)) - b * (1 + drift)
    apart = apart - (1 + torch.where(far, log_ratio(b * power * power, law.precision), 0.0)) / 2
    close = b * expm1mx(torch.where(far, 0.0, log_over_b))
    close = close + (expm1mx(torch.where(far, 0.0, log_width)) + torch.where(far, 0.0, log_relative)) / 2
    total = torch.where(far, apart, close) + (binet(b) + law.negentropy)
    by_mean = (b * torch.expm1(log_over_b)).abs() * (1 + known_to + (power * log_scale).abs())
    by_width = torch.expm1(log_width).abs() * (1 + law.blur + log_width.abs()) + law.blur
    sizes = total + by_mean + by_width + binet(b) + law.negentropy.abs() + log_relative.abs()
    return rounded(settled(torch.where(finite, total, torch.inf)), sizes)


def to_gamma(law: LogLaw, q: Distribution) -> Answer:
    """The power 1."""
    b, rate = read(q, "concentration", "rate")
    return to_power_of_gamma(law, b, torch.ones_like(b), log_ratio(b, rate), -torch.log(rate))


def to_exponential(law: LogLaw, q: Distribution) -> Answer:
    """A Gamma of concentration 1."""
    (rate,) = read(q, "rate")
    one = torch.ones_like(rate)
    return to_power_of_gamma(law, one, one, -torch.log(rate), -torch.log(rate))


def to_inverse_gamma(law: LogLaw, q: Distribution) -> Answer:
    """The power −1."""
    b, rate = read(q, "concentration", "rate")
    return to_power_of_gamma(law, b, -torch.ones_like(b), log_ratio(rate, b), torch.log(rate))


def to_half_normal(law: LogLaw, q: Distribution) -> Answer:
    """x²/2σ² is a Gamma of concentration ½."""
    (scale,) = read(q, "scale")
    half, log_scale = torch.full_like(scale, 0.5), torch.log(scale)
    return to_power_of_gamma(law, half, 4 * half, log_scale, log_scale + 0.5 * math.log(2))


def to_weibull(law: LogLaw, q: Distribution) -> Answer:
    """(x/λ)^k is an Exponential."""
    scale, k = read(q, "scale", "concentration")
    return to_power_of_gamma(law, torch.ones_like(k), k, torch.log(scale), torch.log(scale))


def to_normal(law: LogLaw, q: Distribution) -> Answer:
    """Mean and variance of x: Var x/(E x)² = e^D − 1, D = A(2) − 2A(1) = τ²·(1 + 2r(2) − r(1))."""
    loc, scale = read(q, "loc", "scale")
    one = torch.ones_like(law.precision)
    first, second = law.excess(one), law.excess(2 * one)
    log_mean = law.mean + first.ratio / law.precision / 2
    bent, bent_r = 2 * second.ratio - first.ratio, 2 * second.r - first.r
    if law.log_moment is not None:
        # Both excesses of a wide law nearly cancel E log x, and in D each other.
        wide = first.ratio / law.precision / 2 > _WIDE
        moments = law.log_moment(one), law.log_moment(2 * one)
        log_mean = torch.where(wide, moments[0], log_mean)
        bent = torch.where(wide, (moments[1] - 2 * moments[0]) * law.precision, bent)
        bent_r = torch.where(wide, bent - 1, bent_r)
    width = bent / law.precision
    finite = first.finite & second.finite & (log_mean + width / 2 < _LARGEST)
    first, second = first.where_finite(finite), second.where_finite(finite)
    precision, deviation = (torch.where(finite, x, 1.0) for x in (law.precision, law.deviation))
    log_mean = torch.where(finite, log_mean, 0.0)
    bend = Excess(bent_r, bent).where_finite(finite)
    log_bend = bend.log() + log_expm1_ratio(bend.ratio / precision)
    negentropy = (first.ratio / precision + log_bend) / 2 + law.negentropy
    log_width = 2 * (log_mean + log_ratio(deviation, scale)) + log_bend
    offset = _exp_less(log_mean, loc) / scale
    total = negentropy + (expm1mx(log_width) + offset**2) / 2
    known_to = law.mean.abs() + (1 + law.blur) * first.ratio / precision
    by_offset = offset.abs() * (torch.exp(log_mean) * (1 + known_to) + loc.abs()) / scale
    by_width = torch.expm1(log_width).abs() * (1 + 2 * known_to + log_width.abs()) + law.blur
    sizes = total + law.negentropy.abs() + log_bend.abs() + by_offset + by_width
    return rounded(settled(torch.where(finite, total, torch.inf)), sizes)


def _exp_less(x: Tensor, y: Tensor) -> Tensor:
    """eˣ − y, for small x from its distance to 1."""
    small = x.abs() < 0.5
    return torch.where(
        small, torch.expm1(torch.where(small, x, 0.0)) - (y - 1), torch.exp(torch.where(small, 0.0, x)) - y
    )


TARGETS: dict[type[Distribution], Callable[[LogLaw, Distribution], Answer]] = {
    Exponential: to_exponential,
    Gamma: to_gamma,
    HalfNormal: to_half_normal,
    InverseGamma: to_inverse_gamma,
    LogNormal: to_log_normal,
    Normal: to_normal,
    Weibull: to_weibull,
}
