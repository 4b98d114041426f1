"""KL(p ‖ q) of two distributions, with its method and its error: from the rule to the rounded value; `api` calls it."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.distributions import Distribution
from torch.distributions import kl as torch_kl

from kullback._core.errors import NoRouteError
from kullback._core.notebook import numbers_html
from kullback.densities.parameters import working
from kullback.kernels import native as native_kernels
from kullback.kernels import native_table
from kullback.kernels.levels import is_traced
from kullback.pairs import registry
from kullback.pairs.checks import check_pair, explain_no_route, registered_value, warn_of_other_densities
from kullback.pairs.nan_guard import nan_where_parameters_are_nan, replace_unexplained_nan
from kullback.pairs.parameters import result_dtype
from kullback.pairs.univariate import contained, is_family

# Relative errors in float64: of a native kernel, and of a closed form, whose terms may be larger than their sum.
_NATIVE, _CLOSED = 1e-13, 1e-10
# Of an integral or a series, whose terms are weighed by densities with roundings of their own.
_INTEGRATED = 5e-11
_REGISTERED = ("user", "torch")  # formulas from outside the library, whose value is given back as it is
BOUNDS = "bounds"  # the method of a rule that gives an interval, which is no value


class KLResult(NamedTuple):
    """A divergence with its error.

    Attributes:
        value: KL(p ‖ q), one per batch element.
        error: How far `value` may be from the truth; see `certified`.
        method: "closed form", "integral", "series", "infinite", "user", "torch" (a formula that others registered with
            torch) or, where there is no value but an interval that contains it, "bounds": `value` is its middle then
            and `error` half its width.
        certified: True if `error` is a rigorous bound, False if it is an estimate.
    """

    value: Tensor
    error: Tensor
    method: str
    certified: bool

    def __repr__(self) -> str:
        bound = "at most" if self.certified else "about"
        worst = max(self.error.detach().flatten().tolist(), default=0.0)
        return f"KLResult(value={self.value!r}, error {bound} {worst:.2g}, method={self.method!r})"

    def _repr_html_(self) -> str:
        bound = "error at most" if self.certified else "error about"
        return numbers_html({"nats": self.value, bound: self.error}, [self.method])


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q) of two distributions, torch's name for it.

    KL(p ‖ q) = E_p[log p(x) − log q(x)]

    Args:
        p: The distribution the expectation is over.
        q: The distribution it is compared with; the same event shape, any batch shape that broadcasts.

    Returns:
        One value per element of the broadcast batch shape, in nats; float64 if any parameter is, else float32. Never
        negative, never NaN, exactly 0 for equal parameters, `inf` where p has mass that q has not.

    Raises:
        NoRouteError: (a NotImplementedError) if no closed form, integral or series is known for the pair.

    Example:
        >>> from torch.distributions import Normal
        >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 2.0))
        tensor(0.4431)
    """
    value = _by_class(p, q)
    return _rounded(p, q)[0] if value is NotImplemented else value


class _Call(NamedTuple):
    """How objects of two classes are answered, and what torch's registry held then: another formula may come first."""

    call: native_table.Call
    size: int
    entry: Any


def _by_class(p: Distribution, q: Distribution) -> Any:
    """The answer of two ordinary objects of torch's classes by one short call, or NotImplemented."""
    if is_dynamo_compiling():  # any other tracer is seen by the native call, which then declines
        return NotImplemented
    kinds, entries = (type(p), type(q)), torch_kl._KL_REGISTRY
    known: _Call | None = registry.derived.get(kinds)
    if known is None or known.entry is not entries.get(kinds) or known.size != len(entries):
        if not all(map(is_family, kinds)):
            return NotImplemented
        known = registry.derived[kinds] = _Call(_call_for(p, q), len(entries), entries.get(kinds))
    return known.call(p, q)


def _call_for(p: Distribution, q: Distribution) -> native_table.Call:
    route = registry.find_route(p, q)
    rule = None if route is None else route.rule
    if rule is None or (rule.p, rule.q) != (type(p), type(q)):
        return _decline
    bind = native_table.infinite_call if rule.method == "infinite" else native_table.kernel_call
    native = bind(rule.p, rule.q) if rule.finished else None
    return native or (_formula_call(rule) if rule.method in {"closed form", "series"} else _decline)


def _decline(_p: Distribution, _q: Distribution) -> Any:
    return NotImplemented


def _formula_call(rule: registry.Rule) -> native_table.Call:
    def call(p: Distribution, q: Distribution) -> Any:
        shape = p.batch_shape
        if shape != q.batch_shape or p.event_shape != q.event_shape:
            return NotImplemented
        value = _without_nan(rule, p, q)[0]
        if value.dtype is not torch.float32:  # nothing is computed in less than the parameters' dtype
            value = value.to(result_dtype(p, q))
        return value if value.shape == shape else value.expand(shape)

    return call


def _without_nan(rule: registry.Rule, p: Distribution, q: Distribution) -> tuple[Tensor, Tensor | None]:
    """The formula's value before rounding, and its error if there is more; NaN only where a parameter explains it."""

    def value_and_error(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor | None]:
        result = rule.formula(p, q)
        return (result, None) if isinstance(result, Tensor) else cast("tuple[Tensor, Tensor]", result)

    traced = is_traced()
    value, error = replace_unexplained_nan(value_and_error, p, q) if traced else value_and_error(p, q)
    # One look at the least value shows a NaN, too. On other devices than the CPU a closed form does not wait for it.
    seen = not traced and (value.is_cpu or error is not None)
    least = _least(value) if seen else -1.0
    overflows = seen and error is None and value.requires_grad and bool(value.detach().isinf().any())
    if math.isnan(least) or overflows:
        value, error = replace_unexplained_nan(value_and_error, p, q)
    if not least >= 0:
        value = torch.where(value < 0, 0.0, value)  # not clamp_min, whose slope at 0 is 0
    return value if error is None else nan_where_parameters_are_nan(value, p, q), error


