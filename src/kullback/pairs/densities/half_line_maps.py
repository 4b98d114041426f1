"""Maps with two different ends, or from an interval to the line: softplus and back, logit, inverse tangent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.numbers import as_tensor
from kullback.pairs.densities.chart import Mark
from kullback.pairs.densities.exponential_maps import (
    Exp,
    Logarithm,
    Sigmoid,
    exponentiated,
    exponentiated_at,
    finite_part,
    logarithmic,
)
from kullback.pairs.densities.generic_maps import Generic
from kullback.pairs.densities.maps import Map, on_line, plain_value
from kullback.pairs.densities.point import CAP, OUT_OF_REACH, Distance, Point
from kullback.pairs.densities.soft import softplus
from kullback.pairs.densities.tails import Tail
from kullback.pairs.support import Bound
from kullback.pairs.visible import surely
from kullback.special import log1mexp

_TINY = 1e-300


def _log_softplus(z: Tensor) -> Tensor:
    """Log log(1 + e^z)."""
    deep = z < -30
    return torch.where(deep, z, torch.log(softplus(torch.where(deep, 0.0, z))))


class Softplus(NamedTuple):
    """x = log(1 + e^z), e^z below 0 and z above; `lower` is where z begins."""

    lower: Bound

    def push(self, point: Point) -> Point:
        """From z to x: the distance to 0 is known, or that to the image of the lower end."""
        z = plain_value(point)
        jacobian = point.log_jacobian - softplus(-z)
        if not isinstance(self.lower, Tensor):
            zero = torch.zeros_like(z)
            return Point(None, Distance(zero, zero + 1, _log_softplus(z)), None, jacobian)
        lower, there = finite_part(self.lower)
        one = torch.ones_like(lower)
        rise = torch.exp(point.log_above(lower, one).clamp_max(CAP))
        # log(1 + e^(l+r)) − log(1 + e^l) = log(1 + σ(l)(eʳ − 1)).
        step = torch.sigmoid(lower)
        log1p = torch.log1p(step * torch.expm1(rise.clamp_max(30.0)))
        distance = torch.where(rise > 30, rise + torch.log(step.clamp_min(_TINY)), log1p)
        end, log = softplus(lower), torch.log(distance.clamp_min(_TINY))
        if there is not None:
            end, log = torch.where(there, end, 0.0), torch.where(there, log, _log_softplus(z))
        return Point(None, Distance(end, one, log), None, jacobian)

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z = x + log(1 − e^(−x))."""
        zero = torch.zeros_like(point.log_jacobian)
        log_x = point.log_above(zero, zero + 1)
        deep = log_x < -30
        x = torch.exp(torch.where(deep, 0.0, log_x).clamp_max(CAP))
        z = torch.where(deep, log_x, x + log1mexp(-x))
        slope = -softplus(-z)
        if not isinstance(self.lower, Tensor):
            return on_line(z, zero), slope
        lower, there = finite_part(self.lower)
        end = softplus(lower)
        rise = torch.exp(point.log_above(end, torch.ones_like(end)).clamp_max(CAP))
        # The inverse of the step above: r = log(1 + (e^d − 1)/σ(l)).
        odds = torch.exp(softplus(-lower).clamp_max(CAP))
        near = torch.log1p(torch.expm1(rise.clamp_max(30.0)) * odds)
        back = torch.where(rise > 30, rise + softplus(-lower), near)
        log = torch.log(back.clamp_min(_TINY))
        if there is None:
            return Point(None, Distance(lower, torch.ones_like(end), log), None, zero), slope
        inner = Distance(lower, torch.ones_like(end), torch.where(there, log, OUT_OF_REACH))
        return on_line(z, zero)._replace(above=inner), slope

    def push_mark(self, mark: Mark) -> Mark:
        """A mark of z in x."""
        at, width = mark.on_line()
        slope = torch.sigmoid(at)
        return Mark(softplus(at), width * slope.clamp_min(_TINY))

    def pull_mark(self, mark: Mark) -> Mark:
        """A mark of x in z; near 0 as for the exponential."""
        at, width = mark.on_line()
        far = at > 1
        inner = torch.where(far, at, 1.0)
        beyond = Mark(inner + log1mexp(-inner), width / -torch.expm1(-inner))
        near = Exp(-math.inf).pull_mark(mark)
        return Mark(torch.where(far, beyond.at, near.at), torch.where(far, beyond.width, near.width))

    def value(self, z: Bound) -> Bound:
        """T(z)."""
        if isinstance(z, Tensor):
            return softplus(z)
        return 0.0 if z == -math.inf else z

    def back(self, x: Tensor) -> Tensor:
        """T⁻¹(x)."""
        x = x.clamp_min(_TINY)
        return x + log1mexp(-x)

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:
        """As of the exponential at −∞; at +∞ nothing changes."""
        if isinstance(end, Tensor):
            # What is not −∞ counts as finite.
            return exponentiated_at(torch.where(end == math.inf, 0.0, end), tail)
        return exponentiated(tail) if end < 0 else [tail]


