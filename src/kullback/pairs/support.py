"""Where a distribution lives, and whether p lives inside q: one place, decided per batch element on parameters.

KL(p ‖ q) is infinite exactly where p puts mass that q does not, or where the expectation of the log-ratio diverges.
This file decides the first for everything that is an interval (of reals or of integers); the second belongs to the
formulas, which know their tails. End-points carry no mass of a density, so touching intervals are nested.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.distributions import Distribution, VonMises, constraints

from kullback.kernels.levels import is_traced
from kullback.pairs.parameters import working
from kullback.pairs.registry import STRUCTURES

Bound = float | Tensor


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
    below, above = _less(p.lower, q.lower), _less(q.upper, p.upper)
    if below is True or above is True:
        return False
    outside = below | above
    return outside.logical_not() if isinstance(outside, Tensor) else not outside


def _less(a: Bound, b: Bound) -> Tensor | bool:
    """Whether a < b; a bound that is NaN is not, so that the formula sees it and says NaN."""
    never = (isinstance(a, float) and a == math.inf) or (isinstance(b, float) and b == -math.inf)
    return False if never else a < b


def contained(p: Distribution, q: Distribution) -> Tensor | bool:
    """Whether p's support lies inside q's; True where this file cannot tell and the formula decides."""
    inner, outer = (_TURN if isinstance(side, VonMises) else interval(side) for side in (p, q))
    if inner is None or outer is None:
        return True
    return nested(inner, outer)


_by_class: dict[tuple[type, type], bool] = {}


def _is_family(kind: type) -> bool:
    """Whether a class is one of torch's families, whose objects have one kind of support."""
    return kind.__module__.startswith("torch.distributions.") and kind not in STRUCTURES


def contained_by_class(p: Distribution, q: Distribution) -> Tensor | bool:
    """`contained`, remembered for classes of torch's whose parameters do not matter."""
    kinds = type(p), type(q)
    known = None if is_dynamo_compiling() else _by_class.get(kinds)
    if known is not None:
        return known
    inside = contained(p, q)
    if isinstance(inside, bool) and all(map(_is_family, kinds)):
        _by_class[kinds] = inside
    return inside


def outside_everywhere(p: Distribution, q: Distribution) -> bool:
    """Whether p has a density, and in every element mass where q has none; False where values cannot be looked at.

    Mass functions are left to the formulas: a Poisson of rate 0 is inside the support of a Bernoulli.
    """
    if not (_is_family(type(p)) and _is_family(type(q))):
        return False
    inside = contained_by_class(p, q)
    if inside is True or (isinstance(inside, Tensor) and (is_traced() or bool(inside.any()))):
        return False
    of_p = interval(p)
    return of_p is not None and not of_p.discrete
