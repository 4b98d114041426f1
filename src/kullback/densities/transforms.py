"""TransformedDistribution of anything that has a density, by monotone maps; `reading.read` calls it.

An integral over T(x) is one over x, so the coordinate is that of the base followed by the maps (`maps.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import (
    AffineTransform,
    Distribution,
    ExpTransform,
    SigmoidTransform,
    Transform,
    TransformedDistribution,
)

from kullback.densities.canonical_transforms import canonical_transforms, unwrapped
from kullback.densities.coordinate import Coordinate
from kullback.densities.density import Density
from kullback.densities.maps import Affine, Ends, Exp, Log, Map
from kullback.densities.mixture import joined
from kullback.densities.point import HUGE, End, Point, is_endless
from kullback.densities.registry import Maker, Reading, flat
from kullback.densities.tails import Tail, chosen
from kullback.kernels.levels import is_traced

Read = Callable[[Distribution, torch.Size], Reading | None]
Tails = tuple[Tail, Tail] | None
# A point outside the image of a map comes back from beyond this.
_FARTHEST = 1e150


_EXP, _LOG, _TURN = Exp(), Log(), Affine(0.0, -1.0, -1)
# σ(x) = exp(−log(1 + e^−x)), and backwards.
_SIGMOID: list[Map] = [_TURN, _EXP, Affine(1.0, 1.0, 1), _LOG, _TURN, _EXP]
_LOGIT: list[Map] = [_LOG, _TURN, _EXP, Affine(-1.0, 1.0, 1), _LOG, _TURN]


def read_transformed(distribution: TransformedDistribution, shape: torch.Size, read: Read) -> Reading | None:
    """The base and the numbers of the maps as one reading; None where a map or the base is not known."""
    steps = [_steps(transform) for transform in canonical_transforms(distribution.transforms)]
    maps = [step for part in steps for step in part]
    inner = read(distribution.base_dist, shape) if all(steps) else None
    if inner is None or inner.lattice:
        return None
    moved = [flat(part, shape) for by in maps if isinstance(by, Affine) for part in by.parameters()]
    wrap = functools.cache(functools.partial(_wrapped, maps, len(moved)))  # components of one family stay such
    parts = [part._replace(parameters=(*part.parameters, *moved), make=wrap(part.make)) for part in inner.parts()]
    if not inner.components:
        return parts[0]._replace(source=type(distribution))
    return joined(inner.parameters[: len(parts)], parts, type(distribution))


def _steps(transform: Transform) -> list[Map]:
    """The maps that make one; none where it is not known."""
    plain, backwards = unwrapped(transform)
    if type(plain) is AffineTransform and not backwards and not plain.event_dim:
        return [Affine(plain.loc, plain.scale, _sign(plain.scale))]
    if type(plain) is ExpTransform:
        return [_LOG if backwards else _EXP]
    if type(plain) is SigmoidTransform:
        return _LOGIT if backwards else _SIGMOID
    return []


def _sign(scale: float | Tensor) -> int:
    if isinstance(scale, Tensor):
        return 0 if is_traced() else int((scale > 0).all()) - int((scale < 0).all())
    return 1 if scale > 0 else -1


def _wrapped(maps: list[Map], num_moved: int, make: Maker) -> Maker:
    def make_transformed(*parameters: Tensor) -> Density:
        count = len(parameters) - num_moved
        given = iter(parameters[count:])
        own = [by.with_parameters(given) if isinstance(by, Affine) else by for by in maps]
        return _transformed(make(*parameters[:count]), own)

    return make_transformed


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
    low, high, tails = inner.low, inner.high, inner.tails
    maps: list[tuple[Map, Ends]] = []
    for by in steps:
        maps.append((by, ((low, by.image(low)), (high, by.image(high)))))
        low, high, tails = _in_order(by, low, high, tails)
    chain = _Chain(inner.coordinate, maps)

    def log_prob(y: Point) -> Tensor:
        x, log_slope = chain.pull(y)
        return inner.log_prob(x) - log_slope

    def log_weight(v: Tensor) -> Tensor:
        return inner.log_prob(inner.coordinate.point(v)) + inner.coordinate.log_slope(v)

    marks, kinks = (tuple(chain.push(point) for point in points) for points in (inner.marks, inner.kinks))
    return Density(low, high, chain, log_prob, marks, tails, kinks=kinks, log_weight=inner.log_weight or log_weight)


def _in_order(by: Map, low: End, high: End, tails: Tails) -> tuple[End, End, Tails]:
    """The ends of the support and the tails there after a map, the lower end first."""
    first, last = by.image(low), by.image(high)
    moved = None if tails is None else (by.tail(tails[0], low), by.tail(tails[1], high))
    turned = None if moved is None else (moved[1], moved[0])
    if by.sign:
        return (first, last, moved) if by.sign > 0 else (last, first, turned)
    assert isinstance(by, Affine)
    assert isinstance(by.scale, Tensor)
    if moved is not None and turned is not None:
        up = by.scale > 0
        moved = chosen(up, moved[0], turned[0]), chosen(up, moved[1], turned[1])
    if is_endless(low) and is_endless(high):
        return low, high, moved
    first, last = (torch.zeros_like(by.scale) + end for end in (first, last))
    return torch.minimum(first, last), torch.maximum(first, last), moved
