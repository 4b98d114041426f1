"""Large batches of integrals and series, a portion at a time.

An integral keeps some hundred nodes per element, and a gradient all that was computed at them: a million elements would
be tens of gigabytes. Elements know nothing of each other, so they are answered a portion at a time, and in a backward
pass each portion is computed again instead of being kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.distributions import Distribution, Transform

from kullback._core.shapes import joint_shape
from kullback.pairs.parameters import made
from kullback.pairs.visible import hidden

Result = TypeVar("Result")
Formula = Callable[[Distribution, Distribution], Result]

# Elements: enough to pay for going through a formula, few enough that nodes stay within some hundred megabytes.
_PORTION = 2048


def in_portions(formula: Formula[Result], p: Distribution, q: Distribution) -> Result:
    """The formula's tensor, or its tensors, for all elements; whatever else it gives is given back."""
    shape = joint_shape(p.batch_shape, q.batch_shape)
    if hidden() or shape.numel() <= _PORTION:
        return formula(p, q)
    of_p, of_q = (Cut.of(law, shape) for law in (p, q))
    if of_p is None or of_q is None:
        return formula(p, q)
    count = len(of_p.tensors)

    def of_tensors(*tensors: Tensor) -> Any:
        return formula(of_p.law(tensors[:count]), of_q.law(tensors[count:]))

    found = []
    for start in range(0, shape.numel(), _PORTION):
        part = _answered(of_tensors, [*of_p.portion(start), *of_q.portion(start)])
        if not isinstance(part, Tensor | tuple):
            return formula(p, q)
        found.append(part)
    return cast("Result", _joined(found, shape))


class Cut:
    """A law whose parameters have one batch dimension, to be cut anywhere.

    Attributes:
        tensors: Its tensors and those of the laws it is made of, each once; a single number, such as a temperature,
            serves all elements.
    """

    def __init__(self, law: Distribution, dims: int) -> None:
        self._law, self._dims = law, dims
        self._places: dict[tuple[Any, ...], int] = {}
        self.tensors: list[Tensor] = []
        self._collect(law)

    @classmethod
    def of(cls, law: Distribution, shape: torch.Size) -> Cut | None:
        """None for a law with parts that have no batch dimension of their own, such as the numbers of a transform."""
        try:
            return cls(law if law.batch_shape == shape else law.expand(shape), len(shape))
        except (_UncutError, NotImplementedError):
            return None

    def portion(self, start: int) -> list[Tensor]:
        """The tensors of the elements from here on."""
        return [tensor[start : start + _PORTION] if tensor.dim() else tensor for tensor in self.tensors]

    def chosen(self, index: Tensor) -> Distribution:
        """The law of the elements with an index."""
        return self.law([tensor.index_select(0, index) if tensor.dim() else tensor for tensor in self.tensors])

    def law(self, tensors: Sequence[Tensor]) -> Distribution:
        """The law of other tensors in the same places."""
        count = next(len(tensor) for tensor in tensors if tensor.dim())
        return self._rebuilt(self._law, tensors, count)

    def _collect(self, law: Distribution) -> None:
        for value in vars(law).values():
            if isinstance(value, Tensor):
                if value.dim() and value.shape[: self._dims] != self._law.batch_shape:
                    raise _UncutError
                if _place(value) not in self._places:
                    self._places[_place(value)] = len(self.tensors)
                    self.tensors.append(value.reshape(-1, *value.shape[self._dims :]) if value.dim() else value)
            elif isinstance(value, Distribution):
                self._collect(value)
            elif isinstance(value, list | tuple) and any(_has_tensors(part) for part in value):
                raise _UncutError

    def _rebuilt(self, law: Distribution, tensors: Sequence[Tensor], count: int) -> Distribution:
        state = dict(vars(law))
        for name, value in state.items():
            if isinstance(value, Tensor):
                state[name] = tensors[self._places[_place(value)]]
            elif isinstance(value, Distribution):
                state[name] = self._rebuilt(value, tensors, count)
        return made(type(law), state, torch.Size([count, *law.batch_shape[self._dims :]]))


class _UncutError(Exception):
    """A law that cannot be cut."""


def _place(tensor: Tensor) -> tuple[Any, ...]:
    """What two names of one tensor have in common; torch keeps a parameter under several."""
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad


def _has_tensors(part: object) -> bool:
    held = vars(part).values() if isinstance(part, Transform) else ()
    return isinstance(part, Tensor) or any(
        isinstance(value, Tensor | Transform | list | Distribution) for value in held
    )


class _Recomputed(torch.autograd.Function):
    """A portion that keeps its parameters only, and is computed again where its derivatives are wanted."""

    @staticmethod
    def forward(ctx: Any, formula: Callable[..., Any], *tensors: Tensor) -> Any:
        ctx.formula = formula
        ctx.save_for_backward(*tensors)
        found = formula(*tensors)
        if isinstance(found, tuple):
            ctx.mark_non_differentiable(*found[1:])
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        needed = ctx.needs_input_grad[1:]
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            tensors = [
                t if again else t.detach().requires_grad_(n) for t, n in zip(ctx.saved_tensors, needed, strict=True)
            ]
            found = ctx.formula(*tensors)
            value = found[0] if isinstance(found, tuple) else found
            wanted = [t for t, n in zip(tensors, needed, strict=True) if n]
            slopes = iter(torch.autograd.grad(value, wanted, grads[0], create_graph=again, allow_unused=True))
        return None, *(next(slopes) if n else None for n in needed)


def _answered(formula: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
    followed = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return _Recomputed.apply(formula, *tensors) if followed else formula(*tensors)


def _joined(found: Sequence[Any], shape: torch.Size) -> Any:
    if isinstance(found[0], tuple):
        return tuple(_joined(column, shape) for column in zip(*found, strict=True))
    left = shape.numel()
    parts = []
    for part in found:
        parts.append(part.expand(min(_PORTION, left)))
        left -= _PORTION
    return torch.cat(parts).reshape(shape)
