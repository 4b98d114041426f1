"""Maps that are known by their values, onto the line or a part of it, and distribution functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.transforms import Transform

from kullback._core.numbers import as_tensor
from kullback.pairs.densities.chart import Mark
from kullback.pairs.densities.maps import on_line, plain_value
from kullback.pairs.densities.point import Distance, Point
from kullback.pairs.densities.tails import Tail
from kullback.pairs.support import Bound

_FAR = 1e100
_TINY = 1e-300
# Of an end that is not 0: what a distance to it is, at least, that was rounded to 0.
_ROUNDED = 5e-17


class Ends(NamedTuple):
    """An interval of numbers."""

    lower: float
    upper: float


def ends_of(constraint: constraints.Constraint) -> Ends | None:
    """The interval that a constraint describes; None if it is none, or its ends are tensors."""
    kind = type(constraint)
    if kind is type(constraints.real):
        return Ends(-math.inf, math.inf)
    found = [getattr(constraint, name, None) for name in ("lower_bound", "upper_bound")]
    if kind not in _INTERVALS or not all(end is None or isinstance(end, int | float) for end in found):
        return None
    return Ends(-math.inf if found[0] is None else float(found[0]), math.inf if found[1] is None else float(found[1]))


_INTERVALS = (
    constraints.interval,
    constraints.half_open_interval,
    constraints.greater_than,
    constraints.greater_than_eq,
    constraints.less_than,
)


class DistributionFunction(NamedTuple):
    """x = F(z), with both tails to full relative accuracy.

    Attributes:
        log_tails: log F(z) and log(1 − F(z)).
        back: The z of a log F and a log(1 − F).
        log_slope: Of F.
    """

    log_tails: Callable[[Tensor], tuple[Tensor, Tensor]]
    back: Callable[[Tensor, Tensor], Tensor]
    log_slope: Callable[[Tensor], Tensor]


class Generic(NamedTuple):
    """Any other bijection, known by its values; distances to the ends of its image are differences.

    Attributes:
        transform: The map.
        domain: Where it is defined.
        image: What it maps onto.
        up: Whether it is increasing.
        exact: The map by formulas, if it is a distribution function that is known.
    """

    transform: Transform
    domain: Ends
    image: Ends
    up: bool
    exact: DistributionFunction | None = None

    def _forward(self, z: Tensor) -> Tensor:
        if self.exact is not None:
            return torch.exp(self.exact.log_tails(z)[0])
        x: Tensor = self.transform(z)
        return x

    def _log_slope(self, z: Tensor, x: Tensor) -> Tensor:
        if self.exact is not None:
            return self.exact.log_slope(z)
        slope: Tensor = self.transform.log_abs_det_jacobian(z, x)  # type: ignore[no-untyped-call]
        return slope

    def push(self, point: Point) -> Point:
        """From z to x."""
        z = plain_value(point)
        x = self._forward(z)
        slope = self._log_slope(z, x).nan_to_num(0.0)
        log_jacobian = point.log_jacobian + slope
        if math.isinf(self.image.lower) and math.isinf(self.image.upper):
            return on_line(x.nan_to_num(0.0, _FAR, -_FAR), log_jacobian)
        logs = self._log_distances(x) if self.exact is None else self.exact.log_tails(z)
        zero = torch.zeros_like(x)
        distances = [
            None if math.isinf(end) else Distance(zero + end, zero + 1, log)
            for end, log in zip(self.image, logs, strict=True)
        ]
        return Point(None, distances[0], distances[1], log_jacobian)

    def _log_distances(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.nan_to_num(0.0, _FAR, -_FAR)
        least = [max(_ROUNDED * abs(end), _TINY) if math.isfinite(end) else _TINY for end in self.image]
        low, high = (0.0 if math.isinf(end) else end for end in self.image)
        return torch.log((x - low).clamp_min(least[0])), torch.log((high - x).clamp_min(least[1]))

    def pull(self, point: Point) -> tuple[Point, Tensor]:
        """From x to z."""
        if self.exact is not None:
            one = torch.ones_like(point.log_jacobian)
            z = self.exact.back(point.log_above(one - 1, one), point.log_below(one, one))
            x = torch.exp(self.exact.log_tails(z)[0])
        else:
            x = plain_value(point)
            z = self.transform.inv(x)
        z = z.nan_to_num(0.0, _FAR, -_FAR).clamp(-_FAR, _FAR)
        return on_line(z, torch.zeros_like(z)), self._log_slope(z, x).nan_to_num(0.0)

    def push_mark(self, mark: Mark) -> Mark:
        """A mark of z in x."""
        at, width = mark.on_line()
        x = self._forward(self._inside(at))
        w = width * torch.exp(self._log_slope(at, x))
        real = x.isfinite() & w.isfinite() & (w > 0)
        return Mark(torch.where(real, x, self._middle()), torch.where(real, w, 1.0))

    def pull_mark(self, mark: Mark) -> Mark:
        """A mark of x in z."""
        at, width = mark.on_line()
        z = self.back(at)
        w = width * torch.exp(-self._log_slope(z, at))
        # A mark that the map does not reach says nothing here.
        real = z.isfinite() & w.isfinite() & (w > 0)
        return Mark(torch.where(real, z, 0.0), torch.where(real, w, 1.0))

    def _inside(self, z: Tensor) -> Tensor:
        """What is outside, or at an end, moved inside."""
        return torch.where((z > self.domain.lower) & (z < self.domain.upper), z, _middle(self.domain))

    def _middle(self) -> float:
        return _middle(self.image)

    def value(self, z: Bound) -> Bound:
        """T(z), at the ends of the domain those of the image."""
        at = as_tensor(z, torch.float64)
        first, last = self.image if self.up else (self.image.upper, self.image.lower)
        inner = torch.where(at >= self.domain.upper, last, self._forward(self._inside(at)))
        found = torch.where(at <= self.domain.lower, first, inner)
        return found if isinstance(z, Tensor) else float(found.detach().reshape(-1)[0])

    def back(self, x: Tensor) -> Tensor:
        """T⁻¹(x)."""
        low, high = self.image
        inside = torch.where((x > low) & (x < high), x, _middle(self.image))
        if self.exact is not None:
            return self.exact.back(torch.log(inside), torch.log1p(-inside))
        z: Tensor = self.transform.inv(inside)
        return z

    def tail(self, tail: Tail, *, end: Bound) -> list[Tail]:  # noqa: ARG002
        """Unknown; the law is marked unsure and its tails are looked at."""
        return []


def _middle(ends: Ends) -> float:
    low, high = ends
    if math.isinf(low):
        return 0.0 if math.isinf(high) else high - 1
    return low + 1 if math.isinf(high) else low + (high - low) / 2


def increasing(transform: Transform, domain: Ends) -> bool:
    """Whether a map is increasing, by its own word or by two values."""
    try:
        sign = transform.sign
    except NotImplementedError:
        middle = _middle(domain)
        step = 0.25 * min(1.0, domain.upper - domain.lower)
        low, high = transform(torch.tensor([middle, middle + step], dtype=torch.float64, device="cpu")).tolist()
        return bool(high > low)
    return bool(as_tensor(sign).reshape(-1)[0] > 0)
