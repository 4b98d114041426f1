"""Monotone maps of the line, as laws are carried along by them: points, marks and tails there and back."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from kullback.pairs.densities.chart import Mark
from kullback.pairs.densities.point import MODEST, OUT_OF_REACH, Distance, Offset, Point
from kullback.pairs.densities.tails import Kind, Tail
from kullback.pairs.support import Bound
from kullback.pairs.visible import at_most, surely

# Of an end that was mapped and is mapped back, in parts of the numbers that take part in it.
_ROUNDED = 4 * torch.finfo(torch.float64).eps


class Map(Protocol):
    """x = T(z), monotone."""

    def push(self, point: Point) -> Point:
        """From z to x, the Jacobian included."""

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z, and log|dx/dz| there."""

    def push_mark(self, mark: Mark) -> Mark:
        """A mark of z in x."""

    def pull_mark(self, mark: Mark) -> Mark:
        """A mark of x in z."""

    def value(self, z: Bound) -> Bound:
        """T(z), also at the infinities."""

    def back(self, x: Tensor) -> Tensor:
        """T⁻¹(x)."""

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:
        """The tail at an end of z, carried to the corresponding end of x."""


def on_line(value: Tensor, log_jacobian: Tensor) -> Point:
    """A point known by its value only."""
    zero = value.new_zeros(1)
    size = value.abs()
    log_size = None if at_most(size, MODEST) else torch.log(size.clamp_min(1.0))
    return Point(Offset(zero, zero + 1, value, log_size), None, None, log_jacobian)


def plain_value(point: Point) -> Tensor:
    """X itself."""
    zero = point.log_jacobian.new_zeros(1)
    return point.standard(zero, zero + 1)[0]


class Affine(NamedTuple):
    """x = loc + scale·z, scale of either sign.

    Attributes:
        loc: The shift.
        scale: The factor.
        ends: Where z begins and ends.
        rising: The sign of the scale, where that was written down as a number.
    """

    loc: Tensor
    scale: Tensor
    ends: tuple[Bound, ...] = ()
    rising: bool | None = None

    def push(self, point: Point) -> Point:
        """From z to x."""
        return self._moved(point, self.loc, self.scale, torch.log(self.scale.abs()))

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        slope = torch.log(self.scale.abs())
        found = self._moved(point, -self.loc / self.scale, 1 / self.scale, -slope)
        above, below = (None if d is None else self._exact(d) for d in found[1:3])
        return found._replace(above=above, below=below), slope

    def _exact(self, distance: Distance) -> Distance:
        """The distance from an end of z itself, where it is from what the map makes of that; back it is rounded."""
        end = distance.end.detach()
        for own in self.ends:
            if isinstance(own, Tensor):
                size = (self.loc / self.scale).abs() + own.abs()
                same = own.isfinite() & ((end - own).abs() <= _ROUNDED * size)
                distance = distance._replace(end=torch.where(same, own, distance.end))
        return distance

    def _moved(self, point: Point, loc: Tensor, scale: Tensor, slope: Tensor) -> Point:
        up, size = scale > 0, scale.abs()
        sign = torch.where(up, 1.0, -1.0)
        centre = point.centre
        if centre is not None:
            centre = Offset(loc + scale * centre.loc, size * centre.scale, sign * centre.value, centre.log_size)
        ends = [None if d is None else Distance(loc + scale * d.end, size * d.scale, d.log) for d in point[1:3]]
        if ends[0] is None and ends[1] is None:
            return Point(centre, None, None, point.log_jacobian + slope)
        return Point(centre, *_swapped(ends[0], ends[1], up, self.rising), point.log_jacobian + slope)

    def push_mark(self, mark: Mark) -> Mark:
        """A mark of z in x."""
        at, width = mark.on_line()
        return Mark(self.loc + self.scale * at, width * self.scale.abs())

    def pull_mark(self, mark: Mark) -> Mark:
        """A mark of x in z."""
        at, width = mark.on_line()
        return Mark((at - self.loc) / self.scale, width / self.scale.abs())

    def value(self, z: Bound) -> Bound:
        """T(z)."""
        if self.rising is not None and not isinstance(z, Tensor) and math.isinf(z):
            return z if self.rising else -z
        return self.loc + self.scale * z

    def back(self, x: Tensor) -> Tensor:
        """T⁻¹(x)."""
        return (x - self.loc) / self.scale

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:  # noqa: ARG002
        """Rates are per unit."""
        if tail.kind == Kind.POWER:
            return [tail._replace(rate=tail.rate * self.scale.abs() ** -tail.exponent)]
        return [tail._replace(rate=tail.rate / self.scale.abs())] if tail.kind == Kind.EXP else [tail]


def _swapped(
    above: Distance | None, below: Distance | None, up: Tensor, rising: bool | None
) -> tuple[Distance | None, Distance | None]:
    """Exchange the ends where the map is decreasing; what is missing on one side of a batch of both is out of reach."""
    if rising or (rising is None and surely(up)):
        return above, below
    if rising is False or surely(~up):
        return below, above
    first, second = above or _nowhere(below), below or _nowhere(above)
    return (
        Distance(*(torch.where(up, a, b) for a, b in zip(first, second, strict=True))),
        Distance(*(torch.where(up, b, a) for a, b in zip(first, second, strict=True))),
    )


def _nowhere(like: Distance | None) -> Distance:
    """An end that is farther than a number can say."""
    assert like is not None
    return Distance(torch.zeros_like(like.end), torch.ones_like(like.scale), torch.full_like(like.log, OUT_OF_REACH))
