"""kl_divergence(p, q) and what can be asked about it: the method, the error, the list of pairs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.distributions import Distribution, Independent, TransformedDistribution
from torch.distributions import kl as torch_kl

from kullback._core.errors import NoRouteError
from kullback._core.notebook import numbers_html
from kullback.kernels import native as native_kernels
from kullback.kernels.levels import is_traced
from kullback.pairs import registry, support
from kullback.pairs.checks import check_pair, explain_no_route, registered_value, warn_of_other_densities
from kullback.pairs.nan_guard import nan_where_parameters_are_nan, replace_unexplained_nan
from kullback.pairs.parameters import result_dtype, tensors_of
from kullback.pairs.registry import native as _native

# Relative errors in float64: of a native kernel, and of a closed form, whose terms may be larger than their sum.
_NATIVE, _CLOSED = 1e-13, 1e-10
# Of an integral or a series, whose terms are weighed by densities with roundings of their own.
_INTEGRATED = 5e-11
_REGISTERED = ("user", "torch")  # formulas from outside the library, whose value is given back as it is


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
    if is_dynamo_compiling():
        registry.follow_torch()
    else:  # any other tracer is seen by the native call, which then declines
        kinds = type(p), type(q)
        known = _native.get(kinds)
        if known is None or torch_kl._KL_REGISTRY.get(kinds) is not known.in_torch:
            known = registry.find_native(*kinds)
        if known is not None:
            value: Tensor = known.call(p, q)
            if value is not NotImplemented:
                return value
        found = _of_structure(p, q)
        if found is not None:
            return found
    rule = registry.find(type(p), type(q))
    if rule is None or rule.method != "closed form":
        return _rounded(p, q)[0]
    shape = p.batch_shape
    if shape != q.batch_shape or p.event_shape != q.event_shape:
        shape = check_pair(p, q)
    value = _closed_form(rule, p, q)
    if not rule.finished and value.dtype is not torch.float32:  # nothing is computed in less than the parameters' dtype
        value = value.to(result_dtype(p, q))
    return value if value.shape == shape else value.expand(shape)


def _closed_form(rule: registry.Rule, p: Distribution, q: Distribution) -> Tensor:
    """The value in working precision. Rounding may leave a tiny negative number where q is next to p."""
    warn_of_other_densities(p, q)
    traced = is_traced()
    value = _without_nan(rule, p, q) if traced else cast("Tensor", rule.formula(p, q))
    # One look at the least value shows a NaN, too. Only on the CPU: elsewhere it waits for the device.
    seen = value.is_cpu and not traced
    least = _least(value) if seen else 0.0
    if math.isnan(least):
        value = _without_nan(rule, p, q)
    if not least >= 0 or not seen:
        value = torch.where(value < 0, 0.0, value)  # not clamp_min, whose slope at 0 is 0
    if rule.decides_support:
        return value
    inside = support.contained_by_class(p, q)
    if isinstance(inside, Tensor):
        return torch.where(inside, value, torch.inf)
    return value if inside else infinite_everywhere(p, q)


def _least(value: Tensor) -> float:
    if value.numel() > 1:
        return value.detach().min().item()
    return value.item() if value.numel() else 0.0


def _without_nan(rule: registry.Rule, p: Distribution, q: Distribution) -> Tensor:
    found = replace_unexplained_nan(functools.partial(_value_and_error, rule), p, q)
    assert found is not None
    return found[0]


def _of_structure(p: Distribution, q: Distribution) -> Tensor | None:
    """The answer by the pair of univariate distributions inside two objects of one shape, or None."""
    if type(p) is not type(q):
        return None
    if type(p) is Independent:
        return _of_independent(p, cast("Independent[Distribution]", q))
    return _of_transformed(p, cast("TransformedDistribution", q)) if type(p) is TransformedDistribution else None


def _of_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor | None:
    """The divergence before maps that are all the same; None where a map has tensors, whose dtype would count."""
    plain = p.batch_shape == q.batch_shape and not p.event_shape and not q.event_shape
    if not plain or any(isinstance(value, Tensor | list) for t in p.transforms for value in vars(t).values()):
        return None
    rule = registry.find(TransformedDistribution, TransformedDistribution)
    inner = None if rule is None or rule.method in _REGISTERED else rule.formula(p, q)
    if not isinstance(inner, registry.Reduced) or (inner.p, inner.q) != (p.base_dist, q.base_dist):
        return None
    shapes = inner.p.batch_shape == inner.q.batch_shape == p.batch_shape
    return kl_divergence(inner.p, inner.q) if shapes else None


def _of_independent(p: Independent[Distribution], q: Independent[Distribution]) -> Tensor | None:
    """The sum over dimensions that both sides reinterpret alike; None for anything else.

    The terms are not negative, so that rounding each of them costs no more than rounding their sum.
    """
    dims, base_p, base_q = p.reinterpreted_batch_ndims, p.base_dist, q.base_dist
    same = dims == q.reinterpreted_batch_ndims and base_p.batch_shape == base_q.batch_shape
    rules = registry.find(Independent, Independent), registry.find(type(base_p), type(base_q))
    by_user = any(rule is not None and rule.method in _REGISTERED for rule in rules)
    if not same or not dims or by_user or base_p.event_shape or base_q.event_shape:
        return None
    value = kl_divergence(base_p, base_q)
    summed = torch.sum(value, dim=tuple(range(-dims, 0)), dtype=torch.float64)
    return summed.to(value.dtype)


def kl_with_error(p: Distribution, q: Distribution) -> KLResult:
    """KL(p ‖ q) with its error and the method that gave it.

    For Gaussian mixtures in several dimensions, whose divergence has no deterministic answer, an interval that contains
    it: its middle and half its width.

    Example:
        >>> from torch.distributions import Normal
        >>> kl_with_error(Normal(0.0, 1.0), Normal(1.0, 2.0)).method
        'closed form'
    """
    registry.follow_torch()
    bounding = _bounding(p, q)
    if bounding is not None:
        return bounding(p, q)
    value, error, method = _rounded(p, q)
    method = kl_method(p, q) or method
    rule = registry.find(type(p), type(q))
    closed = _NATIVE if rule is not None and rule.finished and native_kernels.library() is not None else _CLOSED
    # No answer is better than a few roundings of its dtype.
    least = max(4 * torch.finfo(value.dtype).eps, closed if error is None else _INTEGRATED)
    rounding = torch.where(value.isinf(), 0.0, value.detach().abs() * least)
    error = rounding if error is None else torch.maximum(error, rounding)
    return KLResult(value, error, method, certified=method == "infinite")


class Bounding(NamedTuple):
    """Bounds for pairs that have no route.

    Attributes:
        applies: Whether they answer a pair.
        result: The interval.
    """

    applies: Callable[[Distribution, Distribution], bool]
    result: Callable[[Distribution, Distribution], KLResult]


_boundings: list[Bounding] = []


def bound_generally(bounding: Bounding) -> None:
    """Ask these bounds in `kl_with_error` whenever a pair of objects has no route."""
    _boundings.append(bounding)


def _bounding(p: Distribution, q: Distribution) -> Callable[[Distribution, Distribution], KLResult] | None:
    check_pair(p, q)
    found = next((bounding.result for bounding in _boundings if bounding.applies(p, q)), None)
    return None if found is None or registry.find_for(p, q) is not None else found


def kl_method(p: Distribution, q: Distribution) -> str | None:
    """How KL(p ‖ q) would be computed, or None if there is no route.

    Example:
        >>> from torch.distributions import Exponential, Normal
        >>> kl_method(Normal(0.0, 1.0), Exponential(1.0))
        'infinite'
    """
    check_pair(p, q)
    registry.follow_torch()
    rule = registry.find_for(p, q)
    if rule is not None and rule.method in _REGISTERED:
        return rule.method
    if _nowhere_contained(_contained(p, q, rule), rule):
        return "infinite"
    if rule is None or rule.method != "structure":
        return None if rule is None else "infinite" if _outside_support(rule, p, q) else rule.method
    inner = rule.formula(p, q)
    if not isinstance(inner, registry.Reduced):
        return None
    first = kl_method(inner.p, inner.q)
    second = first if inner.plus is None else kl_method(inner.plus.p, inner.plus.q)
    return None if first is None or second is None else _of_both(first, second)


def _outside_support(rule: registry.Rule, p: Distribution, q: Distribution) -> bool:
    """Whether p's support is nowhere inside q's, unless p is so degenerate that the formula is finite."""
    inside = support.contained(p, q)
    if is_traced() or inside is True or (isinstance(inside, Tensor) and bool(inside.any())):
        return False
    return not rule.decides_support or bool((answer(p, q)[0] == torch.inf).all())


def _of_both(*methods: str) -> str:
    """The method of a sum: an infinite term decides it, then one that is less than a closed form."""
    return next((m for m in ("infinite", *methods) if m in methods and m != "closed form"), "closed form")


def _rounded(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor | None, str]:
    """The answer in the parameters' own precision and in the broadcast batch shape."""
    shape = check_pair(p, q)
    value, error, method = answer(p, q)
    if method in _REGISTERED:
        return value, error, method
    dtype = result_dtype(p, q)
    value = nan_where_parameters_are_nan(value.to(dtype), p, q).expand(shape)
    return value, None if error is None else error.to(dtype).expand(shape), method


