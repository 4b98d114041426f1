"""TransformedDistribution of anything that has a density, by monotone maps; `reading.read` calls it.

An integral over T(x) is one over x, so the coordinate is that of the base followed by the maps (`maps.py`).
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
from kullback.densities.maps import Affine, Ends, Inverse, Map, Steep
from kullback.densities.mixture import joined
from kullback.densities.parameters import number
from kullback.densities.point import HUGE, Point
from kullback.densities.registry import Maker, Reading, flat
from kullback.kernels.levels import is_traced

Read = Callable[[Distribution, torch.Size], Reading | None]
# A point outside the image of a map comes back from beyond this.
_FARTHEST = 1e150


_EXP, _SIGMOID = Steep(sigmoid=False), Steep(sigmoid=True)
_MAPS: dict[type[t.Transform], tuple[list[Map | float], list[Map | float]]] = {
    t.ExpTransform: ([_EXP], [Inverse(_EXP)]),
    t.SigmoidTransform: ([_SIGMOID], [Inverse(_SIGMOID)]),
    t.SoftplusTransform: ([_EXP, 1.0, Inverse(_EXP)], [_EXP, -1.0, Inverse(_EXP)]),
}


def read_transformed(distribution: TransformedDistribution, shape: torch.Size, read: Read) -> Reading | None:
    """The base and the numbers of the maps as one reading; None where a map or the base is not known."""
    steps = _steps(distribution, shape)
    inner = None if steps is None else read(distribution.base_dist, shape)
    if steps is None or inner is None or inner.lattice:
        return None
    numbers = tuple(
        value.to(inner.parameters[0].device)
        for step in steps
        if isinstance(step, Affine)
        for value in (step.loc, step.scale)
    )
    wrap = functools.cache(functools.partial(_wrapped, steps))  # components of one family stay such
    if not inner.components:
        parameters = (*inner.parameters, *numbers)
        return inner._replace(parameters=parameters, make=wrap(inner.make), source=type(distribution))
    parts = [part._replace(parameters=(*part.parameters, *numbers), make=wrap(part.make)) for part in inner.parts()]
    return joined(inner.parameters[: len(parts)], parts, type(distribution))


def _wrapped(steps: list[Map], make: Maker) -> Maker:
    count = 2 * sum(isinstance(step, Affine) for step in steps)

    def make_transformed(*parameters: Tensor) -> Density:
        base = len(parameters) - count
        given = iter(parameters[base:])
        maps = [s._replace(loc=next(given), scale=next(given)) if isinstance(s, Affine) else s for s in steps]
        return _transformed(make(*parameters[:base]), maps)

    return make_transformed


def _steps(distribution: TransformedDistribution, shape: torch.Size) -> list[Map] | None:
    steps: list[Map] = []
    for transform in canonical_transforms(flat_transforms(distribution.transforms)):
        inverse = isinstance(transform, t._InverseTransform)
        plain = transform.inv if inverse else transform
        if type(plain) in _MAPS:
            steps += [_affine(by, 1.0, shape) if isinstance(by, float) else by for by in _MAPS[type(plain)][inverse]]
        elif type(plain) is t.AffineTransform and not inverse and not plain.event_dim:
            steps.append(_affine(plain.loc, plain.scale, shape))
        elif type(plain) is t.PowerTransform and not inverse:
            steps += [Inverse(_EXP), _affine(0.0, plain.exponent, shape), _EXP]
        else:
            return None
    return steps


def _affine(loc: float | Tensor, scale: float | Tensor, shape: torch.Size) -> Affine:
    exact = None if isinstance(loc, Tensor) else float(loc), None if isinstance(scale, Tensor) else float(scale)
    sign = 0
    if not isinstance(scale, Tensor):
        sign = 1 if scale > 0 else -1
    elif not is_traced():
        sign = 1 if bool((scale > 0).all()) else -1 if bool((scale < 0).all()) else 0
    return Affine(sign, exact, flat(number(loc), shape), flat(number(scale), shape))


class _Chain(NamedTuple):
    """A coordinate followed by maps, each with the ends of the support before and after it."""

    inner: Coordinate
    maps: list[tuple[Map, Ends]]

    def push(self, x: Point) -> Point:
        """The image of a point."""
        for by, ends in self.maps:
            x = by.push(x, ends)
        return x

    def pull(self, y: Point) -> tuple[Point, Tensor]:
        """The point before the maps, and log|dy/dx|: the slopes of exp and log cancel before they meet a density."""
        log_slope = torch.zeros_like(y.offset)
        for by, ends in reversed(self.maps):
            y = by.pull(y, ends)
            log_slope = log_slope + by.log_slope(y)
        return y, log_slope

    def point(self, v: Tensor) -> Point:
        """The point at v."""
        return self.push(self.inner.point(v))

    def log_slope(self, v: Tensor) -> Tensor:
        """The logarithm of |dy/dv|."""
        x, log_slope = self.inner.point(v), self.inner.log_slope(v)
        for by, ends in self.maps:
            log_slope, x = log_slope + by.log_slope(x), by.push(x, ends)
        return log_slope

    def coordinate(self, x: Point) -> Tensor:
        """The v of a point."""
        v = self.inner.coordinate(self.pull(x)[0])
        return torch.where(v.abs() < _FARTHEST, v, torch.sign(v) * HUGE)


def _transformed(inner: Density, steps: list[Map]) -> Density:
    """Log p(x) − log|dy/dx| at the point before the maps."""
    low, high, tails, maps = inner.low, inner.high, inner.tails, []
    for by in steps:
        ends = Ends(low, high, *by.image(low, high))
        maps.append((by, ends))
        low, high, tails = ends.image_low, ends.image_high, by.tails(tails, ends)
    chain = _Chain(inner.coordinate, maps)

    def log_prob(y: Point) -> Tensor:
        x, log_slope = chain.pull(y)
        return inner.log_prob(x) - log_slope

    def log_weight(v: Tensor) -> Tensor:
        return inner.log_prob(inner.coordinate.point(v)) + inner.coordinate.log_slope(v)

    marks, kinks = (tuple(chain.push(point) for point in points) for points in (inner.marks, inner.kinks))
    return Density(low, high, chain, log_prob, marks, tails, kinks=kinks, log_weight=inner.log_weight or log_weight)
