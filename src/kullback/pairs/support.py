"""Where a distribution lives, and whether p lives inside q: one place, decided per batch element on parameters.

KL(p ‖ q) is infinite exactly where p puts mass that q does not, or where the expectation of the log-ratio diverges.
This file decides the first for everything that is an interval (of reals or of integers); the second belongs to the
formulas, which know their tails. End-points carry no mass of a continuous law, so touching intervals are nested.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor
from torch.distributions import Distribution, VonMises, constraints

from kullback.pairs.parameters import working

Bound = float | Tensor


def less(a: Bound, b: Bound) -> Tensor | bool:
    """Whether a < b, of numbers that may be parameters."""
    return a < b


def no_more(a: Bound, b: Bound) -> Tensor | bool:
    """Whether a ≤ b."""
    return a <= b


def equal(a: Bound, b: Bound) -> Tensor | bool:
    """Whether a = b."""
    return a == b


class Interval(NamedTuple):
    """An interval of reals or of integers; a bound is a number, or a tensor where it depends on parameters."""

    lower: Bound
    upper: Bound
    discrete: bool


_TURN = Interval(-math.pi, math.pi, False)  # where samples of a VonMises lie, whatever its location
_REAL, _BOOLEAN = type(constraints.real), type(constraints.boolean)


def interval(distribution: Distribution) -> Interval | None:
    """The support of a univariate distribution, or None where it is no interval (a circle, a simplex, matrices)."""
    if distribution.event_shape or isinstance(distribution, VonMises):
        return None
    try:
        constraint = distribution.support
    except NotImplementedError:  # a user's class need not say where it lives
        return None
    if isinstance(constraint, _REAL):
        return Interval(-math.inf, math.inf, False)
    if isinstance(constraint, _BOOLEAN):
        return Interval(0.0, 1.0, True)
    lower = getattr(constraint, "lower_bound", None)
    upper = getattr(constraint, "upper_bound", None)
    if lower is None and upper is None:
        return None
    return Interval(
        -math.inf if lower is None else _bound(lower),
        math.inf if upper is None else _bound(upper),
        bool(getattr(constraint, "is_discrete", False)),
    )


def _bound(value: float | Tensor) -> Bound:
    return working(value) if isinstance(value, Tensor) else float(value)


def nested(p: Interval, q: Interval) -> Tensor | bool:
    """Whether p's interval lies inside q's: a bool where parameters do not matter, else one per batch element."""
    if p.discrete != q.discrete:
        return False
    above: Tensor | bool = p.lower >= q.lower
    below: Tensor | bool = p.upper <= q.upper
    if above is False or below is False:
        return False
    return above & below


def contained(p: Distribution, q: Distribution) -> Tensor | bool:
    """Whether p's support lies inside q's; True where this file cannot tell and the formula decides."""
    inner, outer = (_TURN if isinstance(law, VonMises) else interval(law) for law in (p, q))
    if inner is None or outer is None:
        return True
    return nested(inner, outer)