def answer(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor | None, str]:
    """Value, error and method in working precision; what structural rules build on."""
    if registry.find(type(p), type(q)) is None and support.outside_everywhere(p, q):
        return infinite_everywhere(p, q), None, "infinite"
    rule = registry.find_for(p, q)
    if rule is not None and rule.method in _REGISTERED:
        return registered_value(rule, p, q), None, rule.method
    warn_of_other_densities(p, q)
    if rule is not None and rule.method == "closed form":
        return _closed_form(rule, p, q), None, rule.method
    inside = _contained(p, q, rule)
    if _nowhere_contained(inside, rule):
        return infinite_everywhere(p, q), None, "infinite"
    if rule is not None and rule.method == "structure":
        inner = rule.formula(p, q)
        if isinstance(inner, registry.Reduced):
            return _summed(inner)
    found = None if rule is None else replace_unexplained_nan(functools.partial(_value_and_error, rule), p, q)
    if rule is None or found is None:
        raise NoRouteError(explain_no_route(p, q, has_bounds=_bounding(p, q) is not None))
    value, error = found
    return torch.where(inside, value, torch.inf) if isinstance(inside, Tensor) else value, error, rule.method


def _value_and_error(rule: registry.Rule, p: Distribution, q: Distribution) -> tuple[Tensor, Tensor | None] | None:
    result = rule.formula(p, q)
    if isinstance(result, Tensor):
        return result, None
    return result if isinstance(result, tuple) and not isinstance(result, registry.Reduced) else None


