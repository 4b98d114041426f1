"""The monotone maps of a transformed density, from points to points; `transforms` chains them.

A map carries the distances to the ends of a support exactly: exp(Gamma) starts at 1, and its density there depends on
y − 1 = expm1(x), not on y. Powers are exp ∘ affine ∘ log, tanh is affine ∘ sigmoid ∘ affine.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from kullback.densities.point import HUGE, End, Point, same_end, stable_exp
from kullback.densities.tails import Tail, chosen, of_exponential, of_logarithm

Tails = tuple[Tail, Tail] | None
_MAX_VALUE = 1e200


class Ends(NamedTuple):
    """The ends of a support before a map and after it; the lower one comes first on both sides."""

    low: End
    high: End
    image_low: End
    image_high: End

    def pairs(self) -> tuple[tuple[End, End, float], ...]:
        """An end, its image under an increasing map, and the sign of the way into the support."""
        return (self.low, self.image_low, 1.0), (self.high, self.image_high, -1.0)


class Map(Protocol):
    """What a chain asks of a map."""

    def image(self, low: End, high: End) -> tuple[End, End]:
        """The ends of the support after the map."""

    def push(self, x: Point, ends: Ends) -> Point:
        """The image of a point."""

    def pull(self, y: Point, ends: Ends) -> Point:
        """The point before the map; one outside the image is moved to where no density is."""

    def log_slope(self, x: Point) -> Tensor:
        """log|dy/dx| at the point before the map."""

    def tails(self, tails: Tails, ends: Ends) -> Tails:
        """The tails after the map; None where nobody knows them."""


def is_finite(end: End) -> bool:
    """Whether an end is a finite number or a tensor, which may hold some."""
    return isinstance(end, Tensor) or math.isfinite(end)


def end_tensor(end: End, like: Tensor) -> Tensor:
    """An end as a tensor."""
    return torch.as_tensor(end, dtype=like.dtype, device=like.device)


def at_value(value: Tensor, known: tuple[tuple[End, Tensor], ...] = ()) -> Point:
    """A point known by its value, and by its distances to some ends."""
    zero = torch.zeros_like(value)
    return Point(0.0, zero, value, torch.log(value.abs().clamp_min(1e-300)), known)


def bounded_value(x: Point) -> Tensor:
    """x, within what leaves a density's logarithm the larger one of it and that of a slope."""
    return x.value().clamp(-_MAX_VALUE, _MAX_VALUE)


def log_expm1(d: Tensor) -> Tensor:
    """log(e^d − 1), d > 0."""
    return d + torch.log(-torch.expm1(-d.clamp_min(1e-300)))


class Affine(NamedTuple):
    """y = loc + scale·x.

    Attributes:
        sign: Of the scale; 0 where nobody can look at it, or where it differs between elements.
        exact: Loc and scale where they are Python's numbers: the image of an end may then be one, too.
        loc: What is added.
        scale: The factor.
    """

    sign: int
    exact: tuple[float | None, float | None]
    loc: Tensor
    scale: Tensor

    def image(self, low: End, high: End) -> tuple[End, End]:
        """Both ends, in ascending order."""
        if same_end(low, -math.inf) and same_end(high, math.inf):
            return low, high
        first, second = self._moved(low), self._moved(high)
        if self.sign:
            return (first, second) if self.sign > 0 else (second, first)
        first, second = end_tensor(first, self.loc), end_tensor(second, self.loc)
        return torch.minimum(first, second), torch.maximum(first, second)

    def _moved(self, end: End) -> End:
        """The image of an end; an infinite one has no derivative."""
        if isinstance(end, float) and math.isinf(end):
            return self.sign * end if self.sign else end * torch.sign(self.scale.detach())
        if isinstance(end, float):
            loc, scale = self.exact[0], 0.0 if end == 0 else self.exact[1]
            return self.loc + self.scale * end if loc is None or scale is None else loc + scale * end
        finite = end.isfinite()
        moved = self.loc + self.scale * torch.where(finite, end, 0.0)
        return torch.where(finite, moved, torch.where(finite, 1.0, end.detach()) * torch.sign(self.scale.detach()))

    def push(self, x: Point, ends: Ends) -> Point:
        """The unit is scaled."""
        log_scale = torch.log(self.scale.abs())
        anchor = self.loc + self.scale * x.anchor
        known = self._known(x, (ends.low, ends.high), (ends.image_low, ends.image_high))
        return Point(anchor, x.log_unit + log_scale, torch.sign(self.scale) * x.offset, x.log_offset, known)

    def pull(self, y: Point, ends: Ends) -> Point:
        """The same backwards; an anchor that is the image of an end is that end."""
        log_scale = torch.log(self.scale.abs())
        anchor = (y.anchor - self.loc) / self.scale
        known = self._known(y, (ends.image_low, ends.image_high), (ends.low, ends.high))
        return Point(anchor, y.log_unit - log_scale, torch.sign(self.scale) * y.offset, y.log_offset, known)

    def _known(self, x: Point, ends: tuple[End, End], images: tuple[End, End]) -> tuple[tuple[End, Tensor], ...]:
        """Distances in units are what they were; a negative scale exchanges the ends."""
        low, high = (next((log_d for known, log_d in x.known if same_end(known, end)), None) for end in ends)
        if self.sign:
            moved = (low, high) if self.sign > 0 else (high, low)
            return tuple((image, log_d) for image, log_d in zip(images, moved, strict=True) if log_d is not None)
        if low is None or high is None:  # only the finite end of a half-line is asked for
            only, other = (high, ends[0]) if low is None else (low, ends[1])
            if only is None or not (isinstance(other, float) and math.isinf(other)):
                return ()
            low = high = only
        up = self.scale > 0
        return (images[0], torch.where(up, low, high)), (images[1], torch.where(up, high, low))

    def log_slope(self, x: Point) -> Tensor:
        """log|scale|."""
        return torch.log(self.scale.abs()) + torch.zeros_like(x.offset)

    def tails(self, tails: Tails, ends: Ends) -> Tails:
        """Rates are in units of x."""
        if tails is None:
            return None
        size, up = self.scale.abs(), self.scale > 0
        lower, upper = (
            _scaled_tail(tail, torch.where(end_tensor(end, size).isinf(), 1 / size, size))
            for tail, end in zip(tails, (ends.low, ends.high), strict=True)
        )
        if self.sign:
            return (lower, upper) if self.sign > 0 else (upper, lower)
        lower, upper = (Tail(*(end_tensor(part, size) for part in tail)) for tail in (lower, upper))
        return (
            Tail(*(torch.where(up, a, b) for a, b in zip(lower, upper, strict=True))),
            Tail(*(torch.where(up, b, a) for a, b in zip(lower, upper, strict=True))),
        )


