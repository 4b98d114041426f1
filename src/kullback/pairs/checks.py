"""Checks around a formula: the two arguments, the value of a user's formula, a subclass that changes the density.

`dispatch` calls them; `divergences`, `entropy` and `estimators` check their arguments here, too.
"""

from __future__ import annotations

import contextlib
import warnings
from weakref import WeakSet

import torch
from torch import Tensor
from torch.distributions import Distribution, TransformedDistribution

from kullback._core.errors import (
    InputTypeError,
    InputValueError,
    KullbackWarning,
    NoRouteError,
    ShapeError,
    explain_problem,
)
from kullback._core.shapes import described, joint_shape
from kullback.kernels.levels import is_traced
from kullback.pairs.registry import Rule, rules, where_defined

# Points at which two densities are compared, and the difference that roundings of bfloat16 parameters cannot explain.
_NUM_POINTS, _MIN_DIFFERENCE = 8, 0.05
_compared_classes: WeakSet[type] = WeakSet()


def check_pair(p: Distribution, q: Distribution) -> torch.Size:
    """Both are distributions over the same kind of event; the broadcast batch shape."""
    for name, given in (("p", p), ("q", q)):
        if not isinstance(given, Distribution):
            raise InputTypeError(
                explain_problem(
                    f"kl_divergence() compares two torch.distributions objects; {name} is not one.",
                    got=f"{name} is {described(given)}",
                    expected="a Distribution",
                    instead="kl(Logits(a), Logits(b)) for tensors, kl_divergence(Normal(0, 1), Normal(1, 2)) here",
                )
            )
    if p.event_shape != q.event_shape:
        raise ShapeError(
            explain_problem(
                "p and q have different event shapes; event dimensions are never broadcast.",
                got=f"{tuple(p.event_shape)} for {type(p).__name__}, {tuple(q.event_shape)} for {type(q).__name__}",
                expected="the same event shape on both sides",
                instead=_reach_same_event(p, q),
            )
        )
    try:
        return joint_shape(p.batch_shape, q.batch_shape)
    except RuntimeError:
        raise ShapeError(
            explain_problem(
                "The batch shapes of p and q do not broadcast.",
                got=f"{tuple(p.batch_shape)} and {tuple(q.batch_shape)}",
                expected="shapes that torch.broadcast_shapes accepts",
            )
        ) from None


def explain_no_route(p: Distribution, q: Distribution, *, has_bounds: bool) -> str:
    """What came, which q are covered for this p, and what to write instead."""
    name_p, name_q = type(p).__name__, type(q).__name__
    # A structural rule over any distribution says nothing about this one.
    covered = sorted({r.q.__name__ for r in rules() if isinstance(p, r.p) and r.p is not Distribution})
    if has_bounds:
        return explain_problem(
            f"No closed form, integral or series for KL({name_p} || {name_q}) over vectors.",
            got=f"p = {name_p}, q = {name_q}, events of shape {tuple(p.event_shape)}",
            expected="a pair whose divergence can be computed; of this one only bounds are known",
            instead="estimate_kl(p, q) for an estimate with an error bar, kl_with_error(p, q) for bounds",
        )
    without_support = next((type(side).__name__ for side in (p, q) if _has_density_but_no_support(type(side))), None)
    if without_support is not None:
        return explain_problem(
            f"{without_support} has a log_prob but no support, so that nothing says where to integrate.",
            got=f"p = {_written(p)}, q = {_written(q)}",
            expected="log_prob and support, from which every divergence is integrated",
            instead=f"support = constraints.real in the class {without_support}, or another of torch's constraints",
        )
    return explain_problem(
        f"No closed form, integral or series for KL({name_p} || {name_q}).",
        got=f"p = {_written(p)}, q = {_written(q)}",
        expected=f"with p = {name_p}, one of these q: {', '.join(covered) if covered else 'none is covered'}",
        instead="estimate_kl(p, q) for an estimate with an error bar, or "
        f"@register_kl({name_p}, {name_q}) above your own formula",
    )


def _has_density_but_no_support(kind: type[Distribution]) -> bool:
    return kind.log_prob is not Distribution.log_prob and kind.support is Distribution.support


def _reach_same_event(p: Distribution, q: Distribution) -> str:
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


def _written(distribution: Distribution) -> str:
    """The class, and what a TransformedDistribution is made of."""
    if type(distribution) is not TransformedDistribution:
        return type(distribution).__name__
    maps = ", ".join(type(t).__name__ for t in distribution.transforms)
    return f"TransformedDistribution({_written(distribution.base_dist)}, [{maps}])"


