"""TransformedDistribution of anything that has a density, by monotone maps; `reading.read` calls it.

An integral over T(x) is one over x, so the coordinate is that of the base followed by the maps (`maps.py`,
`squashing_maps.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution, TransformedDistribution
from torch.distributions import transforms as t

from kullback.densities.canonical_transforms import canonical_transforms, flat_transforms
from kullback.densities.coordinate import Coordinate
from kullback.densities.density import Density
from kullback.densities.maps import Affine, Ends, Exp, Log, Map
from kullback.densities.parameters import number
from kullback.densities.point import HUGE, Point
from kullback.densities.registry import Reading, flat
from kullback.densities.squashing_maps import Logit, Sigmoid, Softplus, Unsoftplus
from kullback.kernels.levels import is_traced

Read = Callable[[Distribution, torch.Size], Reading | None]
# A point outside the image of a map comes back from beyond this.
_FARTHEST = 1e150
_PLAIN: dict[type[t.Transform], tuple[type[Map], type[Map]]] = {
    t.ExpTransform: (Exp, Log),
    t.SigmoidTransform: (Sigmoid, Logit),
    t.SoftplusTransform: (Softplus, Unsoftplus),
}


class _Step(NamedTuple):
    """One map of a chain: a class, and the numbers it needs."""

    kind: Callable[..., Map]
    numbers: tuple[Tensor, ...] = ()


def read_transformed(distribution: TransformedDistribution, shape: torch.Size, read: Read) -> Reading | None:
    """The base and the numbers of the maps as one reading; None where a map or the base is not known."""
    steps = _steps(distribution, shape)
    inner = None if steps is None else read(distribution.base_dist, shape)
    if steps is None or inner is None or inner.lattice:
        return None
    numbers = tuple(value.to(inner.parameters[0].device) for step in steps for value in step.numbers)
    return _mapped(inner, steps, numbers, type(distribution))


def _mapped(inner: Reading, steps: list[_Step], numbers: tuple[Tensor, ...], source: type[Distribution]) -> Reading:
    count = len(numbers)
    make = inner.make

    def make_transformed(*parameters: Tensor) -> Density:
        base, given = len(parameters) - count, iter(parameters[len(parameters) - count :])
        maps = [step.kind(*(next(given) for _ in step.numbers)) for step in steps]
        return transformed_density(make(*parameters[:base]), maps)

    def component(parameters: tuple[Tensor, ...], i: int) -> Reading:
        assert inner.component is not None
        base = len(parameters) - count
        return _mapped(inner.component(parameters[:base], i), steps, parameters[base:], source)

    return inner._replace(
        parameters=(*inner.parameters, *numbers),
        make=make_transformed,
        component=component if inner.components else None,
        source=source,
    )


def _steps(distribution: TransformedDistribution, shape: torch.Size) -> list[_Step] | None:
    steps: list[_Step] = []
    for transform in canonical_transforms(flat_transforms(distribution.transforms)):
        plain, inverse = transform, False
        if isinstance(transform, t._InverseTransform):
            plain, inverse = transform.inv, True
        if type(plain) in _PLAIN:
            steps.append(_Step(_PLAIN[type(plain)][inverse]))
        elif type(plain) is t.AffineTransform and not inverse and not plain.event_dim:
            steps.append(_affine(plain.loc, plain.scale, shape))
        elif type(plain) is t.PowerTransform and not inverse:
            steps += [_Step(Log), _affine(0.0, plain.exponent, shape), _Step(Exp)]
        else:
            return None
    return steps


def _affine(loc: float | Tensor, scale: float | Tensor, shape: torch.Size) -> _Step:
    exact = None if isinstance(loc, Tensor) else float(loc), None if isinstance(scale, Tensor) else float(scale)
    factor = number(scale)
    sign = 0
    if not isinstance(scale, Tensor):
        sign = 1 if scale > 0 else -1
    elif not is_traced():
        sign = 1 if bool((scale > 0).all()) else -1 if bool((scale < 0).all()) else 0
    return _Step(functools.partial(Affine, sign, exact), (flat(number(loc), shape), flat(factor, shape)))


class _Carried(NamedTuple):
    """A coordinate followed by a map."""

    inner: Coordinate
    by: Map
    ends: Ends

    def point(self, v: Tensor) -> Point:
        """The point at v."""
        return self.by.push(self.inner.point(v), self.ends)

    def log_slope(self, v: Tensor) -> Tensor:
        """The logarithm of |dy/dv|."""
        return self.inner.log_slope(v) + self.by.log_slope(self.inner.point(v))

    def coordinate(self, x: Point) -> Tensor:
        """The v of a point."""
        v = self.inner.coordinate(self.by.pull(x, self.ends))
        return torch.where(v.abs() < _FARTHEST, v, torch.sign(v) * HUGE)


def transformed_density(inner: Density, maps: list[Map]) -> Density:
    """Log p(x) − log|dy/dx| at the point before the maps."""
    density = inner
    for by in maps:
        density = _carried(density, by)
    return density


def _carried(inner: Density, by: Map) -> Density:
    ends = Ends(inner.low, inner.high, *by.image(inner.low, inner.high))

    def log_prob(y: Point) -> Tensor:
        x = by.pull(y, ends)
        return inner.log_prob(x) - by.log_slope(x)

    def log_weight(v: Tensor) -> Tensor:
        if inner.log_weight is not None:
            return inner.log_weight(v)
        return inner.log_prob(inner.coordinate.point(v)) + inner.coordinate.log_slope(v)

    return Density(
        ends.image_low,
        ends.image_high,
        _Carried(inner.coordinate, by, ends),
        log_prob,
        tuple(by.push(mark, ends) for mark in inner.marks),
        by.tails(inner.tails, ends),
        kinks=tuple(by.push(kink, ends) for kink in inner.kinks),
        log_weight=log_weight,
    )
