"""Density: a univariate distribution as an integral sees it. Read this before you add a family.

A family is a function of its parameters, float64 tensors with a trailing dimension of 1 for the nodes, that returns a
`Density`; `families/gamma.py` is a short example, and `registry.family` enters it. The integrals need

- the ends of the support, and a coordinate in which the density is smooth and falls exponentially (`coordinate.py`);
- the log-density of a *point* (`point.py`), which knows its distance to the ends where x itself has lost it;
- marks: places with a width where the density, or a kink of it, is; panels are graded away from them;
- tails, by which an infinite expectation is recognised from parameters (`tails.py`); None where nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.densities.coordinate import Coordinate, Integers, Log, Logit, Sinh, mark_above, mark_between
from kullback.densities.point import End, Point, centred
from kullback.densities.tails import Tail, power

LogProb = Callable[[Point], Tensor]
Core = Callable[[Tensor], Tensor]


class Density(NamedTuple):
    """A univariate density, or a mass function on the integers.

    Attributes:
        low: The lower end of the support.
        high: The upper end.
        coordinate: The coordinate of the support.
        log_prob: The log-density of a point inside the support.
        marks: Points of three: left of the mass, its middle, right of it.
        tails: At the lower and the upper end; None if they are not known.
        lattice: Whether this is a mass function on the integers from `low` to `high`.
        integers_only: Whether that mass function can only be asked at integers.
        num_integers: How many integers such a mass function has at most, if that is known without its parameters.
        kinks: Points where the log-density or one of its derivatives jumps, besides the marks.
        log_weight: The log-density per unit of the coordinate, where it has more digits than log_prob and the
            coordinate's log_slope together; None where it is their sum.
    """

    low: End
    high: End
    coordinate: Coordinate
    log_prob: LogProb
    marks: tuple[Point, ...]
    tails: tuple[Tail, Tail] | None = None
    lattice: bool = False
    integers_only: bool = False
    num_integers: int = 0
    kinks: tuple[Point, ...] = ()
    log_weight: Callable[[Tensor], Tensor] | None = None


def on_line(loc: Tensor, log_scale: Tensor, log_prob: LogProb, lower: Tail, upper: Tail) -> Density:
    """A density on the whole line whose mass, or kink, is at loc."""
    return Density(-math.inf, math.inf, Sinh(loc, log_scale), log_prob, (centred(loc, log_scale),), (lower, upper))


def above_zero(log_middle: Tensor, spread: Tensor | float, log_prob: LogProb, lower: Tail, upper: Tail) -> Density:
    """A density on (0, ∞), of which log x is about log_middle, give or take the spread."""
    mark = mark_above(0.0, log_middle, spread)
    return Density(0.0, math.inf, Log(0.0, log_middle), log_prob, (mark,), (lower, upper))


def of_z(loc: Tensor, scale: Tensor, core: Core, lower: Tail, upper: Tail) -> Density:
    """A density on the whole line by that of z = (x − loc)/scale, whose mass, or kink, is at 0."""
    log_scale = torch.log(scale)
    return on_line(loc, log_scale, lambda x: core(x.z(loc, log_scale)) - log_scale, lower, upper)


def of_log(unit: Tensor, spread: Tensor, core: Core, lower: Tail, upper: Tail) -> Density:
    """A density on (0, ∞) by that of t = log x − unit, whose mass is about 0, give or take the spread."""

    def log_prob(x: Point) -> Tensor:
        t = x.log_distance(0.0, unit)
        return core(t) - (t + unit)

    return above_zero(unit, spread, log_prob, lower, upper)


def of_logit(centre: Tensor, spread: Tensor, core: Core, lower: Tail, upper: Tail) -> Density:
    """A density on (0, 1) by that of t = logit x − centre, whose mass is about 0, give or take the spread."""

    def log_prob(x: Point) -> Tensor:
        log_x, log_rest = x.log_distance(0.0), x.log_distance(1.0)
        return core(log_x - log_rest - centre) - (log_x + log_rest)

    return in_unit_interval(centre, spread, log_prob, lower, upper)


def in_unit_interval(logit: Tensor, spread: Tensor | float, log_prob: LogProb, lower: Tail, upper: Tail) -> Density:
    """A density on (0, 1), of which the logit of x is about this one, give or take the spread."""
    mark = mark_between(0.0, 1.0, logit, spread)
    return Density(0.0, 1.0, Logit(0.0, 1.0, torch.zeros_like(logit)), log_prob, (mark,), (lower, upper))


def on_integers(low: End, high: Tensor, mark: Point, log_prob: LogProb, upper: Tail | None = None) -> Density:
    """A mass function on the integers from low to high; its upper tail matters where high may be infinite."""
    tails = None if upper is None else (power(1.0), upper)
    return Density(low, high, Integers(torch.zeros_like(high)), log_prob, (mark,), tails, lattice=True)