def registered_value(rule: Rule, p: Distribution, q: Distribution) -> Tensor:
    """The formula's tensor of the broadcast batch shape.

    A formula registered with torch may broadcast, may be a number (Pyro's 0.0 under `mask(False)`) and may be
    negative: Pyro's KL(Delta ‖ q) is −log q at the atom.

    Raises:
        InputTypeError: If the formula does not return a tensor.
        ShapeError: If the tensor does not have the broadcast batch shape.
        InputValueError: If a formula of `register_kl` is negative by more than rounding.
        NoRouteError: If the formula says that it does not answer these two objects.
    """
    shape = joint_shape(p.batch_shape, q.batch_shape)
    try:
        value: object = rule.formula(p, q)
    except NotImplementedError as error:
        raise NoRouteError(
            explain_problem(
                f"{_described(rule)} does not answer these two distributions.",
                got=f"p = {type(p).__name__}, q = {type(q).__name__}; it says: {error or 'NotImplementedError'}",
                expected="a formula for this pair",
                instead=f"@kullback.register_kl({type(p).__name__}, {type(q).__name__}) above your own formula",
            )
        ) from error
    if rule.method == "torch" and isinstance(value, int | float):
        value = torch.tensor(float(value))
    if not isinstance(value, Tensor):
        raise InputTypeError(
            explain_problem(
                f"{_described(rule)} does not return a tensor.",
                got=f"a {type(value).__name__}" + (f", {value!r}" if isinstance(value, int | float) else ""),
                expected=f"a tensor of the broadcast batch shape {tuple(shape)}",
                instead="return torch expressions of the parameters, not float(...) or .item()",
            )
        )
    if rule.method == "torch":
        with contextlib.suppress(RuntimeError):
            value = value.expand(shape)
    if value.shape != shape:
        raise ShapeError(
            explain_problem(
                f"{_described(rule)} returns a tensor of the wrong shape.",
                got=f"shape {tuple(value.shape)} for batch shapes {tuple(p.batch_shape)} and {tuple(q.batch_shape)}",
                expected=f"the broadcast batch shape {tuple(shape)}, summed over the event",
                instead=".sum(-1) over an event dimension, .expand(shape) for a value that all elements share",
            )
        )
    if rule.method == "user" and value.is_floating_point() and not is_traced():
        _refuse_negative(rule, value.detach())
    return value


def _refuse_negative(rule: Rule, value: Tensor) -> None:
    # A formula that subtracts large terms rounds to slightly below 0; that is its accuracy, not a mistake.
    wrong = value < -(torch.finfo(value.dtype).eps ** 0.5)
    if bool(wrong.any()):
        index = tuple(wrong.nonzero()[0].tolist())
        raise InputValueError(
            explain_problem(
                f"{_described(rule)} returns a negative divergence.",
                got=f"{float(value[index]):.6g}" + (f" at batch index {index}" if index else ""),
                expected="KL >= 0 for every pair of normalised densities",
                instead="check the sign, the order of p and q, and that both log-densities are normalised",
            )
        )


def _described(rule: Rule) -> str:
    return f"The formula registered for {rule} ({where_defined(rule.formula)})"


def warn_of_other_densities(p: Distribution, q: Distribution) -> None:
    """Warn of a class that is not torch's and whose `log_prob` is another function than that of torch's class."""
    if is_traced():
        return
    for distribution in (p, q):
        if not type(distribution).__module__.startswith("torch.") and type(distribution) not in _compared_classes:
            _compare_densities(distribution)


def _compare_densities(distribution: Distribution) -> None:
    kind = type(distribution)
    _compared_classes.add(kind)
    owners = [base for base in kind.__mro__ if "log_prob" in vars(base)]
    family = next((base for base in owners if base.__module__.startswith("torch.")), Distribution)
    if family is Distribution or owners[0] is family or _same_density(distribution, family):
        return
    name, parent = kind.__name__, family.__name__
    warnings.warn(
        explain_problem(
            f"{name}.log_prob is not the density of {parent}, and KL is computed with the formulas of {parent}.",
            got=f"{name}, a subclass of {parent} without formulas of its own",
            expected=f"a subclass with the density of {parent}, or a change that both sides share",
            instead=f"@register_kl({name}, {name}) above your own formula",
        ),
        KullbackWarning,
        stacklevel=5,
    )


def _same_density(distribution: Distribution, family: type[Distribution]) -> bool:
    """Whether two implementations agree at samples, or cannot be compared; the user's generator is left as it is.

    That of another device than the CPU would not be, so that nothing is drawn there.
    """
    if any(isinstance(value, torch.Tensor) and value.device.type != "cpu" for value in vars(distribution).values()):
        return True
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            at = distribution.sample(torch.Size((_NUM_POINTS,)))
            own, inherited = distribution.log_prob(at), family.log_prob(distribution, at)
    except (NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError):
        return True
    if own.shape != inherited.shape:
        return True
    far = (own - inherited).abs() > _MIN_DIFFERENCE * (1 + inherited.abs())
    return not bool(far.any())
