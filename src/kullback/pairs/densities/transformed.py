"""The law of T(z), z of a law that has a description, T any chain of monotone maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution, TransformedDistribution, transforms

from kullback._core.numbers import as_tensor
from kullback.densities.canonical_transforms import flat_transforms as flat
from kullback.pairs.densities.chart import Chart, Mark
from kullback.pairs.densities.distribution_functions import distribution_function, known
from kullback.pairs.densities.exponential_maps import Exp, Logarithm, Sigmoid
from kullback.pairs.densities.generic_maps import Generic, ends_of, increasing
from kullback.pairs.densities.half_line_maps import InverseOf, Softplus, Unsoftplus, Unsquash
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.maps import Affine, Map
from kullback.pairs.densities.point import Point
from kullback.pairs.densities.power_map import Power
from kullback.pairs.densities.reading import Given
from kullback.pairs.parameters import number
from kullback.pairs.support import Bound
from kullback.pairs.visible import surely

FOLLOWED = (
    transforms.AffineTransform,
    transforms.ExpTransform,
    transforms.PowerTransform,
    transforms.SigmoidTransform,
    transforms.SoftplusTransform,
    transforms.TanhTransform,
)


def transformable(distribution: TransformedDistribution) -> bool:
    """Whether every map is a bijection of numbers that is known, or one between intervals of the line.

    Of a map that is known by its values only, the distance to an end of its image is what rounding left of it.
    """
    return all(t.bijective and t.domain.event_dim == 0 and _is_followed(t) for t in flat(distribution.transforms))


def _is_followed(transform: transforms.Transform) -> bool:
    plain = transform.inv if isinstance(transform, transforms._InverseTransform) else transform
    if isinstance(plain, FOLLOWED) or _distribution_function(plain) is not None:
        return True
    # Parameters of a map that is not known cannot be given the shape of the nodes.
    held = [value for value in vars(plain).values() if isinstance(value, Tensor | Distribution)]
    single = all(value.numel() == 1 if isinstance(value, Tensor) else not value.batch_shape for value in held)
    return single and ends_of(plain.domain) is not None and ends_of(plain.codomain) is not None


def _distribution_function(transform: transforms.Transform) -> Distribution | None:
    """The distribution whose function a map is, if there are formulas for it."""
    if not isinstance(transform, transforms.CumulativeDistributionTransform):
        return None
    return transform.distribution if known(transform.distribution) else None


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
    if isinstance(transform, transforms._InverseTransform):
        known = _inverse_of(transform.inv, law, given)
        return _generic(transform, given) if known is None else known
    if isinstance(transform, transforms.ExpTransform):
        return Exp(law.lower, law.upper)
    if isinstance(transform, transforms.AffineTransform):
        loc, scale = (given.shaped(number(part)) for part in (transform.loc, transform.scale))
        return Affine(loc, scale, (law.lower, law.upper), _rising(transform))
    if isinstance(transform, transforms.PowerTransform):
        return Power(given.shaped(number(transform.exponent)), law.upper)
    if isinstance(transform, transforms.SoftplusTransform):
        return Softplus(law.lower)
    squashing = _SQUASHING.get(type(transform))
    return _generic(transform, given) if squashing is None else squashing._replace(first=law.lower, last=law.upper)


def _generic(transform: transforms.Transform, given: Given) -> Map:
    if isinstance(transform, transforms._InverseTransform):
        return InverseOf(_generic(transform.inv, given))
    of = _distribution_function(transform)
    exact = None if of is None else distribution_function(Given(of, given.wide(of)))
    domain, image = ends_of(transform.domain), ends_of(transform.codomain)
    assert domain is not None
    assert image is not None
    return Generic(transform, domain, image, exact is not None or increasing(transform, domain), exact)


_SQUASHING = {transforms.SigmoidTransform: Sigmoid(0.0, 1.0, 1.0), transforms.TanhTransform: Sigmoid(-1.0, 2.0, 2.0)}


def _inverse_of(transform: transforms.Transform, law: Law, given: Given) -> Map | None:
    if isinstance(transform, transforms.ExpTransform):
        return Logarithm(law.upper)
    if isinstance(transform, transforms.AffineTransform):
        loc, scale = (given.shaped(number(part)) for part in (transform.loc, transform.scale))
        return Affine(-loc / scale, 1 / scale, (law.lower, law.upper), _rising(transform))
    if isinstance(transform, transforms.PowerTransform):
        return Power(1 / given.shaped(number(transform.exponent)), law.upper)
    if isinstance(transform, transforms.SoftplusTransform):
        return Unsoftplus(Softplus(-math.inf))
    squashing = _SQUASHING.get(type(transform))
    return None if squashing is None else Unsquash(_over(squashing, law))


def _over(squashing: Sigmoid, law: Law) -> Sigmoid:
    """The map whose image is where a law lives: an end inside the image has one before the map."""
    low, high = squashing.lower, squashing.lower + squashing.width
    inside = [isinstance(end, Tensor) and surely((end > low) & (end < high)) for end in (law.lower, law.upper)]
    ends = [squashing.back(end) if isinstance(end, Tensor) else end for end in (law.lower, law.upper)]
    return squashing._replace(first=ends[0] if inside[0] else -math.inf, last=ends[1] if inside[1] else math.inf)


def _rising(transform: transforms.AffineTransform) -> bool | None:
    return None if isinstance(transform.scale, Tensor) else transform.scale > 0


def _carried(law: Law, by: Map) -> Law:
    def log_density(point: Point) -> LogDensity:
        origin = point.origin
        inner, slope = origin[1:] if origin is not None and origin[0] is by else by.pull(point)
        level, drop, log_drop = law.log_density(inner)
        return LogDensity(level - slope, drop, log_drop)

    inner = by.of if isinstance(by, InverseOf) else by
    generic = inner if isinstance(inner, Generic) else None
    ends = [by.value(end) for end in (law.lower, law.upper)]
    if isinstance(by, Affine) and _is_line(law):
        # The line stays the line, whatever the sign of the scale; the tails change places with it.
        ends = [law.lower, law.upper]
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
        kinks=tuple(as_tensor(by.value(kink)) for kink in law.kinks),
        moving=True,
        inner=law,
        unsure=law.unsure or generic is not None,
    )
    if generic is not None:
        return _oriented(carried, generic.up)
    if isinstance(by, Affine):
        return _oriented(carried, by.scale > 0 if by.rising is None else by.rising)
    return _oriented(carried, by.exponent > 0) if isinstance(by, Power) else carried


def _is_line(law: Law) -> bool:
    ends = (law.lower, law.upper)
    return all(not isinstance(end, Tensor) and math.isinf(end) for end in ends)


def _oriented(law: Law, up: Tensor | bool) -> Law:
    """Ends exchanged where the map is decreasing."""
    lower, upper, lower_tails, upper_tails = law.lower, law.upper, law.lower_tails, law.upper_tails
    if up is False or (isinstance(up, Tensor) and surely(~up)):
        lower, upper, lower_tails, upper_tails = upper, lower, upper_tails, lower_tails
    elif isinstance(up, Tensor) and not surely(up):
        low, high = (as_tensor(end, torch.float64).to(up.device) for end in (lower, upper))
        lower, upper = torch.where(up, low, high), torch.where(up, high, low)
        masked = [
            [tail._replace(where=mask if tail.where is None else tail.where & mask) for tail in tails]
            for tails, mask in ((lower_tails, up), (upper_tails, ~up), (upper_tails, up), (lower_tails, ~up))
        ]
        lower_tails, upper_tails = masked[0] + masked[1], masked[2] + masked[3]
    return law._replace(
        lower=_simple(lower, -math.inf),
        upper=_simple(upper, math.inf),
        lower_tails=lower_tails,
        upper_tails=upper_tails,
    )


def _simple(end: Bound, infinity: float) -> Bound:
    """An end that is at infinity for all is a number, which says so to whatever map comes next."""
    if not isinstance(end, Tensor):
        return infinity if math.isinf(end) else end
    return infinity if surely(end.isinf()) else torch.where(end.isinf(), infinity, end)