def _least(value: Tensor) -> float:
    if value.numel() > 1:
        return (value.detach() if value.requires_grad else value).min().item()
    return value.item() if value.numel() else 0.0


def kl_with_error(p: Distribution, q: Distribution) -> KLResult:
    """KL(p ‖ q) with its error and the method that gave it.

    For Gaussian mixtures in several dimensions, whose divergence has no deterministic answer, an interval that contains
    it: its middle and half its width.

    Example:
        >>> from torch.distributions import Normal
        >>> kl_with_error(Normal(0.0, 1.0), Normal(1.0, 2.0)).method
        'closed form'
    """
    check_pair(p, q)
    route = registry.find_route(p, q)
    if route is not None and route.rule.method == BOUNDS:
        return cast("KLResult", route.rule.formula(p, q))
    value, error = _rounded(p, q)
    method = kl_method(p, q)
    assert method is not None
    native = route is not None and route.rule.finished and native_kernels.library() is not None
    closed = _NATIVE if native else _CLOSED
    # No answer is better than a few roundings of its dtype.
    least = max(4 * torch.finfo(value.dtype).eps, closed if error is None else _INTEGRATED)
    rounding = torch.where(value.isinf(), 0.0, value.detach().abs() * least)
    error = rounding if error is None else torch.maximum(error, rounding)
    return KLResult(value, error, method, certified=method == "infinite")


def kl_method(p: Distribution, q: Distribution) -> str | None:
    """How KL(p ‖ q) would be computed, or None if there is no route.

    Example:
        >>> from torch.distributions import Exponential, Normal
        >>> kl_method(Normal(0.0, 1.0), Exponential(1.0))
        'infinite'
    """
    check_pair(p, q)
    route = registry.find_route(p, q)
    if route is None or route.rule.method == BOUNDS:
        return None
    rule, inner = route
    if inner is not None:
        return _of_both(*(kl_method(part.p, part.q) for part in (inner, inner.plus) if part is not None))
    return "infinite" if rule.method not in _REGISTERED and _outside_support(p, q) else rule.method


def _outside_support(p: Distribution, q: Distribution) -> bool:
    """Whether p's support is nowhere inside q's, unless p is so degenerate that the formula is finite."""
    inside = contained(p, q)
    if is_traced() or inside is True or (isinstance(inside, Tensor) and bool(inside.any())):
        return False
    return bool((answer(p, q)[0] == torch.inf).all())


def _of_both(*methods: str | None) -> str | None:
    """The method of a sum: an infinite term decides it, then one that is less than a closed form."""
    if None in methods:
        return None
    return next((m for m in ("infinite", *methods) if m in methods and m != "closed form"), "closed form")


class Answer(NamedTuple):
    """A divergence before it is rounded to the parameters' own precision.

    Attributes:
        value: The divergence; working precision, or the parameters' own where a native kernel rounded it already.
        error: Its estimated error, if there is more than rounding.
        registered: Whether it comes from a formula from outside the library, whose value is given back as it is.
    """

    value: Tensor
    error: Tensor | None = None
    registered: bool = False


def _rounded(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor | None]:
    """The answer in the parameters' own precision and in the broadcast batch shape."""
    shape = check_pair(p, q)
    value, error, registered = _by_route(p, q)
    if registered:
        return value, error
    dtype = result_dtype(p, q)
    return value.to(dtype).expand(shape), None if error is None else error.to(dtype).expand(shape)


def answer(p: Distribution, q: Distribution) -> Answer:
    """The answer before rounding, which entropies and other divergences build on."""
    check_pair(p, q)
    return _by_route(p, q)


def _by_route(p: Distribution, q: Distribution) -> Answer:
    route = registry.find_route(p, q)
    if route is None or route.rule.method == BOUNDS:
        raise NoRouteError(explain_no_route(p, q, has_bounds=route is not None))
    rule, inner = route
    if rule.method in _REGISTERED:
        return Answer(registered_value(rule, p, q), registered=True)
    warn_of_other_densities(p, q)
    if inner is not None:
        return _summed(inner)
    return Answer(*_without_nan(rule, p, q))


def _summed(inner: registry.Reduced) -> Answer:
    """Answer the inner pair and sum it over the dimensions that belong to the outer event.

    The terms are not negative, so that rounding each of them costs no more than rounding their sum.
    """
    shape = check_pair(inner.p, inner.q)
    found = _by_class(inner.p, inner.q)
    value, error, registered = _by_route(inner.p, inner.q) if found is NotImplemented else Answer(found)
    if inner.summed:
        dims = tuple(range(-inner.summed, 0))
        value = (value if registered else working(value)).expand(shape).sum(dims)
        error = None if error is None else error.expand(shape).sum(dims)
    if inner.plus is None:
        return Answer(value, error, registered)
    plus = _summed(inner.plus)
    errors = [each for each in (error, plus.error) if each is not None]
    return Answer(value + plus.value, functools.reduce(torch.add, errors) if errors else None)
