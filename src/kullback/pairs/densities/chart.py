"""Coordinates y ∈ ℝ for the support of a law, in which its density is smooth and falls at least exponentially.

Nodes are chosen in y and held fixed while the parameters move, so an integral over y has no moving limits and is
differentiated under the integral sign, whatever the support depends on.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from kullback.pairs.densities.point import CAP, MODEST, Distance, Offset, Point
from kullback.pairs.visible import at_most

LEAST = 1e-300
_CLOSE = 1e-16
# In parts of an interval.
_BESIDE = 1e-3


class Mark(NamedTuple):
    """A place where a log-density changes behaviour.

    Attributes:
        at: The place x, or for a mark near an end the logarithm of its distance to the end.
        width: The scale on which it changes, in the same unit.
        lower: The lower end near which it is, if any.
        upper: The upper end near which it is, if any.
    """

    at: Tensor
    width: Tensor
    lower: Tensor | None = None
    upper: Tensor | None = None

    def on_line(self) -> tuple[Tensor, Tensor]:
        """Place and width on the axis of x."""
        if self.lower is None and self.upper is None:
            return self.at, self.width
        distance = torch.exp(self.at.clamp(-CAP, CAP))
        width = distance * self.width.clamp_max(1.0)
        if self.lower is not None:
            return self.lower + distance, width
        assert self.upper is not None
        return self.upper - distance, width


class Chart(Protocol):
    """A coordinate of the line or a part of it."""

    def point(self, y: Tensor) -> Point:
        """The point at y."""

    def locate(self, mark: Mark) -> tuple[Tensor, Tensor]:
        """Place and width of a mark in y; of several places in the last dimension, if it is felt at more than one."""

    def coordinate(self, x: Tensor) -> Tensor:
        """The y of an x, which may lie outside."""


class Line(NamedTuple):
    """x = loc + scale·y, for laws with exponential or lighter tails."""

    loc: Tensor
    scale: Tensor

    def point(self, y: Tensor) -> Point:
        """The point at y."""
        size = y.abs()
        log_size = None if at_most(size, MODEST) else torch.log(size.clamp_min(1.0))
        return Point(Offset(self.loc, self.scale, y, log_size), None, None, torch.log(self.scale))

    def locate(self, mark: Mark) -> tuple[Tensor, Tensor]:
        """Place and width of a mark in y."""
        at, width = mark.on_line()
        return (at - self.loc) / self.scale, width / self.scale

    def coordinate(self, x: Tensor) -> Tensor:
        """The y of an x."""
        return (x - self.loc) / self.scale


class Sinh(NamedTuple):
    """x = loc + scale·sinh y, for laws on the line with power tails."""

    loc: Tensor
    scale: Tensor

    def point(self, y: Tensor) -> Point:
        """The point at y."""
        size = y.abs()
        if at_most(size, CAP / 2):
            value = torch.sinh(y)
            log_cosh = torch.log1p(value * value) / 2
            return Point(Offset(self.loc, self.scale, value, None), None, None, torch.log(self.scale) + log_cosh)
        value = torch.sinh(y.clamp(-CAP, CAP))
        log_size = size - 0.6931471805599453
        log_cosh = size + torch.log1p(torch.exp(-2 * size)) - 0.6931471805599453
        return Point(Offset(self.loc, self.scale, value, log_size), None, None, torch.log(self.scale) + log_cosh)

    def locate(self, mark: Mark) -> tuple[Tensor, Tensor]:
        """Place and width of a mark in y."""
        at, width = mark.on_line()
        u, w = (at - self.loc) / self.scale, width / self.scale
        here = torch.asinh(u), (w / torch.sqrt(1 + u * u)).clamp_max(1.0)
        reach = u.abs() + w
        if at_most(reach, 2.0):
            return here
        # On the other side of the centre the distance to the mark is a sum, e^|y| + c, which turns at log c.
        image = -torch.copysign(torch.asinh(reach), u)
        return torch.cat([here[0], image], -1), torch.cat([here[1], torch.ones_like(image)], -1)

    def coordinate(self, x: Tensor) -> Tensor:
        """The y of an x."""
        return torch.asinh((x - self.loc) / self.scale)


class Log(NamedTuple):
    """x = lower + scale·e^y, for laws on a half-line."""

    lower: Tensor
    scale: Tensor

    def point(self, y: Tensor) -> Point:
        """The point at y."""
        return Point(None, Distance(self.lower, self.scale, y), None, torch.log(self.scale) + y)

    def locate(self, mark: Mark) -> tuple[Tensor, Tensor]:
        """Place and width of a mark in y."""
        y, w = from_end(*mark.on_line(), self.lower, 1.0)
        y = torch.where(w > 0, y - torch.log(self.scale), 0.0)
        w = torch.where(w > 0, w, 1.0)
        if mark.lower is None:
            return y, w
        own = mark.lower == self.lower
        return torch.where(own, mark.at - torch.log(self.scale), y), torch.where(own, mark.width, w)

    def coordinate(self, x: Tensor) -> Tensor:
        """The y of an x; far to the left of everything if x is outside."""
        return torch.log(((x - self.lower) / self.scale).clamp_min(LEAST))


class Logit(NamedTuple):
    """x = lower + width·σ(y + shift), for laws on an interval; `width` is its length, `unit` says it is [0, 1]."""

    lower: Tensor
    upper: Tensor
    width: Tensor
    shift: Tensor
    unit: bool = False

    def point(self, y: Tensor) -> Point:
        """The point at y."""
        u = y + self.shift
        rest = torch.log1p(torch.exp(-u.abs()))
        below_log, above_log = -(u.clamp_min(0.0) + rest), u.clamp_max(0.0) - rest
        return Point(
            None,
            Distance(self.lower, self.width, above_log),
            Distance(self.upper, self.width, below_log),
            torch.log(self.width) + above_log + below_log,
            odds=(self.shift, y) if self.unit else None,
        )

    def locate(self, mark: Mark) -> tuple[Tensor, Tensor]:
        """Place and width of a mark in y."""
        at, width = mark.on_line()
        above, w_above = from_end(at, width, self.lower, 1.0)
        below, w_below = from_end(at, width, self.upper, -1.0)
        log_width = torch.log(self.width)
        near = (w_above > 0) & (w_below > 0)
        y = torch.where(near, above.minimum(log_width) - below.minimum(log_width), self.shift)
        w = torch.where(near, w_above + w_below, 1.0).clamp_max(1.0)
        for end, own, sign in ((mark.lower, self.lower, 1.0), (mark.upper, self.upper, -1.0)):
            if end is not None:
                log = (mark.at - log_width).clamp_max(-_CLOSE)
                rest = -torch.expm1(log)
                same = end == own
                y = torch.where(same, sign * (log - torch.log(rest)), y)
                w = torch.where(same, (mark.width / rest).clamp_max(1.0), w)
        return y - self.shift, w

    def coordinate(self, x: Tensor) -> Tensor:
        """The y of an x; far away if x is outside."""
        above, below = (x - self.lower).clamp_min(LEAST), (self.upper - x).clamp_min(LEAST)
        return torch.log(above) - torch.log(below) - self.shift


class Around(NamedTuple):
    """The same, for a law that is concentrated at a place inside, from which points know their offsets."""

    whole: Logit
    place: Tensor
    share: Tensor

    @classmethod
    def on(cls, lower: Tensor, upper: Tensor, place: Tensor) -> Around:
        """The interval between two ends; the place is kept from being one of them, and has no derivative."""
        width = upper - lower
        share = ((place.detach() - lower) / width).clamp(_BESIDE, 1 - _BESIDE)
        shift = torch.log(share) - torch.log1p(-share)
        return cls(Logit(lower, upper, width, shift), lower + width * share, share)

    def point(self, y: Tensor) -> Point:
        """The point at y: σ(y + s) − σ(s) = σ(s)·σ(−s)·(1 − e^−|y|)/(σ(±s) + σ(∓s)·e^−|y|), with the sign of y."""
        found = self.whole.point(y)
        rest = 1 - self.share
        near, far = torch.where(y > 0, self.share, rest), torch.where(y > 0, rest, self.share)
        size = near * far * -torch.expm1(-y.abs()) / (near + far * torch.exp(-y.abs()))
        width = self.whole.width
        value = torch.where(y > 0, width, -width) * size
        return found._replace(centre=Offset(self.place, torch.ones_like(self.place), value, None))

    def locate(self, mark: Mark) -> tuple[Tensor, Tensor]:
        """Place and width of a mark in y."""
        return self.whole.locate(mark)

    def coordinate(self, x: Tensor) -> Tensor:
        """The y of an x; far away if x is outside."""
        return self.whole.coordinate(x)


def from_end(at: Tensor, width: Tensor, end: Tensor, sign: float) -> tuple[Tensor, Tensor]:
    """Log-distance of a mark from an end and its width in that; a width of 0 if it is the end itself.

    A mark outside is felt inside at its own distance from the end, and no more sharply than that.
    """
    inward = sign * (at - end)
    distance = torch.maximum(inward.abs(), width)
    w = torch.where(inward > 0, width / distance.clamp_min(LEAST), 1.0)
    return torch.log(distance.clamp_min(LEAST)), torch.where(distance > LEAST, w, 0.0)
