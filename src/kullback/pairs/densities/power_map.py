"""Powers of positive numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.pairs.densities.chart import Mark, from_end
from kullback.pairs.densities.exponential_maps import log_fall, log_gap
from kullback.pairs.densities.point import Distance, Point
from kullback.pairs.densities.tails import Kind, Tail, both
from kullback.pairs.support import Bound
from kullback.pairs.visible import surely


class Power(NamedTuple):
    """x = z^exponent on z > 0, exponent of either sign; `upper` is where z ends."""

    exponent: Tensor
    upper: Bound = math.inf

    def _moved(self, point: Point, exponent: Tensor) -> tuple[Distance, Tensor, Tensor]:
        zero = torch.zeros_like(exponent)
        log = point.log_above(zero, zero + 1)
        slope = torch.log(exponent.abs()) + (exponent - 1) * log
        return Distance(zero, zero + 1, exponent * log), slope, log

    def _below(self, point: Point, exponent: Tensor, log: Tensor, *, back: bool) -> Distance | None:
        """The distance to the image of the upper end E: |x^k − E^k| = E^k·(1 − e^(−k·f)), f = log E/x."""
        upper = self.upper
        if not isinstance(upper, Tensor) or not surely((self.exponent > 0) & (upper > 0) & upper.isfinite()):
            return None
        image = upper**self.exponent
        here, there = (image, upper) if back else (upper, image)
        log_f = torch.log(exponent) + log_fall(point.log_below(here, here), torch.log(here) - log)
        return Distance(there, there, log_gap(log_f))

    def push(self, point: Point) -> Point:
        """From z to x."""
        above, slope, log = self._moved(point, self.exponent)
        return Point(None, above, self._below(point, self.exponent, log, back=False), point.log_jacobian + slope)

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        above, slope, log = self._moved(point, 1 / self.exponent)
        return Point(
            None, above, self._below(point, 1 / self.exponent, log, back=True), torch.zeros_like(slope)
        ), -slope

    def _mark(self, mark: Mark, exponent: Tensor) -> Mark:
        zero = torch.zeros_like(exponent)
        log, width = from_end(*mark.on_line(), zero, 1.0)
        if mark.lower is not None:
            own = mark.lower == 0
            log, width = torch.where(own, mark.at, log), torch.where(own, mark.width, width)
        some = width > 0  # the end itself is no place inside
        return Mark(exponent * torch.where(some, log, 0.0), exponent.abs() * torch.where(some, width, 1.0), lower=zero)

    def push_mark(self, mark: Mark) -> Mark:
        """A mark of z in x."""
        return self._mark(mark, self.exponent)

    def pull_mark(self, mark: Mark) -> Mark:
        """A mark of x in z."""
        return self._mark(mark, 1 / self.exponent)

    def value(self, z: Bound) -> Bound:
        """T(z)."""
        return torch.as_tensor(z, dtype=self.exponent.dtype, device=self.exponent.device) ** self.exponent

    def back(self, x: Tensor) -> Tensor:
        """T⁻¹(x)."""
        return x.clamp_min(1e-300) ** (1 / self.exponent)

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:
        """Logarithms are multiplied by the exponent, at 0 and at infinity."""
        size = self.exponent.abs()
        if tail.kind in (Kind.LOG, Kind.POWER):
            moved = tail._replace(exponent=tail.exponent / size)
        elif tail.kind in (Kind.LOG_ROOT, Kind.LOG_POWER):
            moved = tail._replace(rate=tail.rate / size**tail.exponent)
        else:
            return [tail]
        if not isinstance(end, Tensor):
            return [moved]
        at_zero = (end == 0) | end.isinf()
        return [moved._replace(where=both(tail.where, at_zero)), tail._replace(where=both(tail.where, ~at_zero))]