@dataclass(frozen=True)
class InverseOf:
    """The inverse of a map."""

    of: Map

    def push(self, point: Point) -> Point:
        """From z to x."""
        x, slope = self.of.pull(point)
        return x._replace(log_jacobian=point.log_jacobian - slope)

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        zero = torch.zeros_like(point.log_jacobian)
        z = self.of.push(point._replace(log_jacobian=zero))
        return z._replace(log_jacobian=zero), -z.log_jacobian

    def push_mark(self, mark: Mark) -> Mark:
        """A mark of z in x."""
        return self.of.pull_mark(mark)

    def pull_mark(self, mark: Mark) -> Mark:
        """A mark of x in z."""
        return self.of.push_mark(mark)

    def value(self, z: Bound) -> Bound:
        """T(z), at the ends of the domain those of the image."""
        assert isinstance(self.of, Generic)
        (low, high), (first, last) = self.of.image, self.of.domain if self.of.up else self.of.domain[::-1]
        at = as_tensor(z, torch.float64)
        found = torch.where(at <= low, first, torch.where(at >= high, last, self.of.back(at)))
        return found if isinstance(z, Tensor) else float(found.detach().reshape(-1)[0])

    def back(self, x: Tensor) -> Tensor:
        """T⁻¹(x)."""
        z = self.of.value(x)
        assert isinstance(z, Tensor)
        return z

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:
        """As unknown as those of the map."""
        return self.of.tail(tail, end=end)


@dataclass(frozen=True)
class Unsquash(InverseOf):
    """The inverse of a sigmoid: logit, or the inverse hyperbolic tangent."""

    of: Sigmoid

    def value(self, z: Bound) -> Bound:
        """T(z); the ends of the interval are at infinity."""
        lower, upper = self.of.lower, self.of.lower + self.of.width
        at = as_tensor(z, torch.float64)
        for end, infinity in ((lower, -math.inf), (upper, math.inf)):
            if surely(at == end):
                return infinity
        inside = (at > lower) & (at < upper)
        back = self.of.back(torch.where(inside, at, lower + self.of.width / 2))
        return torch.where(inside, back, torch.where(at <= lower, -math.inf, math.inf))

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:
        """At an end of the interval the logarithm of the inverse distance is speed·|x|."""
        moved = logarithmic(tail, self.of.speed)
        at = as_tensor(end, torch.float64)
        outer = (at == self.of.lower) | (at == self.of.lower + self.of.width)
        if surely(outer):
            return [moved]
        there = tail.where
        return [
            moved._replace(where=outer if there is None else there & outer),
            tail._replace(where=~outer if there is None else there & ~outer),
        ]


@dataclass(frozen=True)
class Unsoftplus(InverseOf):
    """The inverse of softplus: log x below 1, x above."""

    of: Softplus

    def value(self, z: Bound) -> Bound:
        """T(z)."""
        if not isinstance(z, Tensor):
            return z if z > 0 else -math.inf
        if surely(z == 0):
            return -math.inf
        return torch.where(z > 0, self.of.back(z), -math.inf)

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:
        """As of the logarithm at 0; elsewhere nothing changes."""
        if not isinstance(end, Tensor) and end == math.inf:
            return [tail]
        return Logarithm().tail(tail, end=as_tensor(end, torch.float64))
