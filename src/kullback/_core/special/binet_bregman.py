"""The Bregman divergence of Binet's remainder R, D(a, b) = R(b) - R(a) - (b-a)·R'(a) ≥ 0, without cancellation.

    a, b ≥ 0.22:  D = d²/(a²b)·{P(u_a) + k·a·v_a²·v_b·(k·a·v_b·P[u_a, u_a, u_b] - (a+b+c)·P'(u_a))},    d = b - a
    a, b ≤ ¾:     D = ½·h(b/a) - (b·log(b/a) - d) + the divergence of the regular part of R,    h(r) = r - 1 - log r

The first is R = P(u)/x with u = 1 - k·v, v = 1/(x+c), whose divided differences come by synthetic division; what is
added to P(u_a) is less than half of it. Elsewhere the arguments are a factor of three apart and the definition serves.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback._core.special._binet_coefficients import NEAR, REGULAR, SCALED, SHIFTS
from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._double_double import quotient, two_difference, two_product
from kullback._core.special._precision import horner, widen
from kullback._core.special.binet import SCALES, binet_values, rows
from kullback._core.special.exp_log import ATANH_SERIES
from kullback._core.special.polygamma import BINET_SERIES

# Of the stack below: R above 0.22, R below ¾, R' above, R' below.
_POLYNOMIALS = [SCALED[0], REGULAR[0], SCALED[1], REGULAR[1]]
_REGULAR_SCALE = 2 / NEAR
_ABOVE = 0.22
_LOG_4, _LOG_4_LOW = 1.3862943611198906, 4.638093627692599e-17


def _divided_differences(at_a: Tensor, at_b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P(u_a) of all four, P'(u_a) of the first two and P[u_a, u_b] of the others, P[u_a, u_a, u_b] of the first two.

    The recurrence for the last runs over all four and means nothing for the others: cutting them off costs more.
    """
    along = torch.cat([at_a[:2], at_b[2:]])
    first, *others = rows(_POLYNOMIALS, range(4), at_a[0])
    value = first.expand_as(at_a)
    slope, second = torch.zeros_like(at_a), torch.zeros_like(at_a)
    for coefficient in others:
        second = torch.addcmul(slope, second, at_b)
        slope = torch.addcmul(value, slope, along)
        value = torch.addcmul(coefficient, value, at_a)
    return value, slope, second


class _Bregman:
    """D and R'(b) - R'(a) in both regions, for positive finite arguments clamped to each."""

    def __init__(self, a: Tensor, b: Tensor, gap: Tensor, gap_low: Tensor) -> None:
        self.high_a, self.high_b = a.clamp_min(_ABOVE), b.clamp_min(_ABOVE)
        self.low_a, self.low_b = a.clamp_max(NEAR), b.clamp_max(NEAR)
        self.gap, self.gap_low = gap, gap_low
        self.v_a, self.v_b = ([1 / (x + c) for c in SHIFTS[:2]] for x in (self.high_a, self.high_b))
        at_a, at_b = (
            torch.stack([1 - SCALES[0] * v[0], regular, 1 - SCALES[1] * v[1], regular])
            for v, regular in (
                (self.v_a, self.low_a * _REGULAR_SCALE - 1),
                (self.v_b, self.low_b * _REGULAR_SCALE - 1),
            )
        )
        self.value, self.slope, self.second = _divided_differences(at_a, at_b)

    def above(self) -> tuple[Tensor, Tensor]:
        a, b, gap = self.high_a, self.high_b, self.gap
        v_a, v_b = self.v_a[0], self.v_b[0]
        weight = SCALES[0] * (a * v_a) * v_a
        curve = SCALES[0] * (a * v_b) * v_b * self.second[0] - ((a + SHIFTS[0]) * v_b + b * v_b) * self.slope[0]
        divergence = (gap / a) * (gap / b / a) * (self.value[0] + weight * curve)
        spread = SCALES[1] * (a * self.v_a[1]) * self.v_b[1] * self.slope[2]
        return divergence, (gap / b / a) * (((1 + b / a) * self.value[2] - spread) / b)

    def below(self) -> tuple[Tensor, Tensor]:
        a, b, gap, gap_low = self.low_a, self.low_b, self.gap, self.gap_low
        step = gap * _REGULAR_SCALE
        # With s = d/(a+b) and log(b/a) = 2s + s·q the leading terms of the sum are exactly s·(½ - a)·d/a.
        s = gap / (a + b)
        is_near = s * s < 0.18
        z = torch.where(is_near, s * s, 0.0)
        q = 2 * z * horner(z, ATANH_SERIES)
        far, far_log = _mains_apart(a, b, gap, gap_low)
        main = torch.where(is_near, s * ((0.5 - a) * (gap / a) - q * (0.5 + b)), far)
        log_ratio = torch.where(is_near, 2 * s + s * q, far_log)
        slope = (0.5 * (gap / a / b) - log_ratio) + step * self.slope[3]
        return main + step * step * self.second[1], slope


