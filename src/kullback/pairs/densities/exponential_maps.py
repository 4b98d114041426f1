"""Maps that turn the line into a half-line or an interval and back: exponential, logarithm, sigmoid, tanh."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.pairs.densities.chart import Logit, Mark, from_end
from kullback.pairs.densities.maps import on_line, plain_value
from kullback.pairs.densities.point import CAP, OUT_OF_REACH, Distance, Point
from kullback.pairs.densities.soft import softplus
from kullback.pairs.densities.tails import Kind, Tail, both
from kullback.pairs.support import Bound, equal, less
from kullback.pairs.visible import at_most, surely

# Ends beyond this have no image; distances below the other one are their own logarithms to the last digit.
_REPRESENTABLE, _TINY_LOG = 600.0, -40.0
_LN2 = math.log(2.0)


class Exp(NamedTuple):
    """x = e^z; `lower` and `upper` are where z begins and ends."""

    lower: Bound
    upper: Bound = math.inf

    def _last(self) -> Tensor | None:
        """The upper end, where its image is a number."""
        return self.upper if isinstance(self.upper, Tensor) and at_most(self.upper, _REPRESENTABLE) else None

    def push(self, point: Point) -> Point:
        """From z to x: the distance to 0 is known, or that to the image of the lower end, and of the upper end."""
        z = plain_value(point)
        last = self._last()
        below = None
        if last is not None:
            log = log_gap(point.log_below(last, torch.ones_like(last)))
            below = Distance(torch.exp(last), torch.exp(last), log)
        if isinstance(self.lower, Tensor):
            lower, there = finite_part(self.lower)
            rise = torch.exp(point.log_above(lower, torch.ones_like(lower)).clamp_max(CAP))
            end = torch.exp(lower)
            log = torch.where(rise > 30, rise, torch.log(torch.expm1(rise.clamp_max(30.0)).clamp_min(1e-300)))
            above = Distance(end, end, log)
            if there is not None:
                above = Distance(torch.where(there, end, 0.0), torch.where(there, end, 1.0), torch.where(there, log, z))
            return Point(None, above, below, point.log_jacobian + z)
        zero = torch.zeros_like(z)
        return Point(None, Distance(zero, zero + 1, z), below, point.log_jacobian + z)

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        zero = torch.zeros_like(point.log_jacobian)
        z = point.log_above(zero, zero + 1)
        last = self._last()
        below = None
        if last is not None:
            one = torch.ones_like(last)
            below = Distance(last, one, log_fall(point.log_below(torch.exp(last), torch.exp(last)), last - z))
        if not isinstance(self.lower, Tensor):
            return on_line(z, zero)._replace(below=below), z
        lower, there = finite_part(self.lower)
        end = torch.exp(lower)
        log = torch.log(softplus(point.log_above(end, end)).clamp_min(1e-300))
        if there is None:
            return Point(None, Distance(lower, torch.ones_like(end), log), below, zero), z
        above = Distance(lower, torch.ones_like(end), torch.where(there, log, OUT_OF_REACH))
        return on_line(z, zero)._replace(above=above, below=below), z

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
        return exponentiated_at(end, tail)


def finite_part(end: Tensor) -> tuple[Tensor, Tensor | None]:
    """An end, with another number where it is at infinity, and where it is not; None if it is nowhere.

    The sign of a factor may differ between the elements of a batch, and the ends with it.
    """
    there = end.isfinite()
    return (end, None) if surely(there) else (torch.where(there, end, 0.0), there)


def log_gap(log_f: Tensor) -> Tensor:
    """log(1 − e^−f) of f given by its logarithm."""
    gap = -torch.expm1(-torch.exp(log_f.clamp(-CAP, CAP)))
    return torch.where(log_f < _TINY_LOG, log_f, torch.log(gap))


def log_fall(log_g: Tensor, plain: Tensor) -> Tensor:
    """Its inverse, log(−log(1 − g)), −log(1 − g) given plainly, too, for where g is wide."""
    gap = torch.exp(log_g.clamp(-CAP, -_LN2))
    fall = torch.where(log_g < -_LN2, -torch.log1p(-gap), plain)
    return torch.where(log_g < _TINY_LOG, log_g, torch.log(fall.clamp_min(1e-300)))


def exponentiated_at(end: Bound, tail: Tail, speed: float = 1.0) -> list[Tail]:
    """A tail at an end: itself where that is finite, in L = speed·|z| where it is not."""
    if not isinstance(end, Tensor):
        return exponentiated(tail, speed)
    finite = end.isfinite()
    if surely(finite):
        return [tail]
    far = [one._replace(where=both(one.where, ~finite)) for one in exponentiated(tail, speed)]
    return [tail._replace(where=both(tail.where, finite)), *far]


def exponentiated(tail: Tail, speed: float = 1.0) -> list[Tail]:
    """A tail in |z| → ∞ as one in L = speed·|z|."""
    if tail.kind == Kind.LOG:
        return [tail._replace(kind=Kind.LOG_LOG)]
    if tail.kind == Kind.POWER:
        k, rate = tail.exponent, tail.rate / speed**tail.exponent
        orders = [
            (Tail(Kind.LOG_ROOT, k, rate), less(k, 1.0)),
            (Tail(Kind.LOG, rate), equal(k, 1.0)),
            (Tail(Kind.LOG_POWER, k, rate), less(1.0, k)),
        ]
        return [t._replace(where=both(tail.where, on)) for t, on in orders if on is not False]
    if tail.kind == Kind.EXP:
        return [Tail(Kind.POWER, tail.rate / speed, where=tail.where)]
    if tail.kind in (Kind.LOG_ROOT, Kind.LOG_POWER):  # (log L)ᵏ beside the 1/L of every density in L
        return [Tail(Kind.LOG_LOG, 0.0 if tail.kind == Kind.LOG_ROOT else math.inf, where=tail.where)]
    return [tail]


def logarithmic(tail: Tail, speed: float = 1.0) -> Tail:
    """Its inverse: a tail in L = speed·|x| as one in |x| → ∞."""
    if tail.kind == Kind.LOG_LOG:
        return tail._replace(kind=Kind.LOG)
    if tail.kind == Kind.LOG:
        return Tail(Kind.POWER, 1.0, tail.exponent * speed, where=tail.where)
    if tail.kind in (Kind.LOG_ROOT, Kind.LOG_POWER):
        return tail._replace(kind=Kind.POWER, rate=tail.rate * speed**tail.exponent)
    return Tail(Kind.EXP, 1.0, tail.exponent * speed if tail.kind == Kind.POWER else tail.exponent, where=tail.where)


def _either(there: Tensor | None, own: Distance, image: Distance) -> Distance:
    """The distance to the image of an end, or to the end of the image where there is none."""
    if there is None:
        return own
    return Distance(*(torch.where(there, a, b) for a, b in zip(own, image, strict=True)))


class Sigmoid(NamedTuple):
    """x = lower + width·σ(speed·z): the sigmoid, and the hyperbolic tangent; `first` and `last` are the ends of z.

    The distance to the image of an end keeps its digits: σ(a) − σ(b) = σ(a)·σ(−b)·(1 − e^(b−a)).
    """

    lower: float
    width: float
    speed: float
    first: Bound = -math.inf
    last: Bound = math.inf

    def _ends(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        zero = torch.zeros_like(like)
        return zero + self.lower, zero + (self.lower + self.width), zero + self.width

    def _slope(self, u: Tensor) -> Tensor:
        return math.log(self.speed * self.width) - softplus(u) - softplus(-u)

    def push(self, point: Point) -> Point:
        """From z to x."""
        u = self.speed * plain_value(point)
        low, high, width = self._ends(u)
        above, below = Distance(low, width, -softplus(-u)), Distance(high, width, -softplus(u))
        if isinstance(self.first, Tensor):
            first, there = finite_part(self.first)
            apart = point.log_above(first, torch.full_like(first, 1 / self.speed))
            log = log_gap(apart) - softplus(-u) - softplus(self._at(first))
            above = _either(there, Distance(self._image(first), width, log), above)
        if isinstance(self.last, Tensor):
            last, there = finite_part(self.last)
            apart = point.log_below(last, torch.full_like(last, 1 / self.speed))
            log = log_gap(apart) - softplus(u) - softplus(-self._at(last))
            below = _either(there, Distance(self._image(last), width, log), below)
        return Point(None, above, below, point.log_jacobian + self._slope(u))

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        low, high, width = self._ends(point.log_jacobian)
        u = point.log_above(low, width) - point.log_below(high, width)
        above = below = None
        if isinstance(self.first, Tensor):
            first, there = finite_part(self.first)
            start, unit = self._at(first), torch.full_like(first, 1 / self.speed)
            gap = point.log_above(self._image(first), width) + softplus(-u) + softplus(start)
            log = log_fall(gap, u - start)
            above = Distance(first, unit, log if there is None else torch.where(there, log, OUT_OF_REACH))
        if isinstance(self.last, Tensor):
            last, there = finite_part(self.last)
            end, unit = self._at(last), torch.full_like(last, 1 / self.speed)
            gap = point.log_below(self._image(last), width) + softplus(u) + softplus(-end)
            log = log_fall(gap, end - u)
            below = Distance(last, unit, log if there is None else torch.where(there, log, OUT_OF_REACH))
        return on_line(u / self.speed, torch.zeros_like(u))._replace(above=above, below=below), self._slope(u)

    def _at(self, end: Tensor) -> Tensor:
        return self.speed * end

    def _image(self, end: Tensor) -> Tensor:
        return self.lower + self.width * torch.sigmoid(self._at(end))

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
        return exponentiated_at(end, tail, self.speed)


class Logarithm(NamedTuple):
    """x = log z on z > 0; `upper` is where z ends."""

    upper: Bound = math.inf

    def _ends(self) -> tuple[Tensor, Tensor] | None:
        """The upper end and its image, if they are numbers."""
        if not isinstance(self.upper, Tensor) or not surely((self.upper > 0) & self.upper.isfinite()):
            return None
        return self.upper, torch.log(self.upper)

    def push(self, point: Point) -> Point:
        """From z to x."""
        zero = torch.zeros_like(point.log_jacobian)
        x = point.log_above(zero, zero + 1)
        found, ends = on_line(x, point.log_jacobian - x), self._ends()
        if ends is None:
            return found
        log = log_fall(point.log_below(ends[0], ends[0]), ends[1] - x)
        return found._replace(below=Distance(ends[1], torch.ones_like(ends[1]), log))

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        x = plain_value(point)
        zero = torch.zeros_like(x)
        below, ends = None, self._ends()
        if ends is not None:
            below = Distance(ends[0], ends[0], log_gap(point.log_below(ends[1], torch.ones_like(ends[1]))))
        return Point(None, Distance(zero, zero + 1, x), below, zero), -x

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
        moved = logarithmic(tail)
        if not isinstance(end, Tensor):
            return [moved]
        at_zero = (end == 0) | end.isinf()
        return [moved._replace(where=both(tail.where, at_zero)), tail._replace(where=both(tail.where, ~at_zero))]