def _contained(p: Distribution, q: Distribution, rule: registry.Rule | None) -> Tensor | bool:
    """Whether p's support lies inside q's, unless the formula says so itself."""
    return True if rule is not None and rule.decides_support else support.contained(p, q)


def _nowhere_contained(inside: Tensor | bool, rule: registry.Rule | None) -> bool:
    """Whether no formula is needed because every element is infinite; values are looked at only if there is none."""
    if isinstance(inside, bool):
        return not inside
    return rule is None and not bool(inside.any())


def _summed(inner: registry.Reduced) -> tuple[Tensor, Tensor | None, str]:
    """Answer the inner pair and sum it over the dimensions that belong to the outer event."""
    shape = check_pair(inner.p, inner.q)
    value, error, method = answer(inner.p, inner.q)
    if inner.summed:
        dims = tuple(range(-inner.summed, 0))
        value = nan_where_parameters_are_nan(value, inner.p, inner.q).expand(shape).sum(dims)
        error = None if error is None else error.expand(shape).sum(dims)
    if inner.plus is None:
        return value, error, method
    more, more_error, more_method = _summed(inner.plus)
    if error is not None and more_error is not None:
        error = error + more_error
    return value + more, more_error if error is None else error, _of_both(method, more_method)


def infinite_everywhere(p: Distribution, q: Distribution) -> Tensor:
    """+inf everywhere, connected to the parameters with a zero gradient so that `backward` still runs."""
    parameters = [*tensors_of(p), *tensors_of(q)]
    device = parameters[0].device if parameters else None
    value = torch.full((), torch.inf, dtype=result_dtype(p, q), device=device)
    for parameter in parameters:
        if parameter.requires_grad:
            value = value + (0.0 * torch.where(parameter.isfinite(), parameter, 0.0)).sum()
    return value