def _mains_apart(a: Tensor, b: Tensor, gap: Tensor, gap_low: Tensor) -> tuple[Tensor, Tensor]:
    """½·h(b/a) - (b·log(b/a) - d) and log(b/a) for arguments more than a factor of two apart.

    The two terms cancel by half or more: the logarithm is taken beside log 4, where it is small and the difference of
    the scaled arguments exact, and everything carries its rounding error.
    """
    sign = torch.where(b > a, torch.ones_like(a), -1.0)
    scaled = torch.where(b > a, 0.25 * b, 4 * b)
    excess = (scaled - a) / a
    log_scaled = torch.where(excess.abs() < 0.7, torch.log1p(excess), torch.log(scaled) - torch.log(a))
    high, low = sign * _LOG_4, log_scaled + sign * _LOG_4_LOW
    w, w_low = quotient(gap, gap_low, a)
    part, part_low = two_product(b, high)
    main = 0.5 * ((w - high) + (w_low - low)) + ((gap - part) + ((gap_low - part_low) - b * low))
    return main, high + low


def binet_bregman(a: Tensor, b: Tensor) -> Tensor:
    """R(b) - R(a) - (b-a)·R'(a) ≥ 0."""
    dtype, (a_wide, b_wide) = widen(a, b)
    (a0, a_step), (b0, b_step) = split_point(a_wide), split_point(b_wide)
    inside = (a0 > 0) & (b0 > 0) & torch.isfinite(a0) & torch.isfinite(b0)
    # One end of the domain against its inside is infinitely far, except that R vanishes as a tends to infinity.
    is_distant = (a0 >= 0) & (b0 >= 0) & (a0 != b0)
    is_limit = is_distant & (a0 == math.inf) & (b0 > 0)
    a_in, b_in = torch.where(inside, a0, 1.0), torch.where(inside | is_limit, b0, 1.0)
    gap, gap_low = two_difference(b_in, a_in)
    points = _Bregman(a_in, b_in, gap, gap_low)
    r_a, r_b, slope_a, slope_b, curve_a, curve_b, third_a = binet_values(
        [0, 0, 1, 1, 2, 2, 3], [a_in, b_in, a_in, b_in, a_in, b_in, a_in]
    )
    apart = (r_b - r_a) - gap * slope_a, slope_b - slope_a
    # Where both hold, the second loses least at small arguments.
    is_below = (torch.maximum(a_in, b_in) <= NEAR) & (torch.minimum(a_in, b_in) < 0.4)
    is_above = torch.minimum(a_in, b_in) >= _ABOVE
    value, b_slope = (
        torch.where(is_below, y, torch.where(is_above, x, z))
        for x, y, z in zip(points.above(), points.below(), apart, strict=True)
    )
    # R'' = 1/(2a²) overflows where its products with the gap do not.
    is_tiny = a_in < 1e-100
    a_slope = torch.where(is_tiny, 0.5 * (gap / a_in) / a_in, gap * curve_a)
    a_curve = torch.where(is_tiny, (0.5 + gap / a_in) / a_in / a_in, curve_a - gap * third_a)
    edge = torch.where(is_limit, r_b, torch.where(is_distant, math.inf, math.nan).to(value.dtype))
    flat = torch.where(is_distant, 0.0, math.nan).to(value.dtype)
    value = torch.where(inside, value, edge)
    first = [
        torch.where(inside, -a_slope, flat),
        torch.where(inside, b_slope, torch.where(is_limit, slope_b, flat)),
    ]
    second = [
        torch.where(inside, a_curve, flat),
        torch.where(inside, -curve_a, flat),
        torch.where(inside | is_limit, curve_b, flat),
    ]
    return attach(value, [a_step, b_step], first, second).to(dtype)


def tail_bregman(a: Tensor, b: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
    """D = R(b) - R(a) - (b-a)·R'(a) and R'(b) - R'(a) for a, b ≥ 12, without cancellation.

    With s = 1/a, t = 1/b and d = b - a, each power of the asymptotic series gives a polynomial with positive terms:
    t^m - s^m + m·d·s^(m+1) = d²s²t·Σ_{i<m} (m-i)·s^(m-1-i)·t^i and s^(m+1) - t^(m+1) = d·s·t·Σ_{i≤m} s^(m-i)·t^i.
    """
    s, t = 1 / a, 1 / b
    power, homogeneous, weighted = torch.ones_like(s), torch.ones_like(s), torch.ones_like(s)
    divergence, slope = torch.zeros_like(s), torch.zeros_like(s)
    for m in range(1, 2 * len(BINET_SERIES)):
        power = power * t
        following = torch.addcmul(power, s, homogeneous)
        if m % 2:
            coefficient = BINET_SERIES[m // 2]
            divergence = torch.add(divergence, weighted, alpha=coefficient)
            slope = torch.add(slope, following, alpha=coefficient * m)
        homogeneous = following
        weighted = torch.addcmul(homogeneous, s, weighted)
    return (gap * s) * ((gap * t) * s) * divergence, (gap * s) * t * slope
