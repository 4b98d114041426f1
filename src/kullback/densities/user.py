"""A user's univariate class of which only `log_prob` and `support` are known; `reading.read` calls `read_user`.

Where the mass is has to be searched for: on a wide grid in a coordinate of the support, then closer and closer. The
only parameter of such a reading is the number of the element in the batch; derivatives go through `log_prob` itself.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from kullback._core.errors import InputValueError, explain_problem
from kullback.densities.coordinate import Coordinate, Integers, Log, Logit, Sinh
from kullback.densities.density import Density
from kullback.densities.parameters import working
from kullback.densities.point import End, Point, centred
from kullback.densities.registry import Reading
from kullback.kernels.levels import is_traced

# Squares of what is larger than e^320 = 1e139 overflow in many a log_prob: the coordinate ends there, and integrals say
# that they cannot see farther.
_FARTHEST = 320.0
# Local maxima that are kept as marks, and what is too small beside the highest.
_NUM_PEAKS, _NEGLIGIBLE = 4, 40.0


class _Support(NamedTuple):
    """The ends of a support, one for each element of the batch, and whether it consists of integers."""

    low: Tensor
    high: Tensor
    bounded_below: bool
    bounded_above: bool
    lattice: bool


def _support(distribution: Distribution) -> _Support | None:
    try:
        constraint = distribution.support
    except (NotImplementedError, AttributeError):
        return None
    if constraint is None or getattr(constraint, "event_dim", False):
        return None
    lower, upper = getattr(constraint, "lower_bound", None), getattr(constraint, "upper_bound", None)
    lattice = bool(getattr(constraint, "is_discrete", False))
    if constraint is constraints.boolean:
        lower, upper = 0.0, 1.0
    elif lower is None and upper is None and not isinstance(constraint, type(constraints.real)):
        return None
    shape = distribution.batch_shape
    ends = []
    for end, missing in ((lower, -math.inf), (upper, math.inf)):
        tensor = working(torch.as_tensor(missing if end is None else end, device=_device(end))).detach()
        ends.append(tensor.expand(shape).reshape(-1))
    return _Support(ends[0], ends[1], lower is not None, upper is not None, lattice)


def _device(end: object) -> torch.device:
    return end.device if isinstance(end, Tensor) else torch.device("cpu")


class _Asked:
    """A distribution's `log_prob` at coordinates of some elements, strictly inside the support."""

    def __init__(self, distribution: Distribution, support: _Support, shape: torch.Size) -> None:
        self._distribution, self.shape = distribution, shape
        batch = distribution.batch_shape
        self.support = support._replace(
            low=support.low.reshape(batch).expand(shape).reshape(-1),
            high=support.high.reshape(batch).expand(shape).reshape(-1),
        )

    def inside(self, x: Tensor, element: Tensor) -> Tensor:
        """The nearest places strictly inside the support, or the nearest integers."""
        low, high = (end[element].unsqueeze(-1) for end in self.support[:2])
        farthest = math.exp(_FARTHEST)
        x = x.clamp(-farthest, farthest)
        if self.support.lattice:
            return torch.maximum(torch.minimum(x.round(), high), low)
        return torch.maximum(torch.minimum(x, torch.nextafter(high, low)), torch.nextafter(low, high))

    def __call__(self, x: Tensor, element: Tensor) -> Tensor:
        """log_prob at x of shape (rows, nodes), each row belonging to an element."""
        size = self.shape.numel()
        rows, nodes = x.shape
        x = self.inside(x, element)
        if is_traced() or size == 1 or (rows == size and torch.equal(element, torch.arange(size).to(element))):
            # All elements in order, each with as many rows as the others.
            each = rows // size
            columns = x.reshape(size, each * nodes).T
            return self._log_prob(columns, each * nodes).T.reshape(rows, nodes)
        return self._irregular(x, element)

    def _log_prob(self, columns: Tensor, count: int) -> Tensor:
        """At (count, elements)."""
        value = working(self._distribution.log_prob(columns.reshape(count, *self.shape)))
        # Far out a log_prob may be inf − inf; next to the mass that is an error, which `_check` looks for.
        return (
            value.nan_to_num(-math.inf, posinf=math.inf, neginf=-math.inf).expand(count, *self.shape).reshape(count, -1)
        )

    def check(self, x: Tensor) -> None:
        """Refuse a log_prob that is NaN at one of these places, (elements, places)."""
        columns = x.T
        value = self._distribution.log_prob(columns.reshape(-1, *self.shape)).expand(-1, *self.shape)
        value = value.reshape(len(columns), -1)
        if not bool(value.isnan().any()):
            return
        place, element = (int(i) for i in value.isnan().nonzero()[0])
        name = type(self._distribution).__name__
        raise InputValueError(
            explain_problem(
                f"{name}.log_prob is NaN inside its support.",
                got=f"log_prob({columns[place, element].item():.17g}) = nan for element {element} of the batch",
                expected=f"a number, or -inf where the density is 0, everywhere in {self._distribution.support}",
                instead="a log_prob without 0 * inf or inf - inf, or the support that the class really has",
            )
        )

    def _irregular(self, x: Tensor, element: Tensor) -> Tensor:
        """Rows of some elements, filled up to a rectangle with points that are thrown away."""
        size = self.shape.numel()
        order = torch.argsort(element, stable=True)
        counts = torch.bincount(element, minlength=size)
        rank = torch.empty_like(element)
        rank[order] = torch.arange(len(element), device=element.device) - (counts.cumsum(0) - counts)[element[order]]
        most, nodes = int(counts.max()), x.shape[1]
        filled = self._inside()[None, :, None].repeat(most, 1, nodes).index_put((rank, element), x)
        found = self._log_prob(filled.movedim(1, -1).reshape(most * nodes, size), most * nodes)
        return found.reshape(most, nodes, size).movedim(-1, 1)[rank, element]

    def _inside(self) -> Tensor:
        low, high = self.support[:2]
        if self.support.lattice:
            return torch.where(low.isfinite(), low, torch.where(high.isfinite(), high, 0.0))
        both = low.isfinite() & high.isfinite()
        one = torch.where(low.isfinite(), low + 1, torch.where(high.isfinite(), high - 1, 0.0))
        return torch.where(both, (low + high) / 2, one)


