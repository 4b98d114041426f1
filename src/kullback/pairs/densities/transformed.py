"""The law of T(z), z of a law that has a description, T any chain of monotone maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import TransformedDistribution, transforms

from kullback.pairs.densities.chart import Chart, Mark
from kullback.pairs.densities.exponential_maps import Exp, Logarithm, Power, Sigmoid
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.maps import Affine, Generic, Map
from kullback.pairs.densities.point import Point
from kullback.pairs.densities.reading import Given
from kullback.pairs.parameters import working


def flat(chain: list[transforms.Transform]) -> list[transforms.Transform]:
    """A composition as the list of its parts."""
    parts = [flat(t.parts) if isinstance(t, transforms.ComposeTransform) else [t] for t in chain]
    return [t for part in parts for t in part]


def transformable(distribution: TransformedDistribution) -> bool:
    """Whether every map is a bijection of numbers."""
    return all(t.bijective and t.domain.event_dim == 0 for t in flat(distribution.transforms))


class Carried(NamedTuple):
    """A chart followed by a map."""

    inner: Chart
    by: Map

    def point(self, y: Tensor) -> Point:
        """The point at y."""
        before = self.inner.point(y)
        after = self.by.push(before)
        return after._replace(origin=(self.by, before, after.log_jacobian - before.log_jacobian))

    def locate(self, mark: Mark) -> tuple[Tensor, Tensor]:
        """Place and width of a mark in y."""
        return self.inner.locate(self.by.pull_mark(mark))

    def coordinate(self, x: Tensor) -> Tensor:
        """The y of an x."""
        return self.inner.coordinate(self.by.back(x))


def describe_transformed(given: Given, describe: Callable[[Given], Law]) -> Law:
    """The base law carried along by one map after another."""
    distribution = given.distribution
    assert isinstance(distribution, TransformedDistribution)
    law = describe(Given(distribution.base_dist, given.lift))
    for transform in flat(distribution.transforms):
        law = _carried(law, _map_of(transform, law, given))
    return law


def _map_of(transform: transforms.Transform, law: Law, given: Given) -> Map:
    if isinstance(transform, transforms.ExpTransform):
        return Exp(law.lower)
    if isinstance(transform, transforms.AffineTransform):
        loc, scale = (given.shaped(_number(part)) for part in (transform.loc, transform.scale))
        return Affine(loc, scale)
    if isinstance(transform, transforms.SigmoidTransform):
        return Sigmoid(0.0, 1.0, 1.0)
    if isinstance(transform, transforms.TanhTransform):
        return Sigmoid(-1.0, 2.0, 2.0)
    if isinstance(transform, transforms.PowerTransform):
        return Power(given.shaped(_number(transform.exponent)))
    if isinstance(transform, transforms._InverseTransform) and isinstance(transform.inv, transforms.ExpTransform):
        return Logarithm()
    return Generic(transform)


def _number(value: float | Tensor) -> Tensor:
    """A parameter of a map; a Python number is a double, whatever torch's default is."""
    return working(value) if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)


def _carried(law: Law, by: Map) -> Law:
    def log_density(point: Point) -> LogDensity:
        origin = point.origin
        inner, slope = origin[1:] if origin is not None and origin[0] is by else by.pull(point)
        level, drop, log_drop = law.log_density(inner)
        return LogDensity(level - slope, drop, log_drop)

    ends = [by.value(end) for end in (law.lower, law.upper)]
    tails = [
        [new for tail in old for new in by.tail(tail, end=end)]
        for old, end in ((law.lower_tails, law.lower), (law.upper_tails, law.upper))
    ]
    carried = Law(
        Carried(law.chart, by),
        log_density,
        ends[0],
        ends[1],
        tails[0],
        tails[1],
        marks=[by.push_mark(mark) for mark in law.marks],
        bulk=[by.push_mark(mark) for mark in law.bulk],
        kinks=tuple(torch.as_tensor(by.value(kink)) for kink in law.kinks),
        moving=True,
    )
    if isinstance(by, Affine):
        return _oriented(carried, by.scale > 0)
    return _oriented(carried, by.exponent > 0) if isinstance(by, Power) else carried


def _oriented(law: Law, up: Tensor) -> Law:
    """Ends exchanged where the map is decreasing."""
    low, high = (torch.as_tensor(end, dtype=torch.float64, device=up.device) for end in (law.lower, law.upper))
    lower, upper = torch.where(up, low, high), torch.where(up, high, low)
    masked = [
        [tail._replace(where=mask if tail.where is None else tail.where & mask) for tail in tails]
        for tails, mask in (
            (law.lower_tails, up),
            (law.upper_tails, ~up),
            (law.upper_tails, up),
            (law.lower_tails, ~up),
        )
    ]
    return law._replace(
        lower=_simple(lower, -math.inf),
        upper=_simple(upper, math.inf),
        lower_tails=masked[0] + masked[1],
        upper_tails=masked[2] + masked[3],
    )


def _simple(end: Tensor, infinity: float) -> Tensor:
    return torch.where(end.isinf(), infinity, end)
