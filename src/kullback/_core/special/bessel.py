"""log I_ν(x), its exponentially scaled companion, and the ratio I_ν₊₁(x)/I_ν(x), for ν ≥ 0 and x ≥ 0.

The logarithm is Debye's for ν ≥ 30 and far above ν; elsewhere the power series for x ≤ 50 and Debye's at ν + 30 with
thirty ratios above. Far above ν², where 1 - r is small, Hankel's series gives the logarithm and its derivatives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kullback._core.special._bessel_ratio import BesselRatio, is_direct, ratio_of_orders
from kullback._core.special._binet_coefficients import LGAMMA_ABOVE_ONE
from kullback._core.special._debye import DEBYE_FROM, HALF_LOG_TWO_PI, debye_log, hankel, is_far_above
from kullback._core.special._derivatives import attach, refuse_derivative, split_point
from kullback._core.special._precision import horner, widen
from kullback._core.special.binet import binet_values

# For ν < 30 and x ≤ 50 the 68th term of the power series is below 1e-20 of the sum.
_SERIES_TO = 50.0
_SERIES_TERMS = 68


def _power_series(nu: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """ν·log(x/2) - log Γ(ν+1) + log Σ (x²/4)^k/(k!·(ν+1)…(ν+k)), and the same less x, for x ≤ 50."""
    quarter = 0.25 * x * x
    total = torch.zeros_like(x)
    for k in reversed(range(1, _SERIES_TERMS)):
        total = quarter / (k * (nu + k)) * (1 + total)
    # ν·log(x/2) - log Γ(ν+1): from ν = 1 on with the large parts of both under one logarithm.
    y = nu + 1
    small = torch.xlogy(nu, 0.5 * x) - nu * horner(nu.clamp(max=1), LGAMMA_ABOVE_ONE)
    stirling = 0.5 * torch.log(y) + HALF_LOG_TWO_PI + binet_values([0], [y])[0]
    power = torch.where(nu <= 1, small, (nu * torch.log(0.5 * x / y) + y) - stirling)
    log_sum = torch.log1p(total)
    # From x = 1 on, e^-x times the sum is formed before the logarithm, which then does not cancel against x.
    scaled = torch.where(x < 1, log_sum - x, torch.log((1 + total) * torch.exp(-x)))
    return power + log_sum, power + scaled


@dataclass
class _Point:
    nu: Tensor
    x: Tensor
    steps: tuple[Tensor, Tensor]
    valid: Tensor

    def finish(
        self, dtype: torch.dtype, value: Tensor, edges: tuple[float, float], first: Tensor, second: Tensor
    ) -> Tensor:
        """Put in the values at x = inf and outside the domain and hang on the derivatives to x."""
        at_infinity, outside = edges
        value = torch.where(self.x == math.inf, at_infinity, value)
        value = torch.where(self.valid, value, outside)
        slopes = [torch.where(self.valid & ~torch.isinf(self.x), s, 0.0) for s in (first, second)]
        slopes = [torch.where(self.valid, s, math.nan) for s in slopes]
        return refuse_derivative(attach(value, [self.steps[1]], slopes[:1], slopes[1:]), self.steps[0]).to(dtype)


def _point(nu: Tensor, x: Tensor) -> tuple[torch.dtype, _Point, Tensor, Tensor]:
    dtype, (nu_wide, x_wide) = widen(nu, x)
    (nu0, nu_step), (x0, x_step) = split_point(nu_wide), split_point(x_wide)
    valid = (nu0 >= 0) & (x0 >= 0) & ~torch.isinf(nu0)
    inside = valid & (x0 > 0) & ~torch.isinf(x0)
    point = _Point(nu0, x0, (nu_step, x_step), valid)
    return dtype, point, torch.where(inside, nu0, 1.0), torch.where(inside, x0, 1.0)


def _log_values(nu: Tensor, x: Tensor, ratio: BesselRatio) -> tuple[Tensor, Tensor]:
    """Return log I_ν(x) and log I_ν(x) - x."""
    is_debye = (nu >= DEBYE_FROM) | is_direct(nu, x)
    is_series = ~is_debye & (x <= _SERIES_TO)
    plain, scaled = debye_log(torch.where(is_debye, nu.clamp(min=1), nu + DEBYE_FROM), x)
    below = torch.where(is_debye, 0.0, ratio.log_product)
    series, series_scaled = _power_series(nu, x)
    plain = torch.where(is_series, series, plain - below)
    scaled = torch.where(is_series, series_scaled, scaled - below)
    is_far = is_far_above(nu, x)
    asymptotic = (hankel(nu, x)[0] - HALF_LOG_TWO_PI) - 0.5 * torch.log(x)
    return torch.where(is_far, x + asymptotic, plain), torch.where(is_far, asymptotic, scaled)


def _log_slopes(nu: Tensor, x: Tensor, ratio: BesselRatio) -> tuple[Tensor, Tensor, Tensor]:
    """(log I)', (log I)' - 1 and (log I)''."""
    is_far = is_far_above(nu, x)
    _, d1, d2, _ = hankel(nu, x)
    far = (d1 - 0.5) / x
    slope = torch.where(is_far, 1 + far, ratio.value + nu / x)
    return (
        slope,
        torch.where(is_far, far, (ratio.value - 1) + nu / x),
        torch.where(is_far, (d2 + 0.5) / x / x, ratio.first - nu / x / x),
    )


def _at_zero(point: _Point, value: Tensor) -> Tensor:
    """I_0(0) = 1, I_ν(0) = 0 for ν > 0."""
    limit = torch.where(point.nu == 0, 0.0, -math.inf).to(value.dtype)
    return torch.where(point.x == 0, limit, value)


def _slopes_at_zero(point: _Point, first: Tensor, second: Tensor, tilt: float) -> tuple[Tensor, Tensor]:
    """I_0 is 1 + x²/4 + …; for ν > 0 the logarithm is -inf and its slope infinite."""
    at_zero, is_zeroth = point.x == 0, point.nu == 0
    first = torch.where(at_zero, torch.where(is_zeroth, tilt, math.inf).to(first.dtype), first)
    return first, torch.where(at_zero, torch.where(is_zeroth, 0.5, -math.inf).to(first.dtype), second)


def log_iv(nu: Tensor, x: Tensor) -> Tensor:
    """Return log I_ν(x)."""
    dtype, point, nu0, x0 = _point(nu, x)
    ratio = ratio_of_orders(nu0, x0)
    slope, _, curvature = _log_slopes(nu0, x0, ratio)
    slope, curvature = _slopes_at_zero(point, slope, curvature, 0.0)
    return point.finish(dtype, _at_zero(point, _log_values(nu0, x0, ratio)[0]), (math.inf, math.nan), slope, curvature)


def log_ive(nu: Tensor, x: Tensor) -> Tensor:
    """log(e^-x·I_ν(x))."""
    dtype, point, nu0, x0 = _point(nu, x)
    ratio = ratio_of_orders(nu0, x0)
    _, slope, curvature = _log_slopes(nu0, x0, ratio)
    slope, curvature = _slopes_at_zero(point, slope, curvature, -1.0)
    return point.finish(dtype, _at_zero(point, _log_values(nu0, x0, ratio)[1]), (-math.inf, math.nan), slope, curvature)


def bessel_ratio(nu: Tensor, x: Tensor) -> Tensor:
    """I_ν₊₁(x)/I_ν(x), between 0 at x = 0 and 1 at infinity."""
    dtype, point, nu0, x0 = _point(nu, x)
    ratio = ratio_of_orders(nu0, x0)
    at_zero = point.x == 0
    first = torch.where(at_zero, 0.5 / (point.nu + 1), ratio.first)
    value = torch.where(at_zero, 0.0, ratio.value)
    return point.finish(dtype, value, (1.0, math.nan), first, torch.where(at_zero, 0.0, ratio.second))