def read_user(distribution: Distribution, shape: torch.Size) -> Reading | None:
    """The reading of a class with `log_prob` and `support`; None if the support is no interval."""
    if distribution.event_shape or type(distribution).log_prob is Distribution.log_prob:
        return None
    support = _support(distribution)
    if support is None:
        return None
    asked = _Asked(distribution, support, shape)
    with torch.no_grad():
        found = _search(distribution, asked)
    numbers = torch.arange(shape.numel(), dtype=support.low.dtype, device=support.low.device)

    def make(number: Tensor) -> Density:
        element = number.detach().squeeze(-1).round().long()
        return _density(asked, found, element)

    return Reading((numbers,), make, source=type(distribution), searched=True, lattice=support.lattice)


class _Found(NamedTuple):
    """Where the mass of each element is, (elements, 1) and (elements, peaks).

    Attributes:
        anchor: The highest place on a whole line.
        log_unit: The logarithm of its width there; 0 elsewhere.
        peaks: Local maxima in the coordinate, the highest first: x on a whole line, a count on the integers.
        widths: How far from them log_prob is half a unit lower.
    """

    anchor: Tensor
    log_unit: Tensor
    peaks: Tensor
    widths: Tensor


def _coordinate(support: _Support, anchor: Tensor, log_unit: Tensor) -> Coordinate:
    low, high = support.low.unsqueeze(-1), support.high.unsqueeze(-1)
    if support.lattice:
        return Integers(torch.zeros_like(log_unit))
    if support.bounded_below and support.bounded_above:
        return Logit(low, high, torch.log(high - low))
    if support.bounded_below or support.bounded_above:
        return Log(low, log_unit) if support.bounded_below else Log(high, log_unit, -1.0)
    return Sinh(anchor, log_unit)


def _density(asked: _Asked, found: _Found, element: Tensor) -> Density:
    whole = asked.support
    support = whole._replace(low=whole.low[element], high=whole.high[element])
    anchor, log_unit, peaks, widths = (t[element] for t in found)
    coordinate = _coordinate(support, anchor, log_unit)

    def log_prob(x: Point) -> Tensor:
        value = x.value()
        rows = value.expand(len(element), value.shape[-1])
        # Beyond, and where far from the mass log_prob is inf − inf, the density is unknown, which NaN says.
        return torch.where(rows.abs() < math.exp(_FARTHEST), asked(rows, element), math.nan)

    steps = torch.tensor([-1.0, 0.0, 1.0], dtype=peaks.dtype, device=peaks.device)
    marks = []
    for peak, width in zip(peaks.unsqueeze(-1).unbind(-2), widths.unsqueeze(-1).unbind(-2), strict=True):
        by_place = support.lattice or isinstance(coordinate, Sinh)
        marks.append(centred(peak, torch.log(width)) if by_place else coordinate.point(peak + steps * width))
    low: End = support.low.unsqueeze(-1) if support.bounded_below else -math.inf
    high: End = support.high.unsqueeze(-1) if support.bounded_above else math.inf
    return Density(low, high, coordinate, log_prob, tuple(marks), None, support.lattice, support.lattice)


