"""Pareto and GeneralizedPareto, which has a coordinate of its own, for integrals; `registry` finds them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, distributions
from torch.distributions import Pareto

from kullback.densities import HUGE, Density, Log, Point, Tail, family, mark_above, power, softplus, stable_exp

# Below this |ξy| the logarithm log(1 + ξy)/ξ is taken by its first terms.
_LITTLE = 0.02


@family(Pareto, "scale", "alpha")
def pareto(scale: Tensor, alpha: Tensor) -> Density:
    """Log α − log s − (α + 1) log(x/s), x/s by its distance from 1."""
    log_scale = torch.log(scale)
    unit = log_scale - torch.log(alpha)

    def log_prob(x: Point) -> Tensor:
        return torch.log(alpha) - log_scale - (alpha + 1) * softplus(x.log_distance(scale, log_scale))

    mark, tails = mark_above(scale, unit, 1.0), (power(1.0), power(alpha))
    return Density(scale, math.inf, Log(scale, unit), log_prob, (mark,), tails)


class SurvivalLog(NamedTuple):
    """v = log t with t = −log P(X > x) = log(1 + ξy)/ξ, y = (x − loc)/scale: one coordinate for every sign of ξ."""

    loc: Tensor
    log_scale: Tensor
    shape: Tensor
    high: Tensor

    def point(self, v: Tensor) -> Point:
        """Y = expm1(ξt)/ξ, measured from the upper end where that is nearer."""
        t = stable_exp(v)
        k, kt = self.shape, self.shape * t
        small = kt.abs() < 1e-4
        safe_k, safe_kt = torch.where(small, 1.0, k), torch.where(small, 1.0, kt.clamp(-690.0, 690.0))
        exact = torch.expm1(safe_kt) / safe_k
        log_exact = torch.log(torch.where(small, 1.0, exact))
        little = torch.where(small, kt, 0.0)  # the powers of a large one overflow, and 0·∞ is NaN
        series = 1 + little / 2 * (1 + little / 3 * (1 + little / 4 * (1 + little / 5)))
        rise = torch.where(small, t * series, exact)
        log_rise = torch.where(small, v + torch.log(series), torch.where(kt > 690, kt - _log_size(k), log_exact))
        log_rest = kt - _log_size(k)
        from_high = (k < 0) & (kt < -math.log(2.0))
        anchor = torch.where(from_high, self.high, self.loc)
        offset = torch.where(from_high, -stable_exp(log_rest), rise)
        known = ((self.loc, log_rise), (self.high, log_rest))
        return Point(anchor, self.log_scale, offset, torch.where(from_high, log_rest, log_rise), known)

    def log_slope(self, v: Tensor) -> Tensor:
        """dx/dv = scale·e^(ξt)·t."""
        return self.log_scale + self.shape * stable_exp(v) + v

    def coordinate(self, x: Point) -> Tensor:
        """Log t; ±HUGE outside."""
        y = x.z(self.loc, self.log_scale)
        t = _exponent(x, self)
        above = (self.shape < 0) & (x.z(torch.where(self.shape < 0, self.high, self.loc), self.log_scale) >= 0)
        inside = (y > 0) & ~above
        return torch.where(above, HUGE, torch.where(inside, torch.log(torch.where(inside, t, 1.0)), -HUGE))


def _log_size(k: Tensor) -> Tensor:
    return torch.log(k.abs().clamp_min(1e-300))


def _exponent(x: Point, law: SurvivalLog) -> Tensor:
    """T = log(1 + ξy)/ξ, by a series for small ξy, whose quotient by ξ would lose the derivative."""
    k, y = law.shape, x.z(law.loc, law.log_scale)
    little = (k * y).abs() < _LITTLE
    s = torch.where(little, k * y, 0.0)
    series = torch.zeros_like(s)
    for j in range(10, 0, -1):
        series = 1 / j - s * series
    size = torch.where(little, 1.0, k.abs())
    rise = softplus(torch.log(size) + x.log_distance(law.loc, law.log_scale))
    # For ξ < 0 by the nearer end: 1 − |ξ|y, or the distance to the upper end.
    early = (y * size < 0.5) | (k >= 0)
    by_low = torch.log1p(-torch.where(early & (k < 0), y * size, 0.0).clamp_max(0.5))
    fall = torch.where(early, by_low, x.log_distance(law.high, law.log_scale - torch.log(size)))
    return torch.where(little, torch.where(little, y, 0.0) * series, torch.where(k < 0, -fall, rise) / size)


def generalized_pareto(loc: Tensor, scale: Tensor, concentration: Tensor) -> Density:
    """−log s − (1 + ξ)·t, t = log(1 + ξy)/ξ."""
    k, log_scale = concentration, torch.log(scale)
    bounded = k < 0
    high = torch.where(bounded, loc + scale / torch.where(bounded, -k, 1.0), math.inf)
    law = SurvivalLog(loc, log_scale, k, high)

    def log_prob(x: Point) -> Tensor:
        return -log_scale - (1 + k) * _exponent(x, law)

    order = torch.where(k == 0, 3.0, 1.0).to(k.dtype)
    upper = Tail(order, torch.where(k == 0, 1.0, 1 / k.abs().clamp_min(1e-300)), 1 / scale)
    mark = law.point(torch.tensor([-1.0, 0.0, 1.0], dtype=k.dtype, device=k.device))
    return Density(loc, high, law, log_prob, (mark,), (power(1.0), upper))


if hasattr(distributions, "GeneralizedPareto"):  # newer than the oldest torch supported
    family(distributions.GeneralizedPareto, "loc", "scale", "concentration")(generalized_pareto)
