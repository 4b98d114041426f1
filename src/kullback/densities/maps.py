"""The monotone maps of a transformed density, from points to points; `transforms` chains them.

Affine maps, the exponential and the logarithm make all others. A map carries the distances to the ends of a support
exactly: exp(Gamma) starts at 1, and its density there depends on y − 1 = expm1(x), not on y.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.densities.point import HUGE, End, Point, same_end, stable_exp
from kullback.densities.tails import Tail, chosen, of_exponential, of_logarithm, scaled

# The ends of a support before a map and after it, in their order before it.
Ends = tuple[tuple[End, End], tuple[End, End]]
# A larger x leaves no density's logarithm beside that of a slope.
_MAX_VALUE = 1e200
_LOG_2 = math.log(2.0)
# Below this logarithm 1 − e^−d and d are one number.
_TINY = -40.0


class Affine(NamedTuple):
    """y = loc + scale·x; the sign of the scale is 0 where it differs between elements, or nobody can look at it."""

    loc: End
    scale: End
    sign: int

    def parameters(self) -> list[Tensor]:
        """The numbers that are no constants."""
        return [part for part in (self.loc, self.scale) if isinstance(part, Tensor)]

    def with_parameters(self, given: Iterator[Tensor]) -> Affine:
        """The same map of some elements, with their parameters."""
        loc, scale = (next(given) if isinstance(part, Tensor) else part for part in (self.loc, self.scale))
        return Affine(loc, scale, self.sign)

    def image(self, end: End) -> End:
        """The image of an end; an infinite one has no derivative."""
        if isinstance(end, Tensor):
            finite = end.isfinite()
            moved = self.loc + self.scale * torch.where(finite, end, 0.0)
            return torch.where(finite, moved, end.detach() * self._direction())
        if math.isinf(end):
            return end * self._direction()
        return self.loc if end == 0 else self.loc + self.scale * end

    def _direction(self) -> End:
        return torch.sign(self.scale.detach()) if isinstance(self.scale, Tensor) and not self.sign else float(self.sign)

    def _log_size(self) -> End:
        return torch.log(self.scale.abs()) if isinstance(self.scale, Tensor) else math.log(abs(self.scale))

    def push(self, x: Point, ends: Ends) -> Point:
        """The unit is scaled; distances in units are what they were."""
        known = tuple((image, log_d) for at, log_d in x.known for end, image in ends if same_end(at, end))
        unit, offset = x.log_unit + self._log_size(), self._direction() * x.offset
        return Point(self.loc + self.scale * x.anchor, unit, offset, x.log_offset, known)

    def pull(self, y: Point, ends: Ends) -> Point:
        """The same backwards."""
        known = tuple((end, log_d) for at, log_d in y.known for end, image in ends if same_end(at, image))
        unit, offset = y.log_unit - self._log_size(), self._direction() * y.offset
        return Point((y.anchor - self.loc) / self.scale, unit, offset, y.log_offset, known)

    def log_slope(self, x: Point) -> Tensor:
        """log|dy/dx| at the point before the map."""
        return self._log_size() + torch.zeros_like(x.offset)

    def tail(self, tail: Tail, end: End) -> Tail:
        """A tail after the map: rates are in units of x."""
        size = self.scale.abs() if isinstance(self.scale, Tensor) else abs(self.scale)
        return chosen(_is_infinite(end), scaled(tail, 1 / size), scaled(tail, size))


class Exp(NamedTuple):
    """y = e^x, an increasing map."""

    sign: int = 1

    def image(self, end: End) -> End:
        """The image of an end."""
        if isinstance(end, Tensor):
            return torch.exp(end)
        return math.inf if end == math.inf else math.exp(end)

    def push(self, x: Point, ends: Ends) -> Point:
        """y, with the distances to 0 and to the images of finite ends."""
        value = _value(x)
        known: list[tuple[End, Tensor]] = [(0.0, value)]
        for end, image, unit in _finite(ends, value):
            log_d = x.log_distance(end)
            shrunk = torch.log(-torch.expm1(-stable_exp(log_d).clamp(1e-300, HUGE)))
            shrunk = torch.where(log_d < _TINY, log_d, shrunk)
            known.append((image, torch.where(unit.isinf(), value, unit + shrunk)))
        return Point(0.0, torch.zeros_like(value), stable_exp(value), value, tuple(known))

    def pull(self, y: Point, ends: Ends) -> Point:
        """x, and its distances to finite ends; −HUGE for a negative y."""
        value = torch.where(y.z(0.0, 0.0) < 0, -HUGE, y.log_distance(0.0)).clamp(-HUGE, HUGE)
        known = []
        for end, image, unit in _finite(ends, value):
            there = _tensor(end, value)
            log_r = torch.where(there.isinf(), 0.0, y.log_distance(image) - unit)
            far = torch.log((value - there).abs().clamp_min(1e-300))
            near = torch.log(-torch.log1p(-stable_exp(log_r).clamp(1e-300, 0.5)))
            near = torch.where(log_r < _TINY, log_r, near)
            known.append((end, torch.where(log_r < -_LOG_2, near, far)))
        return Point(0.0, torch.zeros_like(value), value, torch.log(value.abs().clamp_min(1e-300)), tuple(known))

    def log_slope(self, x: Point) -> Tensor:
        """log|dy/dx| at the point before the map."""
        return _value(x)

    def tail(self, tail: Tail, end: End) -> Tail:
        """A tail after the map: a finite end stays what it is."""
        return chosen(_is_infinite(end), of_exponential(tail), tail)


class Log(NamedTuple):
    """y = log x, the exponential backwards."""

    sign: int = 1

    def image(self, end: End) -> End:
        """The image of an end; numbers below 0 are in no support."""
        if isinstance(end, Tensor):
            return torch.log(end)
        return math.log(end) if end > 0 else -math.inf

    def push(self, x: Point, ends: Ends) -> Point:
        """The exponential backwards."""
        return Exp().pull(x, _turned(ends))

    def pull(self, y: Point, ends: Ends) -> Point:
        """The exponential."""
        return Exp().push(y, _turned(ends))

    def log_slope(self, x: Point) -> Tensor:
        """log|dy/dx| at the point before the map."""
        return -x.log_distance(0.0)

    def tail(self, tail: Tail, end: End) -> Tail:
        """A tail after the map: an end that is not sent to infinity stays what it is."""
        return chosen((end == 0) | (end == math.inf), of_logarithm(tail), tail)


Map = Affine | Exp | Log


def _turned(ends: Ends) -> Ends:
    (low, image_low), (high, image_high) = ends
    return (image_low, low), (image_high, high)


def _is_infinite(end: End) -> Tensor | bool:
    return end.isinf() if isinstance(end, Tensor) else math.isinf(end)


def _tensor(end: End, like: Tensor) -> Tensor:
    return torch.as_tensor(end, dtype=like.dtype, device=like.device)


def _value(x: Point) -> Tensor:
    return x.value().clamp(-_MAX_VALUE, _MAX_VALUE)


def _finite(ends: Ends, value: Tensor) -> list[tuple[End, End, Tensor]]:
    """Finite ends e, their images e^e and u = max(e, x), by which |e^x − e^e| = e^u·(1 − e^(−|x − e|))."""
    units = value, _tensor(ends[1][0], value)
    both = [(*pair, unit) for pair, unit in zip(ends, units, strict=True)]
    return [row for row in both if all(isinstance(end, Tensor) or math.isfinite(end) for end in row[:2])]
