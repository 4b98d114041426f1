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
from kullback._core.special._double_double import (
    Pair,
    divided,
    minus,
    plus,
    rounded,
    times,
    two_difference,
    two_product,
    two_sum,
)
from kullback._core.special._precision import horner, widen

_DENSITY_AT_0, _DENSITY_AT_0_LOW = 0.3989422804014327, -2.49232720227773e-17
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


def _finite(pair: Pair) -> Pair:
    """Without the correction where a product overflowed on its way to it."""
    return pair[0], torch.where(torch.isfinite(pair[1]), pair[1], 0.0)


def _anchored(t: Tensor, at_zero: float, at_zero_low: float, rise: list[float]) -> Pair:
    """A fit over 1 + t that is exact at t = 0, the end of its interval, where a fit is worst."""
    beyond = torch.where(t == math.inf, 2.0, 2 * (t / (t + 4)))
    value, value_low = two_sum(torch.full_like(t, at_zero), beyond * horner(1 - 8 / (t + 4), rise) + at_zero_low)
    total, lost = two_sum(torch.ones_like(t), t)
    return _finite(divided((value, value_low), (total, lost)))


def mills(t: Tensor) -> Pair:
    """(1 - Φ(t))/φ(t), t ≥ 0; √(π/2) at 0."""
    return _anchored(t, 1.2533141373155003, -9.16428999022958e-17, _MILLS_RISE)


def mills_excess(t: Tensor) -> Pair:
    """1/M(t) - t, t ≥ 0; √(2/π) at 0."""
    return _anchored(t, 0.7978845608028654, -4.98465440455546e-17, _EXCESS_RISE)


def central_mills(t: Tensor) -> Tensor:
    """φ(0) times Mills' ratio, t ≥ 0; exactly ½ at 0."""
    return rounded(_anchored(t, 0.5, 0.0, _CENTRAL_RISE))


def gaussian(t: Tensor, scale: Tensor) -> Tensor:
    """scale·e^(-t²/2), the rounding error of t² carried along; near 0 as the scale less what is lost from it."""
    square, square_low = two_product(t, t)
    square_low = torch.where(torch.isfinite(square_low), square_low, 0.0)
    near = scale + scale * (torch.expm1(-0.5 * square) - 0.5 * square_low)
    far, far_low = two_product(torch.exp(-0.5 * square), scale)
    return torch.where(t < 1, near, far + (far_low - far * (0.5 * square_low)))


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
    # The curvature is -slope·(1/M(t) - t) or -slope·(slope + t): twice the error of a slope that carries none along.
    zero = torch.zeros_like(t)
    peak = torch.where(is_low, _DENSITY_AT_0, density(t)), torch.where(is_low, _DENSITY_AT_0_LOW, zero)
    slope = _finite(divided(peak, _either(is_low, (ratio, zero), two_difference(torch.ones_like(t), upper))))
    curvature = _finite(times(slope, _either(is_low, mills_excess(t), plus(slope, (t, zero)))))
    return attach(value, [step], [rounded(slope)], [-rounded(curvature)]).to(dtype)


def _either(condition: Tensor, one: Pair, other: Pair) -> Pair:
    return torch.where(condition, one[0], other[0]), torch.where(condition, one[1], other[1])


