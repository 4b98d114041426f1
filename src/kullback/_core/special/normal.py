"""Logarithms of normal probabilities: log Φ(x) and log(Φ(b) - Φ(a)), in both tails.

Everything is written in Mills' ratio M(t) = (1 - Φ(t))/φ(t) for t ≥ 0, which neither over- nor underflows, and in
the excess 1/M(t) - t > 0 of the hazard rate over its asymptote.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback._core.gauss_legendre import gauss_legendre
from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._double_double import two_difference, two_product, two_sum
from kullback._core.special._precision import horner, widen

_DENSITY_AT_0 = 0.3989422804014327
_RULE = gauss_legendre(16)

# (1+t)·M(t) and (1+t)·(1/M(t) - t) in powers of (t-4)/(t+4): Chebyshev fits over 0 ≤ t < ∞, truncation below 1e-18.
_MILLS = [
    1.1832619145678034,
    -0.24239967052180733,
    0.03509188023474844,
    0.07169048120135553,
    -0.08070800967907785,
    0.0449591290796216,
    -0.012539103619802412,
    -0.0007159509422467714,
    0.0017418487664498743,
    -0.00023670145808056222,
    -0.00022021552209505047,
    5.32654519285275e-05,
    3.4158557305973363e-05,
    -8.601146131868445e-06,
    -6.552512140210915e-06,
    1.0081435155152407e-06,
    1.388821810045529e-06,
    1.4427213130823214e-08,
    -2.837400369366501e-07,
    -6.346165994336776e-08,
    4.703054516510604e-08,
    2.6783791471889238e-08,
    -3.447253631008603e-09,
    -7.558060003120266e-09,
    -1.3354359918727282e-09,
    1.5345107168128324e-09,
    6.669527576577595e-10,
    -2.052820803189566e-10,
    -1.4627317702767955e-10,
    1.358194159867087e-11,
    1.4249776750126316e-11,
]
_MILLS_EXCESS = [
    1.1280357224473554,
    -0.06205637998113664,
    -0.1921037481908368,
    0.19293246887911109,
    -0.06107108420315128,
    -0.030769392022997506,
    0.03242420504356223,
    -0.00112908610284387,
    -0.010605538940574545,
    0.003292660404003658,
    0.0027520370279867645,
    -0.0016937124911848415,
    -0.0005603819416286118,
    0.0006389950410902055,
    6.873377055885264e-05,
    -0.0002024075780336588,
    9.234113052910978e-06,
    5.525654318157617e-05,
    -1.032293888708473e-05,
    -1.2681714651519663e-05,
    4.6718560053138635e-06,
    2.2045177064932826e-06,
    -1.6262766448395132e-06,
    -1.7927174713778942e-07,
    4.7284123911067336e-07,
    -4.211793183778679e-08,
    -1.111987977280818e-07,
    1.7701312705661022e-08,
    1.8605340394058275e-08,
    -2.2073114055141977e-09,
    -1.6131473672760651e-09,
]


def _beyond_the_end(coefficients: list[float]) -> list[float]:
    """[P(u) - P(-1)]/(u + 1), by synthetic division."""
    quotient = [0.0]
    for coefficient in reversed(coefficients[1:]):
        quotient.append(coefficient - quotient[-1])
    return quotient[:0:-1]


_MILLS_RISE, _EXCESS_RISE = _beyond_the_end(_MILLS), _beyond_the_end(_MILLS_EXCESS)
_CENTRAL_RISE = [_DENSITY_AT_0 * coefficient for coefficient in _MILLS_RISE]


def _anchored(t: Tensor, at_zero: float, at_zero_low: float, rise: list[float]) -> Tensor:
    """A fit over 1 + t that is exact at t = 0, the end of its interval, where a fit is worst."""
    beyond = torch.where(t == math.inf, 2.0, 2 * (t / (t + 4)))
    value = at_zero + (beyond * horner(1 - 8 / (t + 4), rise) + at_zero_low)
    total, lost = two_sum(torch.ones_like(t), t)
    quotient = value / total
    return torch.where(t == math.inf, quotient, quotient - quotient * (lost / total))


def mills(t: Tensor) -> Tensor:
    """(1 - Φ(t))/φ(t), t ≥ 0; √(π/2) at 0."""
    return _anchored(t, 1.2533141373155003, -9.16428999022958e-17, _MILLS_RISE)


def mills_excess(t: Tensor) -> Tensor:
    """1/M(t) - t, t ≥ 0; √(2/π) at 0."""
    return _anchored(t, 0.7978845608028654, -4.98465440455546e-17, _EXCESS_RISE)


def central_mills(t: Tensor) -> Tensor:
    """φ(0) times Mills' ratio, t ≥ 0; exactly ½ at 0."""
    return _anchored(t, 0.5, 0.0, _CENTRAL_RISE)


def gaussian(t: Tensor, scale: Tensor) -> Tensor:
    """scale·e^(-t²/2), the rounding error of t² carried along; near 0 as the scale less what is lost from it."""
    square, square_low = two_product(t, t)
    correction = torch.where(torch.isfinite(square_low), 1 - 0.5 * square_low, 1.0)
    near = scale + scale * torch.expm1(-0.5 * square)
    return torch.where(t < 1, near, torch.exp(-0.5 * square) * correction * scale)


def density(t: Tensor) -> Tensor:
    """φ(t)."""
    return gaussian(t, torch.full_like(t, _DENSITY_AT_0))


