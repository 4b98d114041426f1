"""Replaces a NaN that no parameter explains; `dispatch` calls it after every formula of the library.

Formulas meet ∞ − ∞ or 0 · ∞ where a parameter is infinite or as small as numbers get: Normal(0, 1) ‖ Normal(0, inf).
Such an element is 0 where p and q have the same parameters and otherwise infinite: an infinite scale or location, or a
concentration without bound, is a limit in which the two distributions part. Infinite elements have zero gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.numbers import as_tensor
from kullback._core.shapes import joint_shape
from kullback.kernels.levels import tracer_active
from kullback.pairs.parameters import made, tensors_of
from kullback.pairs.visible import hidden

Answer = tuple[Tensor, Tensor | None]
Formula = Callable[[Distribution, Distribution], Answer | None]


def replace_unexplained_nan(formula: Formula, p: Distribution, q: Distribution) -> Answer | None:
    """The formula's value and error without NaN; None where the formula has no answer."""
    found = formula(p, q)
    if found is None or hidden() or tracer_active() or found[0].is_meta or not bool(found[0].isnan().any()):
        return found
    lost = found[0].isnan() & _in_domain(p) & _in_domain(q)
    if found[0].requires_grad:
        found = _without_gradient_at(lost | found[0].isinf(), formula, p, q) or found
    value, error = found
    limit = torch.where(_same_parameters(p, q), 0.0, torch.inf).to(value.device, value.dtype)
    return torch.where(lost, limit, value), None if error is None else torch.where(error.isnan(), torch.inf, error)


def _in_domain(law: Distribution) -> Tensor:
    """Which elements have parameters that torch's validation allows; a scale of -1 explains a NaN."""
    inside = torch.tensor(True, device=_device(law, law))
    for name, constraint in law.arg_constraints.items():
        if name in vars(law) or name not in ("probs", "logits"):  # only what was given: the other one is derived
            value = as_tensor(getattr(law, name))
            valid = constraint.check(value)  # type: ignore[no-untyped-call]
            extra = valid.dim() - len(law.batch_shape)
            inside = inside & (valid.flatten(-extra).all(-1) if extra > 0 else valid)
    return inside


def _without_gradient_at(lost: Tensor, formula: Formula, p: Distribution, q: Distribution) -> Answer | None:
    """The answer again, with parameters that do not follow the elements that are lost.

    The derivative of ∞ − ∞ is NaN, and masking the value alone would leave 0 · NaN in the gradient.
    """
    shape = joint_shape(p.batch_shape, q.batch_shape)
    try:
        p, q = (_detached(law.expand(shape), lost.expand(shape)) for law in (p, q))
    except NotImplementedError:  # a class that cannot be expanded
        return None
    return formula(p, q)


def _detached(law: Distribution, lost: Tensor) -> Distribution:
    state = dict(vars(law))
    for name, value in state.items():
        if isinstance(value, Distribution):
            state[name] = _detached(value, lost)
        elif isinstance(value, Tensor) and value.requires_grad and value.shape[: lost.dim()] == lost.shape:
            where = lost.reshape([*lost.shape, *[1] * (value.dim() - lost.dim())])
            state[name] = torch.where(where, value.detach(), value)
    return made(type(law), state, law.batch_shape)


def _same_parameters(p: Distribution, q: Distribution) -> Tensor:
    """Which elements have equal parameters on both sides."""
    pairs = list(zip(tensors_of(p), tensors_of(q), strict=False))
    same = torch.tensor(type(p) is type(q) and len(tensors_of(p)) == len(tensors_of(q)), device=_device(p, q))
    dims = len(p.batch_shape), len(q.batch_shape)
    for a, b in pairs if bool(type(p) is type(q)) else []:
        extra = max(a.dim() - dims[0], b.dim() - dims[1], 0)
        try:
            equal = a == b
        except RuntimeError:  # parameters of other sizes
            return torch.zeros_like(same)
        same = same & (equal.flatten(-extra).all(-1) if extra else equal)
    return same


def _device(p: Distribution, q: Distribution) -> torch.device | None:
    return next((tensor.device for law in (p, q) for tensor in tensors_of(law)), None)