class _Interval:
    """Φ(b) - Φ(a) for a ≤ b and a + b ≤ 0: its logarithm, and φ(a), φ(b) and the curvature in b relative to it.

    The latter carry corrections, because curvatures are products of two of them.
    """

    def __init__(self, a: Tensor, b: Tensor) -> None:
        width, centre = b - a, 0.5 * a + 0.5 * b
        lean = width * centre.abs()
        is_narrow = (width <= 1) & (lean <= 2)
        is_tail = b <= 0
        narrow, tail, central = self._narrow(a, b, centre), self._tail(a, b), self._central(a, b)
        self.log_mass = torch.where(is_narrow, narrow[0], torch.where(is_tail, tail[0], central[0]))
        # In a narrow interval the excess is a difference; the further out, the more of it cancels.
        by_width = is_narrow, is_narrow, (width <= 1) & (lean <= 1)
        self.low, self.high, self.excess = (
            _finite(_either(condition, x, _either(is_tail, y, z)))
            for condition, x, y, z in zip(by_width, narrow[1:], tail[1:], central[1:], strict=True)
        )

    @staticmethod
    def _narrow(a: Tensor, b: Tensor, centre: Tensor) -> tuple[Tensor, Pair, Pair, Pair]:
        """Φ(b) - Φ(a) = φ(c)·w·∫₀¹ e^(-(wτ)²/8)·cosh(c·w·τ/2)dτ, centre c and width w; the mean less 1 is small."""
        width = two_difference(b, a)
        nodes = torch.tensor(_RULE.nodes, dtype=a.dtype, device=a.device)
        weights = torch.tensor(_RULE.weights, dtype=a.dtype, device=a.device)
        half = 0.5 * width[0].unsqueeze(-1) * nodes
        lean = centre.unsqueeze(-1) * half
        less_one = torch.expm1(-0.5 * half * half) * torch.cosh(lean) + 2 * torch.sinh(0.5 * lean) ** 2
        mean = two_sum(torch.ones_like(a), (less_one * weights).sum(-1))
        relative = _finite(times(width, mean))
        low = _finite(divided(_exp(0.5 * width[0] * (0.5 * a + 0.5 * centre)), relative))
        high = _finite(divided(_exp(-0.5 * width[0] * (0.5 * b + 0.5 * centre)), relative))
        log_mass = torch.log(_DENSITY_AT_0 * rounded(relative)) - 0.5 * centre * centre
        return log_mass, low, high, plus(high, (b, torch.zeros_like(b)))

    @staticmethod
    def _tail(a: Tensor, b: Tensor) -> tuple[Tensor, Pair, Pair, Pair]:
        """Both ends in the lower tail: φ(b)·[M(|b|) - φ(a)/φ(b)·M(|a|)]."""
        s, t = a.abs(), b.abs()
        (gap, gap_low), (total, total_low) = two_difference(s, t), two_sum(s, t)
        exponent, exponent_low = two_product(gap, total)
        exponent_low = exponent_low + (gap * total_low + gap_low * total)
        correction = torch.where(torch.isfinite(exponent_low), 1 - 0.5 * exponent_low, 1.0)
        # Its root, because the square may be subnormal where what is made of it is not.
        root = torch.exp(-0.25 * exponent)
        decay = torch.exp(-0.5 * exponent) * correction
        ratio, beyond = mills(t), _finite(times((decay, torch.zeros_like(t)), mills(s)))
        relative = minus(ratio, beyond)
        one = torch.ones_like(t), torch.zeros_like(t)
        high = _finite(divided(one, relative))
        # The hazard rate of the whole tail exceeds |b| by the excess; cutting the tail at a adds the rest.
        excess = plus(mills_excess(t), _finite(divided(beyond, times(ratio, relative))))
        low_subnormal = root * (root * correction * high[0])
        low = _either(decay > 1e-290, _finite(times((decay, torch.zeros_like(t)), high)), (low_subnormal, one[1]))
        return torch.log(_DENSITY_AT_0 * rounded(relative)) - 0.5 * t * t, low, high, excess

    @staticmethod
    def _central(a: Tensor, b: Tensor) -> tuple[Tensor, Pair, Pair, Pair]:
        """The interval holds 0: one minus two tails, or the sum of two error functions."""
        s, t = a.abs(), b.abs()
        low, high = density(s), density(t)
        outside = low * rounded(mills(s)) + high * rounded(mills(t))
        inside = 0.5 * (torch.erf(s * math.sqrt(0.5)) + torch.erf(t * math.sqrt(0.5)))
        is_most = outside < 0.5
        zero = torch.zeros_like(t)
        mass = _either(is_most, two_difference(torch.ones_like(t), outside), (inside, zero))
        log_mass = torch.where(is_most, torch.log1p(-outside), torch.log(inside))
        low_share, high_share = (_finite(divided((part, zero), mass)) for part in (low, high))
        return log_mass, low_share, high_share, plus(high_share, (t, zero))


def _exp(x: Tensor) -> Pair:
    """e^x, as 1 + expm1(x) where that says more."""
    return _either(x > -0.5, two_sum(torch.ones_like(x), torch.expm1(x)), (torch.exp(x), torch.zeros_like(x)))


def log_ndtr_diff(a: Tensor, b: Tensor) -> Tensor:
    """log(Φ(b) - Φ(a)), a ≤ b."""
    dtype, (a_wide, b_wide) = widen(a, b)
    (a0, a_step), (b0, b_step) = split_point(a_wide), split_point(b_wide)
    is_mirrored = a0 + b0 > 0
    low, high = torch.where(is_mirrored, -b0, a0), torch.where(is_mirrored, -a0, b0)
    part = _Interval(low, high)
    value = torch.where(a0 == b0, -math.inf, torch.where(a0 > b0, math.nan, part.log_mass))
    low_curvature = -rounded(_finite(times(part.low, plus(part.low, (-low, torch.zeros_like(low))))))
    high_curvature = -rounded(_finite(times(part.high, part.excess)))
    low_slope, high_slope = rounded(part.low), rounded(part.high)
    first = [torch.where(is_mirrored, -high_slope, -low_slope), torch.where(is_mirrored, low_slope, high_slope)]
    second = [
        torch.where(is_mirrored, high_curvature, low_curvature),
        rounded(_finite(times(part.low, part.high))),
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
