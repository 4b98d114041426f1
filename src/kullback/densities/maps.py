"""The monotone maps of a transformed density, from points to points; `transforms` chains them.

A map carries the distances to the ends of a support exactly: exp(Gamma) starts at 1, and its density there depends on
y − 1 = expm1(x), not on y. Exponentials, sigmoids, their inverses and affine maps make the others: a power is exp ∘
affine ∘ log, softplus is log ∘ (1 + ·) ∘ exp, tanh is affine ∘ sigmoid ∘ affine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from kullback.densities.coordinate import softplus
from kullback.densities.point import HUGE, End, Point, same_end, stable_exp
from kullback.densities.tails import Tail, chosen, of_exponential, of_logarithm

Tails = tuple[Tail, Tail] | None
_MAX_VALUE = 1e200
_LOG_2 = math.log(2.0)
# Below this logarithm 1 − e^−d and d are one number.
_TINY = -40.0


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


class Steep(NamedTuple):
    """y = e^x, or the sigmoid of x.

    With log y = u(x) and log(1 − y) = d(x), d = 0 for the exponential, the distance of the images of two points x > e
    is e^(u(x) + d(e))·(1 − e^(e − x)): all its digits are there, however close they are.
    """

    sigmoid: bool

    def up(self, x: Tensor) -> Tensor:
        """Log y."""
        return -softplus(-x) if self.sigmoid else x

    def down(self, x: Tensor) -> Tensor:
        """log(1 − y), or 0."""
        return -softplus(x) if self.sigmoid else torch.zeros_like(x)

    @property
    def top(self) -> float:
        """The largest y."""
        return 1.0 if self.sigmoid else math.inf

    def image(self, low: End, high: End) -> tuple[End, End]:
        """The ends of the support after the map."""
        return self._image(low), self._image(high)

    def _image(self, end: End) -> End:
        if isinstance(end, Tensor):
            return torch.sigmoid(end) if self.sigmoid else torch.exp(end)
        if math.isinf(end):
            return self.top if end > 0 else 0.0
        return 1 / (1 + math.exp(-end)) if self.sigmoid else math.exp(end)

    def push(self, x: Point, ends: Ends) -> Point:
        """The distance to 0 and, of the sigmoid, the one to 1, in logarithms."""
        value = bounded_value(x)
        log_up, log_down = self.up(value), self.down(value)
        known: list[tuple[End, Tensor]] = [(0.0, log_up)]
        for end, image, sign in ends.pairs():
            if is_finite(end) and is_finite(image):
                log_d = x.log_distance(end)
                d, there = stable_exp(log_d).clamp(1e-300, HUGE), end_tensor(end, log_d)
                shrunk = torch.where(log_d < _TINY, log_d, torch.log(-torch.expm1(-d)))
                scale = log_up + self.down(there) if sign > 0 else self.up(there) + log_down
                known.append((image, torch.where(scale.isinf(), log_up, scale + shrunk)))
        if not self.sigmoid:
            return Point(0.0, torch.zeros_like(value), stable_exp(value), value, tuple(known))
        lower = value < 0
        log_near = torch.where(lower, log_up, log_down)
        anchor, sign_in = torch.where(lower, torch.zeros_like(value), 1.0), torch.where(lower, 1.0, -1.0)
        known.append((1.0, log_down))
        return Point(anchor, torch.zeros_like(value), torch.exp(log_near) * sign_in, log_near, tuple(known))

    def pull(self, y: Point, ends: Ends) -> Point:
        """Log y − log(1 − y), ±HUGE for what is outside the image."""
        zero = torch.zeros_like(y.log_unit)
        log_up, log_down = _logs(self, y)
        value = torch.where(y.z(0.0, zero) < 0, -HUGE, log_up - log_down)
        if self.sigmoid:
            value = torch.where(y.z(1.0, zero) > 0, HUGE, value)
        value = value.clamp(-HUGE, HUGE)
        known = []
        for end, image, sign in ends.pairs():
            if is_finite(end) and is_finite(image):
                there = end_tensor(end, value)
                scale = log_up + self.down(there) if sign > 0 else self.up(there) + log_down
                log_r = torch.where(there.isinf(), 0.0, y.log_distance(image) - scale)
                far = torch.log((sign * (value - there)).clamp_min(1e-300))
                near = torch.log(-torch.log1p(-stable_exp(log_r).clamp(1e-300, 0.5)))
                near = torch.where(log_r < _TINY, log_r, near)
                known.append((end, torch.where(log_r < -_LOG_2, near, far)))
        return at_value(value, tuple(known))

    def log_slope(self, x: Point) -> Tensor:
        """Log y(1 − y), or log y."""
        value = bounded_value(x)
        return self.up(value) + self.down(value)

    def tails(self, tails: Tails, ends: Ends) -> Tails:
        """A finite end stays what it is."""
        return _at_ends(tails, ends, (-math.inf, math.inf), of_exponential)


class Inverse(NamedTuple):
    """y = log x, or log x − log(1 − x)."""

    of: Steep

    def image(self, low: End, high: End) -> tuple[End, End]:
        """The ends of the support after the map."""
        return self._image(low), self._image(high)

    def _image(self, end: End) -> End:
        if isinstance(end, Tensor):
            return torch.logit(end) if self.of.sigmoid else torch.log(end)
        if end <= 0 or end >= self.of.top:
            return -math.inf if end <= 0 else math.inf
        return math.log(end / (1 - end)) if self.of.sigmoid else math.log(end)

    def push(self, x: Point, ends: Ends) -> Point:
        """The map itself backwards."""
        return self.of.pull(x, _turned(ends))

    def pull(self, y: Point, ends: Ends) -> Point:
        """The map itself."""
        return self.of.push(y, _turned(ends))

    def log_slope(self, x: Point) -> Tensor:
        """Log 1/x, or log 1/(x(1 − x))."""
        log_up, log_down = _logs(self.of, x)
        return -log_up - log_down

    def tails(self, tails: Tails, ends: Ends) -> Tails:
        """An end that is not sent to infinity stays what it is."""
        return _at_ends(tails, ends, (0.0, self.of.top), of_logarithm)


def _logs(by: Steep, y: Point) -> tuple[Tensor, Tensor]:
    """Log y, and log(1 − y) or 0, of a point after the map."""
    log_up = y.log_distance(0.0)
    return log_up, y.log_distance(1.0) if by.sigmoid else torch.zeros_like(log_up)


def _at_ends(tails: Tails, ends: Ends, at: tuple[float, float], change: Callable[[Tail], Tail]) -> Tails:
    """The tails, changed where an end is the one given."""
    if tails is None:
        return None
    return chosen(ends.low == at[0], change(tails[0]), tails[0]), chosen(ends.high == at[1], change(tails[1]), tails[1])


def _turned(ends: Ends) -> Ends:
    """The ends for the inverse map."""
    return Ends(ends.image_low, ends.image_high, ends.low, ends.high)
