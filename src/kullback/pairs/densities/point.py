"""A point of the line that remembers exactly how far it is from what matters.

x = 1 − 1e-40 is 1 in float64, but its distance to 1 decides the log-density of a Beta there. A point therefore carries
its offset from p's location, or the logarithms of its distances to p's end-points, and a log-density asks for offsets
and distances, never for x. Asked with the very tensors the point was made from, it answers without a rounding.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback.pairs.visible import at_most, here, surely

# Offsets are capped at e^230, whose square is representable; their logarithms are not.
CAP = 230.0
MODEST = 1e50
_TINY = 1e-300
# Log-distances below which the slope of the logarithm is that at this one; a Gamma of shape 0.05 has e^−30 below it.
_CLOSEST = 600.0
# The logarithm of a distance to an end that is not there; those of heavy tails reach e^230.
OUT_OF_REACH = 1e150
NOWHERE_NEAR = OUT_OF_REACH / 2


class Offset(NamedTuple):
    """x = loc + scale·value; `log_size` is log|value| without the cap, read only where that is large.

    It is None where all values are known to be at most `MODEST`.
    """

    loc: Tensor
    scale: Tensor
    value: Tensor
    log_size: Tensor | None


class Distance(NamedTuple):
    """|x − end| = scale·e^log."""

    end: Tensor
    scale: Tensor
    log: Tensor

    def in_units(self, scale: Tensor) -> Tensor:
        """log(|x − end|/scale)."""
        return self.log if scale is self.scale else self.log + (torch.log(self.scale) - torch.log(scale))


class Point(NamedTuple):
    """A batch of points, the nodes in the last dimension; at least one of the first three is given.

    Attributes:
        centre: The offset from a location.
        above: The distance to a lower end.
        below: The distance to an upper end.
        log_jacobian: log(dx/dy) for the coordinate y the point was made from.
        origin: The map that made the point, the point before it, and the log-slope of the map there.
        odds: For a point between 0 and 1 two numbers whose sum is log(x/(1 − x)), the first a parameter.
    """

    centre: Offset | None
    above: Distance | None
    below: Distance | None
    log_jacobian: Tensor
    origin: tuple[object, Point, Tensor] | None = None
    odds: tuple[Tensor, Tensor] | None = None

    def standard(self, loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor | None]:
        """(x − loc)/scale, capped, and the logarithm of its size, which is exact where the size is large.

        Of numbers whose squares are known to be representable there is no logarithm.
        """
        if self.centre is not None:
            here, there, value, log_size = self.centre
            if loc is here and scale is there:
                return value, log_size
            ratio, shift = there / scale, (here - loc) / scale
            if log_size is None:
                if at_most(torch.maximum(ratio, shift.abs()), MODEST):
                    return shift + value * ratio, None
                log_size = torch.log(value.abs().clamp_min(1.0))
            return _combine(shift, value * ratio, log_size + torch.log(ratio))
        parts: list[tuple[tuple[Tensor, Tensor | None], Tensor]] = []
        for distance, sign in ((self.above, 1.0), (self.below, -1.0)):
            if distance is not None:
                log_size = distance.in_units(scale)
                shift = (distance.end - loc) / scale
                if at_most(log_size, CAP / 2) and at_most(shift.abs(), MODEST):
                    parts.append(((torch.add(shift, torch.exp(log_size), alpha=sign), None), log_size))
                else:
                    size = torch.exp(log_size.clamp_max(CAP))
                    parts.append((_combine(shift, sign * size, log_size), log_size))
        if len(parts) == 1:
            return parts[0][0]
        (low, low_size), (high, high_size) = parts
        nearer = low_size <= high_size
        if low[1] is None or high[1] is None:
            # An interval that ends has no points that are far away.
            return torch.where(nearer, low[0], high[0]), None
        return torch.where(nearer, low[0], high[0]), torch.where(nearer, low[1], high[1])

    def log_above(self, lower: Tensor, scale: Tensor) -> Tensor:
        """log((x − lower)/scale)."""
        return self._log_distance(self.above, lower, scale, 1.0)

    def log_below(self, upper: Tensor, scale: Tensor) -> Tensor:
        """log((upper − x)/scale)."""
        return self._log_distance(self.below, upper, scale, -1.0)

    def _log_distance(self, known: Distance | None, end: Tensor, scale: Tensor, sign: float) -> Tensor:
        if known is None:
            return self._log_offset(end, scale, sign)
        if self.above is None or self.below is None or end is known.end or at_most(known.log, NOWHERE_NEAR):
            return self._log_known(known, end, scale, sign)
        # Of an end that some elements do not have nothing is known, and the other end says how far this one is.
        there = known.log < NOWHERE_NEAR
        near = known._replace(log=torch.where(there, known.log, 0.0))
        return torch.where(there, self._log_known(near, end, scale, sign), self._log_offset(end, scale, sign))

    def _log_offset(self, end: Tensor, scale: Tensor, sign: float) -> Tensor:
        value, log_size = self.standard(end, scale)
        log = torch.log((sign * value).clamp_min(_TINY))
        return log if log_size is None else torch.where(log_size > CAP / 2, log_size, log)

    def _log_known(self, known: Distance, end: Tensor, scale: Tensor, sign: float) -> Tensor:
        log = known.in_units(scale)
        if end is known.end:
            return log
        gap = sign * (known.end - end) / scale
        apart = gap > 0
        if not gap.requires_grad:
            if surely(gap == 0):
                return log
            if here(apart):
                return torch.logaddexp(torch.log(gap), log)
        nearer = log
        if gap.requires_grad or not here(gap >= 0):
            # An end inside the known one is as much nearer; log(d + gap) has the slope 1/d where the two touch.
            share = torch.where(apart, 0.0, gap) * torch.exp(-log.clamp_min(-_CLOSEST))
            inside = share > -1
            nearer = torch.where(inside, log + torch.log1p(torch.where(inside, share, 0.0)), math.log(_TINY))
        return torch.where(apart, torch.logaddexp(torch.log(torch.where(apart, gap, 1.0)), log), nearer)

    def log_odds(self, centre: Tensor, above: Tensor, below: Tensor) -> Tensor:
        """log(x/(1 − x)) − centre of a point between 0 and 1 with these logarithms of its distances.

        A law of the width 1e-8 is 1e-8 of them wide, which their difference would know to eight digits only.
        """
        if self.odds is None:
            return (above - below) - centre
        shift, rest = self.odds
        return rest if shift is centre else rest + (shift - centre)

    def spread(self) -> Point:
        """The same points with a dimension for the components of a mixture before the last."""
        found = Point(*(_spread(part) for part in self[:4]))
        return found if self.odds is None else found._replace(odds=(_spread(self.odds[0]), _spread(self.odds[1])))


def _spread(part: Offset | Distance | Tensor | None) -> Any:
    if part is None or isinstance(part, Tensor):
        return None if part is None else part.unsqueeze(-2)
    return type(part)(*(_spread(inner) for inner in part))


def _combine(shift: Tensor, value: Tensor, log_size: Tensor) -> tuple[Tensor, Tensor]:
    """Shift + value and the log of its size; where the value is capped its own."""
    total = shift + value
    huge = log_size > CAP / 2
    size = total.abs()
    some = (size > 0) & ~huge
    return total, torch.where(huge, log_size, torch.log(torch.where(some, size, 1.0)))
