"""Coordinates of a support: a real v in which a density is smooth and its tails and poles fall exponentially.

Each density names one (`Density.coordinate`); the engine places its panels in v. A coordinate gives the point of v, the
logarithm of dx/dv and the v of a point (±HUGE for a point outside the support).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from kullback.densities.point import HUGE, MAX_EXPONENT, End, Point, softplus, stable_exp

_LOG_2 = math.log(2.0)


class Coordinate(Protocol):
    """What the engine asks of a coordinate."""

    def point(self, v: Tensor) -> Point:
        """The point at v."""

    def log_slope(self, v: Tensor) -> Tensor:
        """The logarithm of dx/dv."""

    def coordinate(self, x: Point) -> Tensor:
        """The v of a point."""


class Sinh(NamedTuple):
    """The whole line: x = anchor + unit·sinh v."""

    anchor: End
    log_unit: Tensor

    def point(self, v: Tensor) -> Point:
        """The point at v."""
        size = v.abs()
        log_offset = size + torch.log(-torch.expm1(-2 * size)) - _LOG_2
        return Point(self.anchor, self.log_unit, torch.sinh(v.clamp(-MAX_EXPONENT, MAX_EXPONENT)), log_offset)

    def log_slope(self, v: Tensor) -> Tensor:
        """Log cosh v + log unit."""
        size = v.abs()
        return self.log_unit + size + torch.log1p(torch.exp(-2 * size)) - _LOG_2

    def coordinate(self, x: Point) -> Tensor:
        """Asinh of the distance in units."""
        z = x.z(self.anchor, self.log_unit)
        near = z.abs() < 1e100
        far = z.sign() * (torch.log(torch.where(near, 1.0, z.abs())) + _LOG_2)
        return torch.where(near, torch.asinh(torch.where(near, z, 0.0)), far)


class Log(NamedTuple):
    """A half-line: x = end + sign·unit·e^v."""

    end: End
    log_unit: Tensor
    sign: float = 1.0

    def point(self, v: Tensor) -> Point:
        """The point at v."""
        return Point(self.end, self.log_unit, self.sign * stable_exp(v), v, ((self.end, v),))

    def log_slope(self, v: Tensor) -> Tensor:
        """The logarithm of dx/dv, v + log unit."""
        return self.log_unit + v

    def coordinate(self, x: Point) -> Tensor:
        """The logarithm of the distance from the end."""
        inside = self.sign * x.z(self.end, self.log_unit) >= 0
        return torch.where(inside, x.log_distance(self.end, self.log_unit), -HUGE)


class Logit(NamedTuple):
    """An interval: x = low + width·sigmoid v, measured from the nearer end."""

    low: End
    high: End
    log_width: Tensor

    def point(self, v: Tensor) -> Point:
        """The point at v."""
        log_up, log_down = -softplus(-v), -softplus(v)
        lower = v < 0
        log_near = torch.where(lower, log_up, log_down)
        low, high = (torch.as_tensor(end, dtype=v.dtype, device=v.device) for end in (self.low, self.high))
        anchor = torch.where(lower, low, high)
        known = ((self.low, log_up), (self.high, log_down))
        return Point(anchor, self.log_width, torch.exp(log_near) * torch.where(lower, 1.0, -1.0), log_near, known)

    def log_slope(self, v: Tensor) -> Tensor:
        """Log σ(v)σ(−v) + log width."""
        return self.log_width - softplus(v) - softplus(-v)

    def coordinate(self, x: Point) -> Tensor:
        """The difference of the logarithms of both distances."""
        v = x.log_distance(self.low, self.log_width) - x.log_distance(self.high, self.log_width)
        below, above = x.z(self.low, self.log_width) < 0, x.z(self.high, self.log_width) > 0
        return torch.where(below, -HUGE, torch.where(above, HUGE, v))


class Integers(NamedTuple):
    """Counts: k = v − ½, so that a panel [a, b) holds the integers a … b − 1."""

    zero: Tensor

    def point(self, v: Tensor) -> Point:
        """The point at v, an integer where v is one and a half."""
        k = v - 0.5
        return Point(0.0, self.zero, k, torch.log(k.abs()))

    def log_slope(self, v: Tensor) -> Tensor:
        """0: a sum has no slope."""
        return torch.zeros_like(v)

    def coordinate(self, x: Point) -> Tensor:
        """The number and a half."""
        return x.z(0.0, self.zero) + 0.5


def mark_above(low: End, log_distance: Tensor, spread: Tensor | float) -> Point:
    """A mark at a distance from a lower end, with a spread of the logarithm of that distance."""
    steps = torch.tensor([-1.0, 0.0, 1.0], dtype=log_distance.dtype, device=log_distance.device)
    return Log(low, log_distance).point(steps * spread)


def mark_between(low: End, high: End, logit: Tensor, spread: Tensor | float) -> Point:
    """A mark in an interval by its logit, with a spread of the logit."""
    steps = torch.tensor([-1.0, 0.0, 1.0], dtype=logit.dtype, device=logit.device)
    log_width = torch.log(torch.as_tensor(high - low, dtype=logit.dtype, device=logit.device))
    return Logit(low, high, log_width).point(logit + steps * spread)
