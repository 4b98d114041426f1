"""Routes of two univariate distributions without a closed form, and whether p lives inside q, by parameters.

`registry` asks for the route: an integral, a series, or infinite. End-points carry no mass of a density, so touching
intervals are nested; `pairs.dispatch`, `diagnose` and `estimators` ask for that.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution, Pareto, Uniform, VonMises, constraints

from kullback._core.shapes import joint_shape
from kullback.densities.parameters import working
from kullback.divergences.kl import integral, is_infinite_everywhere, is_lattice
from kullback.pairs.nan_guard import nan_where_parameters_are_nan
from kullback.pairs.parameters import result_dtype, tensors_of
from kullback.pairs.registry import STRUCTURES, Rule

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


def contained(p: Distribution, q: Distribution) -> Tensor | bool:
    """Whether p's support lies inside q's; True where this file cannot tell and the formula decides."""
    inner, outer = _interval(p), _interval(q)
    return True if inner is None or outer is None else _nested(inner, outer)


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
    ends = [getattr(constraint, name, None) for name in ("lower_bound", "upper_bound")]
    if ends == [None, None]:
        return None
    lower, upper = (working(end) if isinstance(end, Tensor) else end for end in ends)
    return Interval(
        -math.inf if lower is None else lower,
        math.inf if upper is None else upper,
        discrete=bool(getattr(constraint, "is_discrete", False)),
    )


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


def kl_infinite(p: Distribution, q: Distribution) -> Tensor:
    """Infinite in every element, NaN where a parameter is; the gradient is zero, so that `backward` still runs."""
    parameters = [*tensors_of(p), *tensors_of(q)]
    device = parameters[0].device if parameters else None
    shape = joint_shape(p.batch_shape, q.batch_shape)
    value = torch.full(shape, torch.inf, dtype=result_dtype(p, q), device=device)
    for parameter in parameters:
        if parameter.requires_grad:
            value = torch.where(value > 0, value, parameter.sum().to(value.dtype))
    return nan_where_parameters_are_nan(value, p, q)


INFINITE = "p's support is not inside q's, or the tails of p are too heavy for q"


def rule_for(p: Distribution, q: Distribution) -> Rule | None:
    """The rule for two univariate distributions; None for others."""
    by_class = disjoint_by_class(p, q)
    infinite = Rule(type(p), type(q), kl_infinite, "infinite", INFINITE, finished=by_class)
    if by_class:
        return infinite
    of_p, of_q = is_lattice(p), is_lattice(q)
    if of_p is None or of_q is None:
        return None
    if of_p is not of_q or is_infinite_everywhere(p, q):
        return infinite
    if of_p:
        return Rule(type(p), type(q), integral, "series", "Σ p·(log p − log q) on panels of integers")
    return Rule(type(p), type(q), integral, "integral", "∫ p·(log p − log q) on graded Gauss–Legendre panels")
