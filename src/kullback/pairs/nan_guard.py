"""Where an answer is NaN and where it must not be; `dispatch`, `divergences` and `entropy` call it.

An element with a NaN parameter is NaN: a formula made of cases would answer it with a plausible number, and a training
run that has gone wrong would go on unnoticed. Any other NaN is replaced. Formulas meet ∞ − ∞ or 0 · ∞ where a parameter
is infinite or as small as numbers get: Normal(0, 1) ‖ Normal(0, inf). Such an element is 0 where p and q have the same
parameters and otherwise infinite, because an infinite scale or location is a limit in which the two part.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.numbers import as_tensor
from kullback._core.shapes import joint_shape
from kullback.kernels.levels import is_traced
from kullback.pairs.parameters import construct_unvalidated, stored_values, tensors_of

Answer = tuple[Tensor, Tensor | None]
Formula = Callable[[Distribution, Distribution], Answer]


def nan_where_parameters_are_nan(value: Tensor, *distributions: Distribution) -> Tensor:
    """The value, NaN where a parameter of a univariate distribution is; sums over vectors keep a NaN by themselves."""
    for distribution in distributions:
        missing = None if distribution.event_shape else _elements_where(torch.isnan, distribution)
        value = value if missing is None else torch.where(missing, torch.nan, value)
    return value


def _elements_where(test: Callable[[Tensor], Tensor], distribution: Distribution) -> Tensor | None:
    """Which elements have a parameter that is NaN, or infinite, as the test asks; None where none is.

    A Beta's parameters are those of a Dirichlet.
    """
    found: Tensor | None = None
    traced = is_traced()
    for value in stored_values(distribution):
        here = None
        if isinstance(value, Tensor) and value.is_floating_point():
            # A finite sum shows at once that nothing is NaN or infinite.
            here = test(value) if traced or not math.isfinite(value.detach().sum().item()) else None
        elif isinstance(value, Distribution):
            here = _elements_where(test, value)
        if here is not None and (traced or bool(here.any())):
            here = _per_element(here, len(distribution.batch_shape), torch.any)
            found = here if found is None else found | here
    return found


def _per_element(mask: Tensor, batch_dims: int, join: Callable[[Tensor, int], Tensor]) -> Tensor:
    """A mask over parameters as one over batch elements."""
    extra = mask.dim() - batch_dims
    return join(mask.flatten(-extra), -1) if extra > 0 else mask


def replace_unexplained_nan(formula: Formula, p: Distribution, q: Distribution) -> Answer:
    """The formula's value and error without NaN.

    Where values cannot be looked at, elements with an infinite parameter have no gradient, NaN or not, and only
    distributions without event dimensions are guarded: torch's constraints on matrices look at values.
    """
    traced = is_traced()
    if traced and p.event_shape:
        return formula(p, q)
    found = (_of_constant_infinities(formula, p, q) if traced else None) or formula(p, q)
    # The infinite elements of an integral have no gradient already.
    settled = ~found[0].isnan() if found[1] is not None or not found[0].requires_grad else found[0].isfinite()
    if found[0].is_meta or not (traced or not bool(settled.all())):
        return found
    unexplained = found[0].isnan() & _in_domain(p) & _in_domain(q)
    if found[0].requires_grad and not traced:
        found = _without_gradient_at(unexplained | found[0].isinf(), formula, p, q) or found
    value, error = found
    limit = torch.where(_same_parameters(p, q), 0.0, torch.inf).to(value.device, value.dtype)
    error = None if error is None else torch.where(error.isnan(), torch.inf, error)
    return torch.where(unexplained, limit, value), error


def _in_domain(distribution: Distribution) -> Tensor:
    """Which elements have parameters that torch's validation allows; a scale of -1 explains a NaN."""
    inside = torch.tensor(True, device=_device(distribution))
    for name, constraint in distribution.arg_constraints.items():
        given = name in vars(distribution) or name not in ("probs", "logits")  # the other one is derived
        if given:
            valid = constraint.check(as_tensor(getattr(distribution, name)))  # type: ignore[no-untyped-call]
            inside = inside & _per_element(valid, len(distribution.batch_shape), torch.all)
    return inside


def _of_constant_infinities(formula: Formula, p: Distribution, q: Distribution) -> Answer | None:
    """The answer without gradient in the elements that have an infinite parameter."""
    found = [_elements_where(torch.isinf, side) for side in (p, q)]
    infinite = [elements for elements in found if elements is not None]
    return _without_gradient_at(functools.reduce(torch.logical_or, infinite), formula, p, q) if infinite else None


def _without_gradient_at(elements: Tensor, formula: Formula, p: Distribution, q: Distribution) -> Answer | None:
    """The answer again, with parameters that are constant in some elements.

    The derivative of ∞ − ∞ is NaN, and masking the value alone would leave 0 · NaN in the gradient.
    """
    shape = joint_shape(p.batch_shape, q.batch_shape)
    try:
        # What torch expands may lose a class of probability 0: a OneHotCategorical goes on with its logits.
        sides = (side if side.batch_shape == shape else side.expand(shape) for side in (p, q))
        p, q = (_detached(side, elements.expand(shape)) for side in sides)
    except NotImplementedError:  # a class that cannot be expanded
        return None
    return formula(p, q)


def _detached(distribution: Distribution, elements: Tensor) -> Distribution:
    state = dict(vars(distribution))
    for name, value in state.items():
        if isinstance(value, Distribution):
            state[name] = _detached(value, elements)
        elif isinstance(value, Tensor) and value.requires_grad and value.shape[: elements.dim()] == elements.shape:
            where = elements.reshape([*elements.shape, *[1] * (value.dim() - elements.dim())])
            state[name] = torch.where(where, value.detach(), value)
    return construct_unvalidated(type(distribution), state, distribution.batch_shape)


def _same_parameters(p: Distribution, q: Distribution) -> Tensor:
    """Which elements have equal parameters on both sides."""
    own, other = tensors_of(p), tensors_of(q)
    same = torch.tensor(type(p) is type(q) and len(own) == len(other), device=_device(p))
    for a, b in zip(own, other, strict=False) if type(p) is type(q) else ():
        try:
            equal = a == b
        except RuntimeError:  # parameters of other sizes
            return torch.zeros_like(same)
        extra = max(a.dim() - len(p.batch_shape), b.dim() - len(q.batch_shape), 0)
        same = same & _per_element(equal, equal.dim() - extra, torch.all)
    return same


def _device(distribution: Distribution) -> torch.device | None:
    return next((tensor.device for tensor in tensors_of(distribution)), None)
