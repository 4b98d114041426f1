"""Coordinates for laws that are powers of something simpler: Kumaraswamy and the generalised Pareto."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kullback.pairs.densities.chart import LEAST, Mark, from_end
from kullback.pairs.densities.point import OUT_OF_REACH, Distance, Point
from kullback.pairs.densities.soft import softplus

_TINY = 1e-290


def log_rest_of(log_x: Tensor) -> Tensor:
    """log(1 − x) for x < 1: next to 0 it is multiplied by large exponents, and has to be as small as x is."""
    upper = log_x > -_LN2
    near = torch.log(-torch.expm1(torch.where(upper, log_x, -_LN2)))
    return torch.where(upper, near, torch.log1p(-torch.exp(torch.where(upper, -1.0, log_x))))


def log_complement(power: Tensor, log_x: Tensor, log_rest: Tensor) -> Tensor:
    """log(1 − x^power) from log x and log(1 − x); x may be as close to 1 as it likes."""
    # Near 1 it is the distance to 1 that is known.
    upper = log_rest < -_LN2
    lost = -power * torch.where(upper, torch.log1p(-torch.exp(torch.where(upper, log_rest, -1.0))), log_x)
    some = lost > _TINY
    return torch.where(some, log_rest_of(-torch.where(some, lost, 1.0)), torch.log(power) + log_rest)


class PowerLogit(NamedTuple):
    """x^a = σ(y) on [0, 1]."""

    power: Tensor
    zero: Tensor
    one: Tensor

    def point(self, y: Tensor) -> Point:
        """The point at y."""
        log_x = -softplus(-y) / self.power
        some = -log_x > _TINY
        # Closer to 1 than that, 1 − x = (1 − x^a)/a.
        near = -softplus(y) - torch.log(self.power)
        log_rest = torch.where(some, log_rest_of(torch.where(some, log_x, -1.0)), near)
        log_jacobian = log_x - torch.log(self.power) - softplus(y)
        return Point(None, Distance(self.zero, self.one, log_x), Distance(self.one, self.one, log_rest), log_jacobian)

    def locate(self, mark: Mark) -> tuple[Tensor, Tensor]:
        """Place and width of a mark in y."""
        at, width = mark.on_line()
        log_x, w = from_end(at, width, self.zero, 1.0)
        rest, _ = from_end(at, width, self.one, -1.0)
        if mark.lower is not None:
            same = mark.lower == self.zero
            log_x, w = torch.where(same, mark.at, log_x), torch.where(same, mark.width, w)
            rest = torch.where(same, log_rest_of(mark.at.clamp_max(-_CLOSE)), rest)
        if mark.upper is not None:
            same = mark.upper == self.one
            rest = torch.where(same, mark.at, rest)
            log_x = torch.where(same, torch.log1p(-torch.exp(mark.at.clamp_max(-_CLOSE))), log_x)
            w = torch.where(same, mark.width * torch.exp(mark.at.clamp_max(0.0)), w)
        odds = self.power * log_x - log_complement(self.power, log_x, rest)
        slope = torch.exp(torch.log(self.power) - log_complement(self.power, log_x, rest))
        real = (w > 0) & (rest > _EDGE) & (log_x > -1e280)
        return torch.where(real, odds, 0.0), torch.where(real, w * slope, 1.0).clamp_max(1.0)

    def coordinate(self, x: Tensor) -> Tensor:
        """The y of an x."""
        log_x = torch.log(x.clamp_min(LEAST))
        return self.power * log_x - log_complement(self.power, log_x, torch.log((1 - x).clamp_min(LEAST)))


class ParetoLog(NamedTuple):
    """x = loc + scale·(e^(ξv) − 1)/ξ with v = e^y, which is an exponential variable for a generalised Pareto law."""

    loc: Tensor
    scale: Tensor
    shape: Tensor
    upper: Tensor

    def point(self, y: Tensor) -> Point:
        """The point at y."""
        v = torch.exp(y.clamp_max(_LONG))
        grown = self.shape * v
        log_z = y + log_expm1_ratio(grown)
        reach = self.scale / torch.where(self.shape == 0, 1.0, self.shape.abs())
        # Without an upper end every point is as far from it as a number can say.
        below = Distance(self.upper, reach, torch.where(self.shape < 0, grown, OUT_OF_REACH))
        return Point(None, Distance(self.loc, self.scale, log_z), below, torch.log(self.scale) + grown + y)

    def locate(self, mark: Mark) -> tuple[Tensor, Tensor]:
        """Place and width of a mark in y."""
        log_z, w = from_end(*mark.on_line(), self.loc, 1.0)
        if mark.lower is not None:
            same = mark.lower == self.loc
            log_z, w = torch.where(same, mark.at, log_z), torch.where(same, mark.width, w)
        log_z = log_z - torch.log(self.scale)
        v = pareto_depth(self.shape, log_z, None)
        slope = torch.exp((log_z - self.shape * v - torch.log(v)).clamp(-50.0, 50.0))
        real = (w > 0) & (v < _FAR)
        return torch.where(real, torch.log(v), 0.0), torch.where(real, w * slope, 1.0)

    def coordinate(self, x: Tensor) -> Tensor:
        """The y of an x."""
        log_z = torch.log(((x - self.loc) / self.scale).clamp_min(LEAST))
        return torch.log(pareto_depth(self.shape, log_z, None))


def log_expm1_ratio(u: Tensor) -> Tensor:
    """log((eᵘ − 1)/u), 0 at u = 0."""
    near = u.abs() < 1e-4
    size = torch.where(near, 1.0, u.abs())
    far = torch.log(-torch.expm1(-size)) - torch.log(size) + torch.where(u > 0, size, 0.0)
    small = torch.where(near, u, 0.0)
    return torch.where(near, small / 2 + small * small / 24, far)


def pareto_depth(shape: Tensor, log_z: Tensor, log_rest: Tensor | None) -> Tensor:
    """V = log(1 + ξz)/ξ from log z; for ξ < 0 from log(1 − |ξ|z), too, if that is known better; z at ξ = 0.

    For small ξz it is z·(1 − ξz/2 + (ξz)²/3 − …), whose derivatives by ξ are no differences, and hold at ξ = 0.
    """
    size = torch.where(shape == 0, 1.0, shape.abs())
    log_part = log_z + torch.log(size)
    heavy = softplus(log_part) / size
    inner = (log_part < -_LN2) if log_rest is not None else (log_part < -1e-15)
    light = -torch.log1p(-torch.exp(torch.where(inner, log_part, -1.0))) / size
    light = torch.where(inner, light, _FAR if log_rest is None else -log_rest / size)
    z = torch.exp(log_z.clamp_max(_LONG))
    grown = shape * z
    near = grown.abs() < _SMALL
    grown = torch.where(near, grown, 0.0)
    series = torch.full_like(grown, _SERIES[-1])
    for coefficient in _SERIES[-2::-1]:
        series = series * grown + coefficient
    return torch.where(near, z * series, torch.where(shape > 0, heavy, light))


_LN2 = 0.6931471805599453
# log(1 + u)/u up to u⁹, for u below the first.
_SMALL, _SERIES = 0.02, [(-1.0) ** k / (k + 1) for k in range(10)]
_LONG = 230.0
_FAR = 1e30
_EDGE = -600.0
_CLOSE = 1e-16