def _scaled_tail(tail: Tail, by: Tensor) -> Tail:
    order, exponent, rate = tail
    if isinstance(order, float):
        return tail if order < 3 else tail._replace(rate=rate * (by if order == 4 else by**exponent))
    return tail._replace(rate=torch.where(order == 4, rate * by, rate * by**exponent))


def is_at(end: End, value: float) -> Tensor | bool:
    """Whether an end is this number, of each element where it is a tensor."""
    return end == value


class Exp(NamedTuple):
    """y = e^x."""

    def image(self, low: End, high: End) -> tuple[End, End]:
        """Of −∞, the end 0."""
        first = torch.exp(low) if isinstance(low, Tensor) else math.exp(low)
        second = torch.exp(high) if isinstance(high, Tensor) else math.inf if high == math.inf else math.exp(high)
        return first, second

    def push(self, x: Point, ends: Ends) -> Point:
        """Log y is x."""
        value = bounded_value(x)
        known: list[tuple[End, Tensor]] = [(0.0, value)]
        for end, image, sign in ends.pairs():
            if is_finite(end) and is_finite(image):
                log_d = x.log_distance(end)
                d = stable_exp(log_d).clamp_max(HUGE)
                grown = log_expm1(d) if sign > 0 else torch.log(-torch.expm1(-d.clamp_min(1e-300)))
                there = end_tensor(end, d)
                log_d = there + torch.where(log_d < -30, log_d, grown)
                known.append((image, torch.where(there.isinf(), value, log_d)))
        return Point(0.0, torch.zeros_like(value), stable_exp(value), value, tuple(known))

    def pull(self, y: Point, ends: Ends) -> Point:
        """Log y, −HUGE for what is not positive."""
        positive = y.z(0.0, torch.zeros_like(y.log_unit)) > -1e-300
        value = torch.where(positive, y.log_distance(0.0), -HUGE).clamp(-HUGE, HUGE)
        known = []
        for end, image, sign in ends.pairs():
            if is_finite(end) and is_finite(image):
                log_r = y.log_distance(image) - end_tensor(end, value)
                r = stable_exp(log_r)
                # Close to 0 the distance from the upper end says nothing of log y.
                below = torch.where(r < 0.5, -torch.log1p(-r.clamp_max(0.5)), end_tensor(end, value) - value)
                d = torch.log1p(r) if sign > 0 else below
                log_d = torch.where(log_r < -30, log_r, torch.log(d.clamp_min(1e-300)))
                known.append((end, torch.where(end_tensor(end, d).isinf(), value.abs().log(), log_d)))
        return at_value(value, tuple(known))

    def log_slope(self, x: Point) -> Tensor:
        """The derivative of e^x, in logarithms."""
        return bounded_value(x)

    def tails(self, tails: Tails, ends: Ends) -> Tails:
        """A finite end stays what it is."""
        if tails is None:
            return None
        lower = chosen(is_at(ends.low, -math.inf), of_exponential(tails[0]), tails[0])
        return lower, chosen(is_at(ends.high, math.inf), of_exponential(tails[1]), tails[1])


class Log(NamedTuple):
    """y = log x."""

    def image(self, low: End, high: End) -> tuple[End, End]:
        """Of 0, −∞."""
        first = torch.log(low) if isinstance(low, Tensor) else math.log(low) if low > 0 else -math.inf
        second = torch.log(high) if isinstance(high, Tensor) else math.inf if high == math.inf else math.log(high)
        return first, second

    def push(self, x: Point, ends: Ends) -> Point:
        """As the exponential backwards."""
        return Exp().pull(x, turned(ends))

    def pull(self, y: Point, ends: Ends) -> Point:
        """The exponential."""
        return Exp().push(y, turned(ends))

    def log_slope(self, x: Point) -> Tensor:
        """Log 1/x."""
        return -x.log_distance(0.0)

    def tails(self, tails: Tails, ends: Ends) -> Tails:
        """An end other than 0 and ∞ stays what it is."""
        if tails is None:
            return None
        lower = chosen(is_at(ends.low, 0.0), of_logarithm(tails[0]), tails[0])
        return lower, chosen(is_at(ends.high, math.inf), of_logarithm(tails[1]), tails[1])


def turned(ends: Ends) -> Ends:
    """The ends for the inverse map."""
    return Ends(ends.image_low, ends.image_high, ends.low, ends.high)
