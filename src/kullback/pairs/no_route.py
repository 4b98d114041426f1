"""Parts of the messages about pairs that cannot be compared; called by `dispatch`."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Distribution, TransformedDistribution

from kullback._core.errors import explain_problem
from kullback.pairs import registry


def explain_no_route(p: Distribution, q: Distribution, *, has_bounds: bool) -> str:
    """What came, which q are covered for this p, and what to write instead."""
    name_p, name_q = type(p).__name__, type(q).__name__
    # A structural rule over any distribution says nothing about this one.
    covered = sorted({r.q.__name__ for r in registry.rules() if isinstance(p, r.p) and r.p is not Distribution})
    if has_bounds:
        return explain_problem(
            f"No closed form, integral or series for KL({name_p} || {name_q}) over vectors.",
            got=f"p = {name_p}, q = {name_q}, events of shape {tuple(p.event_shape)}",
            expected="a pair whose divergence can be computed; of this one only bounds are known",
            instead="estimate_kl(p, q) for an estimate with an error bar, kl_with_error(p, q) for bounds",
        )
    return explain_problem(
        f"No closed form, integral or series for KL({name_p} || {name_q}).",
        got=f"p = {_named(p)}, q = {_named(q)}",
        expected=f"with p = {name_p}, one of these q: {', '.join(covered) if covered else 'none is covered'}",
        instead="estimate_kl(p, q) for an estimate with an error bar, or "
        f"@register_kl({name_p}, {name_q}) above your own formula",
    )


def reach_same_event(p: Distribution, q: Distribution) -> str:
    """What to write where one side has fewer event dimensions than the other: that side is wrapped."""
    missing = len(q.event_shape) - len(p.event_shape)
    name, smaller, larger = ("p", p, q) if missing > 0 else ("q", q, p)
    dims = abs(missing)
    if dims and tuple(smaller.batch_shape[-dims:]) == tuple(larger.event_shape[:dims]):
        return f"Independent({name}, {dims}): the last batch dimensions of {name} then belong to the event"
    if dims and not smaller.event_shape:
        shape = tuple(larger.event_shape)
        return f"Independent({name}.expand({shape}), {dims}) if {name} describes each of the {shape} coordinates"
    return "distributions over vectors of the same length"


def describe_argument(given: object) -> str:
    """What came instead of a distribution: a number with its value, a tensor with its shape, else the class."""
    if isinstance(given, bool | int | float | complex | str):
        return f"the {type(given).__name__} {given!r}"
    if isinstance(given, type):
        return f"the class {given.__name__}, not an object of it"
    shape = f" of shape {tuple(given.shape)}" if isinstance(given, Tensor) else ""
    return f"a {type(given).__name__}{shape}"


def _named(distribution: Distribution) -> str:
    """The class, and what a TransformedDistribution is made of."""
    name = type(distribution).__name__
    if type(distribution) is not TransformedDistribution:
        return name
    maps = ", ".join(type(t).__name__ for t in distribution.transforms)
    return f"{name}({_named(distribution.base_dist)}, [{maps}])"