def log_ndtr(x: Tensor) -> Tensor:
    """Return log Φ(x)."""
    dtype, (wide,) = widen(x)
    point, step = split_point(wide)
    t = point.abs()
    ratio = central_mills(t)
    upper = gaussian(t, ratio)
    is_low = point <= 0
    value = torch.where(is_low, torch.log(ratio) - 0.5 * t * t, torch.log1p(-upper))
    value = torch.where(point == -math.inf, point, value)
    # Divided as tensors: torch multiplies a number over a tensor by the reciprocal, which overflows first.
    slope = torch.where(is_low, torch.full_like(t, _DENSITY_AT_0), density(t)) / torch.where(is_low, ratio, 1 - upper)
    curvature = -slope * torch.where(is_low, mills_excess(t), slope + t)
    return attach(value, [step], [slope], [curvature]).to(dtype)


class _Interval:
    """Φ(b) - Φ(a) for a ≤ b and a + b ≤ 0: its logarithm, and φ(a), φ(b) and the curvature in b relative to it."""

    def __init__(self, a: Tensor, b: Tensor) -> None:
        width, centre = b - a, 0.5 * (a + b)
        is_narrow = (width <= 1) & (width * centre.abs() <= 1)
        is_tail = b <= 0
        choices = [self._narrow(a, b, width, centre), self._tail(a, b), self._central(a, b)]
        self.log_mass, self.low, self.high, self.excess = (
            torch.where(is_narrow, x, torch.where(is_tail, y, z)) for x, y, z in zip(*choices, strict=True)
        )

    @staticmethod
    def _narrow(a: Tensor, b: Tensor, width: Tensor, centre: Tensor) -> tuple[Tensor, ...]:
        """Φ(b) - Φ(a) = φ(c)·w·∫₀¹ e^(-(wτ)²/8)·cosh(c·w·τ/2)dτ with centre c and width w."""
        nodes = torch.tensor(_RULE.nodes, dtype=a.dtype, device=a.device)
        weights = torch.tensor(_RULE.weights, dtype=a.dtype, device=a.device)
        half = 0.5 * width.unsqueeze(-1) * nodes
        mean = (torch.exp(-0.5 * half * half) * torch.cosh(centre.unsqueeze(-1) * half) * weights).sum(-1)
        relative = width * mean
        low = torch.exp(0.25 * width * (a + centre)) / relative
        high = torch.exp(-0.25 * width * (b + centre)) / relative
        return torch.log(_DENSITY_AT_0 * relative) - 0.5 * centre * centre, low, high, high + b

    @staticmethod
    def _tail(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        """Both ends in the lower tail: φ(b)·[M(|b|) - φ(a)/φ(b)·M(|a|)]."""
        s, t = a.abs(), b.abs()
        (gap, gap_low), (total, total_low) = two_difference(s, t), two_sum(s, t)
        exponent, exponent_low = two_product(gap, total)
        exponent_low = exponent_low + (gap * total_low + gap_low * total)
        correction = torch.where(torch.isfinite(exponent_low), 1 - 0.5 * exponent_low, 1.0)
        # Its root, because the square may be subnormal where what is made of it is not.
        root = torch.exp(-0.25 * exponent)
        decay = root * (root * correction)
        ratio, beyond = mills(t), decay * mills(s)
        relative = ratio - beyond
        high = 1 / relative
        # The hazard rate of the whole tail exceeds |b| by the excess; cutting the tail at a adds the rest.
        excess = mills_excess(t) + beyond / (ratio * relative)
        low = root * (root * correction * high)
        return torch.log(_DENSITY_AT_0 * relative) - 0.5 * t * t, low, high, excess

    @staticmethod
    def _central(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        """The interval holds 0: one minus two tails, or the sum of two error functions."""
        s, t = a.abs(), b.abs()
        low, high = density(s), density(t)
        outside = low * mills(s) + high * mills(t)
        inside = 0.5 * (torch.erf(s * math.sqrt(0.5)) + torch.erf(t * math.sqrt(0.5)))
        is_most = outside < 0.5
        mass = torch.where(is_most, 1 - outside, inside)
        log_mass = torch.where(is_most, torch.log1p(-outside), torch.log(inside))
        return log_mass, low / mass, high / mass, high / mass + t


def log_ndtr_diff(a: Tensor, b: Tensor) -> Tensor:
    """log(Φ(b) - Φ(a)), a ≤ b."""
    dtype, (a_wide, b_wide) = widen(a, b)
    (a0, a_step), (b0, b_step) = split_point(a_wide), split_point(b_wide)
    is_mirrored = a0 + b0 > 0
    low, high = torch.where(is_mirrored, -b0, a0), torch.where(is_mirrored, -a0, b0)
    part = _Interval(low, high)
    value = torch.where(a0 == b0, -math.inf, torch.where(a0 > b0, math.nan, part.log_mass))
    low_curvature = -part.low * (part.low - low)
    high_curvature = -part.high * part.excess
    first = [torch.where(is_mirrored, -part.high, -part.low), torch.where(is_mirrored, part.low, part.high)]
    second = [
        torch.where(is_mirrored, high_curvature, low_curvature),
        part.low * part.high,
        torch.where(is_mirrored, low_curvature, high_curvature),
    ]
    first, second = ([torch.where(a0 > b0, math.nan, slope) for slope in slopes] for slopes in (first, second))
    # An infinite end has no density left, and contributes no slope.
    is_open = torch.isinf(a0), torch.isinf(b0)
    first = [torch.where(open_end, 0.0, slope) for open_end, slope in zip(is_open, first, strict=True)]
    second = [
        torch.where(end, 0.0, slope)
        for end, slope in zip((is_open[0], is_open[0] | is_open[1], is_open[1]), second, strict=True)
    ]
    return attach(value, [a_step, b_step], first, second).to(dtype)
