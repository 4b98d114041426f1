"""Where a distribution lives, and whether p lives inside q: one place, decided per batch element on parameters.

KL(p ‖ q) is infinite exactly where p puts mass that q does not, or where the expectation of the log-ratio diverges.
This file decides the first for everything that is an interval (of reals or of integers); the second belongs to the
formulas, which know their tails. End-points carry no mass of a density, so touching intervals are nested. Called by
`pairs.dispatch`, `pairs.integrals` and `diagnose`.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.distributions import Distribution, Pareto, Uniform, VonMises, constraints

from kullback.pairs.parameters import working
from kullback.pairs.registry import STRUCTURES

Bound = float | Tensor


class Interval(NamedTuple):
    """An interval of reals or of integers; a bound is a number, or a tensor where it depends on parameters."""

    lower: Bound
    upper: Bound
    discrete: bool = False


_REAL, _BOOLEAN = type(constraints.real), type(constraints.boolean)
# The widest support that parameters of the family allow, where all of its bounds are parameters.
_WIDEST: dict[type[Distribution], Interval] = {
    Pareto: Interval(sys.float_info.min, math.inf),
    Uniform: Interval(-sys.float_info.max, sys.float_info.max),
}
# What `contained` says of families of torch's, where parameters do not matter.
_by_class: dict[tuple[type, type], bool] = {}


def contained(p: Distribution, q: Distribution) -> Tensor | bool:
    """Whether p's support lies inside q's; True where this file cannot tell and the formula decides."""
    kinds = type(p), type(q)
    known = None if is_dynamo_compiling() else _by_class.get(kinds)
    if known is not None:
        return known
    inner, outer = _interval(p), _interval(q)
    if inner is None or outer is None:
        return True
    inside = _nested(inner, outer)
    # How many outcomes a mass function has may depend on the object.
    if isinstance(inside, bool) and not inner.discrete and all(map(is_family, kinds)):
        _by_class[kinds] = inside
    return inside


def disjoint_by_class(p: Distribution, q: Distribution) -> bool:
    """Whether p has mass outside q's support for all parameters of two families of torch's.

    Mass functions are left to the formulas: a Poisson of rate 0 is inside the support of a Bernoulli.
    """
    if not (is_family(type(p)) and is_family(type(q))):
        return False
    inner, outer = _interval(p), _WIDEST.get(type(q)) or _interval(q)
    if inner is None or outer is None:
        return False
    return inner.discrete != outer.discrete or (not inner.discrete and _nested(inner, outer) is False)


def is_family(kind: type) -> bool:
    """Whether a class is one of torch's families, whose objects have one kind of support."""
    return kind.__module__.startswith("torch.distributions.") and kind not in STRUCTURES


def _interval(distribution: Distribution) -> Interval | None:
    """The support of a univariate distribution, or None where it is no interval (a simplex, matrices)."""
    if distribution.event_shape:
        return None
    if isinstance(distribution, VonMises):  # where samples lie, whatever the location
        return Interval(-math.pi, math.pi)
    try:
        constraint = distribution.support
    except NotImplementedError:  # a user's class need not say where it lives
        return None
    if isinstance(constraint, _REAL):
        return Interval(-math.inf, math.inf)
    if isinstance(constraint, _BOOLEAN):
        return Interval(0.0, 1.0, discrete=True)
    lower = getattr(constraint, "lower_bound", None)
    upper = getattr(constraint, "upper_bound", None)
    if lower is None and upper is None:
        return None
    return Interval(
        -math.inf if lower is None else _bound(lower),
        math.inf if upper is None else _bound(upper),
        discrete=bool(getattr(constraint, "is_discrete", False)),
    )


def _bound(value: float | Tensor) -> Bound:
    return working(value) if isinstance(value, Tensor) else float(value)


def _nested(p: Interval, q: Interval) -> Tensor | bool:
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
