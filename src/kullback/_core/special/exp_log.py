"""Exponentials and logarithms whose leading terms cancel: e^x - 1 - x, log(1+x) - x, log(1-e^x), log(e^a-e^b)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback._core import exponential
from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._double_double import two_difference
from kullback._core.special._precision import horner, widen

# atanh(r) = r·Σ r^2k/(2k+1), without its first term; the interval below keeps r² under 0.19.
ATANH_SERIES = [1.0 / (2 * k + 3) for k in range(22)]


def expm1mx(x: Tensor) -> Tensor:
    """e^x - 1 - x."""
    dtype, (wide,) = widen(x)
    point, step = split_point(wide)
    return attach(exponential.expm1mx(point), [step], [torch.expm1(point)], [torch.exp(point)]).to(dtype)


def log1pmx_value(x: Tensor) -> Tensor:
    """log(1+x) - x without derivatives; r = x/(2+x) turns the cancelling terms into the product -x·r."""
    r = x / (2 + x)
    y = r * r
    near = r * (2 * y * horner(y, ATANH_SERIES) - x)
    # Above 1e307 the log1p of torch 2.6 is infinite.
    far = torch.where(x > 1e18, torch.log(x), torch.log1p(x)) - x
    return torch.where((x > -0.6) & (x < 1.2), near, far)


def log1pmx(x: Tensor) -> Tensor:
    """log(1+x) - x."""
    dtype, (wide,) = widen(x)
    point, step = split_point(wide)
    value = torch.where(point == math.inf, -point, log1pmx_value(point))
    ratio = 1 / (1 + point)
    return attach(value, [step], [-point * ratio], [-ratio * ratio]).to(dtype)


def log1mexp_value(x: Tensor) -> Tensor:
    """log(1-e^x) without derivatives: whichever of the two forms does not cancel (Mächler 2012)."""
    return torch.where(x > -math.log(2.0), torch.log(-torch.expm1(x)), torch.log1p(-torch.exp(x)))


def log1mexp(x: Tensor) -> Tensor:
    """log(1-e^x), x ≤ 0; -inf at 0, NaN above."""
    dtype, (wide,) = widen(x)
    point, step = split_point(wide)
    grown, grown_m1 = torch.exp(point), torch.expm1(point)
    slope = torch.where(point == 0, -math.inf, torch.where(point > 0, math.nan, grown / grown_m1))
    return attach(log1mexp_value(point), [step], [slope], [-grown / grown_m1 / grown_m1]).to(dtype)


def logdiffexp(a: Tensor, b: Tensor) -> Tensor:
    """log(e^a-e^b) = a + log1mexp(b-a), with the rounding error of b - a carried along."""
    dtype, (a_wide, b_wide) = widen(a, b)
    (a0, a_step), (b0, b_step) = split_point(a_wide), split_point(b_wide)
    gap, gap_low = two_difference(b0, a0)
    gap_low = torch.where(torch.isfinite(gap_low), gap_low, 0.0)
    # b = -inf removes nothing, also from a = -inf; the gap of two +inf stays NaN.
    gap = torch.where((b0 == -math.inf), torch.where(torch.isnan(a0), a0, -math.inf), gap)
    grown = torch.exp(gap) * (1 + gap_low)
    grown_m1 = torch.expm1(gap) + grown * gap_low
    b_slope = torch.where(gap == 0, -math.inf, torch.where(gap > 0, math.nan, grown / grown_m1))
    # The slope is infinite where the gap closes; there the logarithm itself is -inf and takes no correction.
    correction = torch.where(torch.isfinite(b_slope), b_slope * gap_low, 0.0)
    value = a0 + (log1mexp_value(gap) + correction)
    curvature = -grown / grown_m1 / grown_m1
    a_slope = torch.where(gap == 0, math.inf, torch.where(gap > 0, math.nan, -1 / grown_m1))
    return attach(value, [a_step, b_step], [a_slope, b_slope], [curvature, -curvature, curvature]).to(dtype)


def log_ratio(x: Tensor, y: Tensor) -> Tensor:
    """log(x/y) for positive x and y, with full relative accuracy near x = y; -inf at x = 0.

    Near equality the difference x − y is exact and x/y − 1 would lose what matters, so log1p of the relative
    difference is taken. Further apart the logarithms are subtracted, which neither overflows nor cancels.
    """
    difference = x - y
    near = difference.abs() <= 0.5 * y
    relative = torch.where(near, difference, 0.0) / torch.where(near, y, 1.0)
    return torch.where(near, torch.log1p(relative), torch.log(x) - torch.log(y))
