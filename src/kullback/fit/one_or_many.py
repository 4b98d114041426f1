"""The same arithmetic for one data set and for many: Python floats or tensors (B,). Called by `equations.py`.

Solvers of likelihood equations do some fifty operations on such numbers in each step. On a tensor with one entry each
costs microseconds, on a float a hundredth of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kullback.fit.weighted import mean_of

Number = Any  # a float, or a Tensor of shape (B,)


def number(values: Tensor) -> Number:
    """A tensor of shape (B,) as it is, or as a float if B is 1."""
    return values.item() if values.numel() == 1 else values


def means(w: Tensor, *each: Tensor) -> list[Number]:
    """Weighted means over the first dimension."""
    return [number(mean_of(x, w)) for x in each]


def tensor(value: Number) -> Tensor:
    """The way back: shape (B,)."""
    return value if isinstance(value, Tensor) else torch.tensor([value], dtype=torch.float64)


def where(condition: Any, first: Number, second: Number) -> Number:
    """The first number where the condition holds, else the second."""
    if isinstance(condition, Tensor):
        return torch.where(condition, first, second)
    return first if condition else second


def holds(condition: Any) -> bool:
    """Whether a condition holds for all data sets."""
    return bool(condition.all()) if isinstance(condition, Tensor) else bool(condition)


def exp(value: Number) -> Number:
    """eᵛ, and +inf instead of an overflow error."""
    return value.exp() if isinstance(value, Tensor) else math.exp(value) if value < 709 else math.inf


def log(value: Number) -> Number:
    """The logarithm of a positive number."""
    return value.log() if isinstance(value, Tensor) else math.log(value)


def apply(function: Callable[[Tensor], Tensor], values: Sequence[Number]) -> list[Number]:
    """A function of tensors at several numbers, in one call for floats."""
    if isinstance(values[0], Tensor):
        return [function(value) for value in values]
    return list(function(torch.tensor(values, dtype=torch.float64)).tolist())


def trigamma(x: Tensor) -> Tensor:
    """ψ′(x)."""
    return torch.polygamma(1, x)
