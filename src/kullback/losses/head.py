"""The last layer of a language model, applied to a chunk of hidden states; called by `linear_distillation`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem

_TILE_CLASSES = 4096  # of a half-precision weight that are converted at a time


class Head(NamedTuple):
    """logits = c tanh(s (h Wᵀ + b) / c), without the soft cap c or the scale s where they are None.

    Attributes:
        hidden: h, of shape (tokens, features).
        weight: W, of shape (classes, features).
        bias: b, of shape (classes,).
        softcap: c.
        scale: s.
    """

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None
    softcap: float | None
    scale: float | None

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """What a gradient may go to."""
        return self.hidden, self.weight, self.bias

    @property
    def work_dtype(self) -> torch.dtype:
        """float64 where anything is, else float32."""
        present = [t for t in self.tensors if t is not None]
        return torch.float64 if any(t.dtype == torch.float64 for t in present) else torch.float32

    def with_tensors(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Head:
        """The same head of other tensors."""
        return self._replace(hidden=hidden, weight=weight, bias=bias)

    def truncated(self, classes: int) -> Head:
        """The head of the first classes."""
        if self.weight.shape[0] == classes:
            return self
        return self._replace(weight=self.weight[:classes], bias=None if self.bias is None else self.bias[:classes])

    def products(self, part: slice) -> Tensor:
        """The products h Wᵀ of some tokens, accumulated and kept in the working dtype; without history."""
        hidden, weight, work = self.hidden[part].detach(), self.weight.detach(), self.work_dtype
        if hidden.dtype == weight.dtype == work:
            return torch.mm(hidden, weight.t())
        if hidden.device.type != "cpu":
            # The device's own precision: it accumulates products of half-precision numbers and rounds them once.
            common = torch.promote_types(hidden.dtype, weight.dtype)
            return torch.mm(hidden.to(common), weight.to(common).t()).to(work)
        out = torch.empty(hidden.shape[0], weight.shape[0], dtype=work)
        hidden = hidden.to(work)
        for tile in _tiles(weight):
            out[:, tile] = torch.mm(hidden, weight[tile].to(work).t())
        return out

    def logits(self, products: Tensor) -> Tensor:
        """The logits from h Wᵀ, in differentiable operations."""
        if self.bias is not None:
            products = products + self.bias.to(products.dtype)
        if self.scale is not None:
            products = products * self.scale
        return products if self.softcap is None else self.softcap * torch.tanh(products / self.softcap)

    def whole_logits(self) -> Tensor:
        """The logits of all tokens in one differentiable operation: for transforms and second derivatives."""
        work = self.work_dtype
        return self.logits(self.hidden.to(work) @ self.weight.to(work).t())


class HeadGradients:
    """Sums of gradients over chunks, in the working dtype.

    Where the weight is a shard, the hidden states are the same on every rank of the group, and so is their gradient:
    what each rank's classes contribute is summed over the ranks at the end.
    """

    def __init__(self, head: Head, needs: tuple[bool, bool, bool], group: Any = None) -> None:
        self.head, self.group, work = head, group, head.work_dtype
        hidden_dtype = head.hidden.dtype if group is None else work
        self.hidden = torch.empty_like(head.hidden, dtype=hidden_dtype) if needs[0] else None
        self.weight = torch.zeros_like(head.weight, dtype=work) if needs[1] else None
        self.bias = torch.zeros_like(head.bias, dtype=work) if needs[2] and head.bias is not None else None

    def add(self, part: slice, to_products: Tensor, to_bias: Tensor | None) -> None:
        """Add what a chunk contributes, given the gradient with respect to its products."""
        hidden, weight = self.head.hidden[part].detach(), self.head.weight.detach()
        if self.hidden is not None:
            self.hidden[part] = _times_weight(to_products, weight)
        if self.weight is not None:
            self.weight.addmm_(to_products.t(), hidden.to(self.weight.dtype))
        if self.bias is not None and to_bias is not None:
            self.bias += to_bias

    def scaled(self, factor: Tensor) -> list[Tensor | None]:
        """The gradients to hidden, weight and bias times a number, in the dtypes of the tensors; used up by this."""
        found: list[Tensor | None] = []
        if self.group is not None and self.hidden is not None:
            from kullback.parallel.peers import Peers

            Peers(self.group).sum(self.hidden)
        for total, tensor in zip((self.hidden, self.weight, self.bias), self.head.tensors, strict=True):
            if total is None or tensor is None:
                found.append(None)
            else:
                found.append(total.mul_(factor.to(total.dtype)).to(tensor.dtype))
        return found


def _times_weight(gradient: Tensor, weight: Tensor) -> Tensor:
    if weight.dtype == gradient.dtype:
        return torch.mm(gradient, weight)
    if weight.device.type != "cpu":
        return torch.mm(gradient.to(weight.dtype), weight)
    out = torch.zeros(gradient.shape[0], weight.shape[1], dtype=gradient.dtype)
    for tile in _tiles(weight):
        out.addmm_(gradient[:, tile], weight[tile].to(gradient.dtype))
    return out


def _tiles(weight: Tensor) -> list[slice]:
    return [slice(start, start + _TILE_CLASSES) for start in range(0, weight.shape[0], _TILE_CLASSES)]


def check_head(name: str, hidden: object, weight: object, bias: object, group: object = None) -> None:
    """Refuse hidden states, weights and biases that do not fit together; only a shard of a group may have no class."""
    for argument, tensor in ((f"{name}_hidden", hidden), (f"{name}_weight", weight), (f"{name}_bias", bias)):
        if tensor is None and argument.endswith("bias"):
            continue
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            raise InputTypeError(
                explain_problem(
                    f"{argument} is a tensor of real numbers.",
                    got=f"a tensor of {tensor.dtype}" if isinstance(tensor, Tensor) else type(tensor).__name__,
                    expected="a torch.Tensor of floating dtype",
                    instead="model.lm_head.weight for the weight of a head" if argument.endswith("weight") else "",
                )
            )
    assert isinstance(hidden, Tensor)
    assert isinstance(weight, Tensor)
    if weight.dim() != 2 or (weight.shape[0] == 0 and group is None):
        raise ShapeError(
            explain_problem(
                f"{name}_weight is a matrix with one row per class.",
                got=f"shape {tuple(weight.shape)}",
                expected="shape (vocabulary, features), as torch.nn.Linear keeps it",
            )
        )
    if hidden.dim() == 0 or hidden.shape[-1] != weight.shape[1]:
        transposed = hidden.dim() > 0 and hidden.shape[-1] == weight.shape[0]
        raise ShapeError(
            explain_problem(
                f"{name}_hidden and {name}_weight have different numbers of features.",
                got=f"{name}_hidden {tuple(hidden.shape)}, {name}_weight {tuple(weight.shape)}",
                expected="(..., features) and (vocabulary, features)",
                instead=f"{name}_weight.t()" if transposed else "",
            )
        )
    if isinstance(bias, Tensor) and bias.shape != weight.shape[:1]:
        raise ShapeError(
            explain_problem(
                f"{name}_bias has one entry per class.",
                got=f"shape {tuple(bias.shape)}",
                expected=f"shape ({weight.shape[0]},)",
            )
        )


def each_model(name: str, value: Any) -> tuple[float | None, float | None]:
    """A positive number for both models, or a pair (student, teacher)."""
    student, teacher = value if isinstance(value, tuple) and len(value) == 2 else (value, value)
    for one in (student, teacher):
        number = isinstance(one, int | float) and not isinstance(one, bool)
        if one is not None and not (number and 0 < one < math.inf):
            raise InputValueError(
                explain_problem(
                    f"{name} is a number of the head.",
                    got=f"{name}={value!r}",
                    expected="a finite number above 0 for both models, a pair (student, teacher), or None",
                )
            )
    return student, teacher