def _search(distribution: Distribution, asked: _Asked) -> _Found:
    """Local maxima of the density in a coordinate about 0, by a grid and closer and closer ones."""
    support = asked.support
    size = support.low.shape[0]
    place: dict[str, Any] = {"dtype": support.low.dtype, "device": support.low.device}
    zero = torch.zeros((size, 1), **place)
    element = torch.arange(size, device=support.low.device)
    coordinate = _coordinate(support, zero, zero)
    low, high = support.low.unsqueeze(-1), support.high.unsqueeze(-1)

    def tidy(v: Tensor) -> Tensor:
        return torch.maximum(torch.minimum(v.floor(), high), low) + 0.5 if support.lattice else v

    def height(v: Tensor) -> Tensor:
        x = coordinate.point(v)
        found = asked(x.value().expand(size, v.shape[-1]), element) + coordinate.log_slope(v)
        return found.nan_to_num(-math.inf, posinf=-math.inf)

    grid, reach = _grid(support, low)
    hint = _mean(distribution, asked, coordinate)
    if hint is not None:
        grid, reach = torch.cat([grid, tidy(hint)], -1), torch.cat([reach, 0.05 * (1 + hint.abs())], -1)
        grid, order = grid.sort(-1)
        reach = reach.gather(-1, order)
    heights = height(tidy(grid))
    inner = torch.nn.functional.pad(heights, (1, 1), value=-math.inf)
    is_peak = (inner[:, 1:-1] >= inner[:, :-2]) & (inner[:, 1:-1] >= inner[:, 2:])
    best = torch.where(is_peak, heights, -math.inf).topk(_NUM_PEAKS, -1)
    v, reach = grid.gather(-1, best.indices), reach.gather(-1, best.indices)
    fine = torch.linspace(-1.0, 1.0, 21, **place)
    for _ in range(14):
        near = tidy((v.unsqueeze(-1) + reach.unsqueeze(-1) * fine).flatten(-2))
        seen = height(near).reshape(size, _NUM_PEAKS, -1)
        v = near.reshape(size, _NUM_PEAKS, -1).gather(-1, seen.argmax(-1, keepdim=True)).squeeze(-1)
        reach = reach / 6
    peak = height(tidy(v))
    steps = 2.0 ** torch.arange(*((0.0, 40.0) if support.lattice else (-34.0, 7.0)), **place)
    beside = [
        height(tidy((v.unsqueeze(-1) + sign * steps).flatten(-2))).reshape(size, _NUM_PEAKS, -1) for sign in (-1.0, 1.0)
    ]
    near_top = peak.unsqueeze(-1) - torch.minimum(*beside) < 0.5
    width = steps[torch.where(near_top, torch.arange(len(steps), device=steps.device), 0).amax(-1)]
    # A peak of no height beside the highest is as good as that.
    visible = best.values > best.values[:, :1] - _NEGLIGIBLE
    v, width = torch.where(visible, v, v[:, :1]), torch.where(visible, width, width[:, :1])
    if not is_traced():
        around = (v.unsqueeze(-1) + width.unsqueeze(-1) * torch.linspace(-3.0, 3.0, 13, **place)).flatten(-2)
        asked.check(asked.inside(coordinate.point(tidy(around)).value(), element))
    if support.lattice:
        # All places beyond an end were taken for the end: a flat mass function is no wider than its support.
        return _Found(zero, zero, v - 0.5, torch.minimum(width, (high - low).clamp_min(1.0)))
    if isinstance(coordinate, Sinh):
        x, width = coordinate.point(v).value(), width * torch.exp(coordinate.log_slope(v))
        return _Found(x[:, :1], torch.log(width[:, :1]), x, width)
    return _Found(zero, zero, v, width)


def _grid(support: _Support, low: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates to look at first, and how far it is from one to the next."""
    if support.lattice:
        start = torch.where(low.isfinite(), low, 0.0)
        steps = torch.expm1(torch.linspace(0.0, 30.0, 2001, dtype=low.dtype, device=low.device)) + 0.5
        if not support.bounded_below:
            steps = torch.cat([-steps.flip(0), steps])
        return start + steps, (0.02 * (steps.abs() + 50.0)).expand(low.shape[0], -1)
    v = torch.linspace(-60.0, 60.0, 2401, dtype=low.dtype, device=low.device).expand(low.shape[0], -1)
    return v, torch.full_like(v, 0.06)


def _mean(distribution: Distribution, asked: _Asked, coordinate: Coordinate) -> Tensor | None:
    """The mean in the coordinate, if the class has one: a narrow peak far from 0 is found by it."""
    try:
        mean = distribution.mean
    except (NotImplementedError, AttributeError):
        return None
    if not isinstance(mean, Tensor) or mean.shape != distribution.batch_shape:
        return None
    place = working(mean.detach()).expand(asked.shape).reshape(-1, 1)
    at = coordinate.coordinate(centred(place, torch.zeros_like(place)))[:, 1:2]
    return at.nan_to_num(0.0).clamp(-1e6, 1e300)
