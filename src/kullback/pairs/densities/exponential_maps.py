"""Maps that turn the line into a half-line or an interval and back: exponential, logarithm, power, sigmoid, tanh."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.pairs.densities.chart import Logit, Mark, from_end
from kullback.pairs.densities.maps import on_line, plain_value
from kullback.pairs.densities.point import CAP, Distance, Point
from kullback.pairs.densities.soft import softplus
from kullback.pairs.densities.tails import Kind, Tail
from kullback.pairs.support import Bound
from kullback.pairs.visible import surely


class Exp(NamedTuple):
    """x = e^z; `lower` is where z begins."""

    lower: Bound

    def push(self, point: Point) -> Point:
        """From z to x: the distance to 0 is known, and that to the image of the lower end."""
        z = plain_value(point)
        if isinstance(self.lower, Tensor):
            zero = torch.zeros_like(self.lower)
            rise = torch.exp(point.log_above(self.lower, zero + 1).clamp_max(CAP))
            end = torch.exp(self.lower)
            log = torch.where(rise > 30, rise, torch.log(torch.expm1(rise.clamp_max(30.0)).clamp_min(1e-300)))
            return Point(None, Distance(end, end, log), None, point.log_jacobian + z)
        zero = torch.zeros_like(z)
        return Point(None, Distance(zero, zero + 1, z), None, point.log_jacobian + z)

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        zero = torch.zeros_like(point.log_jacobian)
        z = point.log_above(zero, zero + 1)
        if not isinstance(self.lower, Tensor):
            return on_line(z, zero), z
        end = torch.exp(self.lower)
        log = torch.log(softplus(point.log_above(end, end)).clamp_min(1e-300))
        return Point(None, Distance(self.lower, torch.ones_like(end), log), None, zero), z

    def push_mark(self, mark: Mark) -> Mark:
        """A mark of z in x."""
        at, width = mark.on_line()
        if isinstance(self.lower, Tensor):
            place = torch.exp(at.clamp(-CAP, CAP))
            return Mark(place, place * width.clamp_max(1.0))
        return Mark(at, width, lower=torch.zeros_like(at))

    def pull_mark(self, mark: Mark) -> Mark:
        """A mark of x in z."""
        at, width = mark.on_line()
        log, w = from_end(at, width, torch.zeros_like(at), 1.0)
        if mark.lower is not None:
            same = mark.lower == 0
            log, w = torch.where(same, mark.at, log), torch.where(same, mark.width, w)
        return Mark(torch.where(w > 0, log, 0.0), torch.where(w > 0, w, 1.0))

    def value(self, z: Bound) -> Bound:
        """e^z."""
        if isinstance(z, Tensor):
            return torch.exp(z)
        return math.exp(z) if z < math.inf else z

    def back(self, x: Tensor) -> Tensor:
        """Log x."""
        return torch.log(x.clamp_min(1e-300))

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:
        """At an infinity L = |z|; a finite end stays what it is."""
        if not isinstance(end, Tensor):
            return exponentiated(tail)
        finite = end.isfinite()
        if surely(finite):
            return [tail]
        far = [one._replace(where=_and(one.where, ~finite)) for one in exponentiated(tail)]
        return [tail._replace(where=_and(tail.where, finite)), *far]


def exponentiated(tail: Tail, speed: float = 1.0) -> list[Tail]:
    """A tail in |z| → ∞ as one in L = speed·|z|."""
    if tail.kind == Kind.LOG:
        return [tail._replace(kind=Kind.LOG_LOG)]
    if tail.kind == Kind.POWER:
        linear = tail.exponent == 1.0
        there = tail.where
        slow = Tail(Kind.LOG, tail.rate / speed, where=_and(there, linear))
        fast = Tail(Kind.LOG_SQUARE, where=_and(there, _not(linear)))
        return [t for t, on in ((slow, linear), (fast, _not(linear))) if on is not False]
    if tail.kind == Kind.EXP:
        return [Tail(Kind.POWER, tail.rate / speed, where=tail.where)]
    return [tail]


def _and(a: Tensor | None, b: Tensor | bool) -> Tensor | None:
    if not isinstance(b, Tensor):
        return a
    return b if a is None else a & b


def _not(a: Tensor | bool) -> Tensor | bool:
    return ~a if isinstance(a, Tensor) else not a


class Sigmoid(NamedTuple):
    """x = lower + width/(1 + e^(−speed·z)): the sigmoid, and the hyperbolic tangent."""

    lower: float
    width: float
    speed: float

    def _ends(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        zero = torch.zeros_like(like)
        return zero + self.lower, zero + (self.lower + self.width), zero + self.width

    def _slope(self, u: Tensor) -> Tensor:
        return math.log(self.speed * self.width) - softplus(u) - softplus(-u)

    def push(self, point: Point) -> Point:
        """From z to x."""
        u = self.speed * plain_value(point)
        low, high, width = self._ends(u)
        ends = (Distance(low, width, -softplus(-u)), Distance(high, width, -softplus(u)))
        return Point(None, *ends, point.log_jacobian + self._slope(u))

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        low, high, width = self._ends(point.log_jacobian)
        u = point.log_above(low, width) - point.log_below(high, width)
        return on_line(u / self.speed, torch.zeros_like(u)), self._slope(u)

    def push_mark(self, mark: Mark) -> Mark:
        """A mark of z in x."""
        at, width = mark.on_line()
        u = self.speed * at
        low, _, _ = self._ends(u)
        return Mark(math.log(self.width) - softplus(-u), self.speed * width * torch.sigmoid(-u), lower=low)

    def pull_mark(self, mark: Mark) -> Mark:
        """A mark of x in z."""
        low, high, width = self._ends(mark.at)
        y, w = Logit(low, high, width, torch.zeros_like(low)).locate(mark)
        return Mark(y / self.speed, w / self.speed)

    def value(self, z: Bound) -> Bound:
        """T(z)."""
        if isinstance(z, Tensor):
            return self.lower + self.width * torch.sigmoid(self.speed * z)
        return self.lower + self.width / (1 + math.exp(-z)) if z > -math.inf else self.lower

    def back(self, x: Tensor) -> Tensor:
        """T⁻¹(x)."""
        above, below = (x - self.lower).clamp_min(1e-300), (self.lower + self.width - x).clamp_min(1e-300)
        return (torch.log(above) - torch.log(below)) / self.speed

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:
        """The distance to an end is e^(−speed·|z|)."""
        return [tail] if isinstance(end, Tensor) else exponentiated(tail, self.speed)


class Power(NamedTuple):
    """x = z^exponent on z > 0, exponent of either sign."""

    exponent: Tensor

    def _moved(self, point: Point, exponent: Tensor) -> tuple[Distance, Tensor]:
        zero = torch.zeros_like(exponent)
        log = point.log_above(zero, zero + 1)
        slope = torch.log(exponent.abs()) + (exponent - 1) * log
        return Distance(zero, zero + 1, exponent * log), slope

    def push(self, point: Point) -> Point:
        """From z to x."""
        above, slope = self._moved(point, self.exponent)
        return Point(None, above, None, point.log_jacobian + slope)

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        above, slope = self._moved(point, 1 / self.exponent)
        return Point(None, above, None, torch.zeros_like(slope)), -slope

    def _mark(self, mark: Mark, exponent: Tensor) -> Mark:
        zero = torch.zeros_like(exponent)
        log, width = from_end(*mark.on_line(), zero, 1.0)
        if mark.lower is not None:
            own = mark.lower == 0
            log, width = torch.where(own, mark.at, log), torch.where(own, mark.width, width)
        return Mark(exponent * torch.where(width > 0, log, 0.0), exponent.abs() * width, lower=zero)

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
        if tail.kind not in (Kind.LOG, Kind.POWER):
            return [tail]
        moved = tail._replace(exponent=tail.exponent / self.exponent.abs())
        if not isinstance(end, Tensor):
            return [moved]
        at_zero = end == 0
        return [moved._replace(where=_and(tail.where, at_zero)), tail._replace(where=_and(tail.where, ~at_zero))]


class Logarithm(NamedTuple):
    """x = log z on z > 0."""

    def push(self, point: Point) -> Point:
        """From z to x."""
        zero = torch.zeros_like(point.log_jacobian)
        x = point.log_above(zero, zero + 1)
        return on_line(x, point.log_jacobian - x)

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        x = plain_value(point)
        zero = torch.zeros_like(x)
        return Point(None, Distance(zero, zero + 1, x), None, zero), -x

    def push_mark(self, mark: Mark) -> Mark:
        """A mark of z in x."""
        return Exp(-math.inf).pull_mark(mark)

    def pull_mark(self, mark: Mark) -> Mark:
        """A mark of x in z."""
        return Exp(-math.inf).push_mark(mark)

    def value(self, z: Bound) -> Bound:
        """T(z)."""
        if isinstance(z, Tensor):
            return torch.log(z)
        return math.log(z) if z > 0 else -math.inf

    def back(self, x: Tensor) -> Tensor:
        """T⁻¹(x)."""
        return torch.exp(x)

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:
        """At 0 and at infinity |x| is L; at another end nothing changes."""
        kinds = {Kind.LOG_LOG: Kind.LOG, Kind.LOG: Kind.POWER, Kind.LOG_SQUARE: Kind.POWER, Kind.POWER: Kind.EXP}
        if tail.kind == Kind.LOG:
            moved = Tail(Kind.POWER, 1.0, tail.exponent, where=tail.where)
        elif tail.kind == Kind.POWER:
            moved = Tail(Kind.EXP, 1.0, tail.exponent, where=tail.where)
        else:
            exponent = 2.0 if tail.kind == Kind.LOG_SQUARE else tail.exponent
            moved = Tail(kinds.get(tail.kind, Kind.EXP), exponent, where=tail.where)
        if not isinstance(end, Tensor):
            return [moved]
        at_zero = end == 0
        return [moved._replace(where=_and(tail.where, at_zero)), tail._replace(where=_and(tail.where, ~at_zero))]
