"""Copies of a distribution or view with changed parameters, such as without gradient; used by several losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.distributions.transforms import Transform

from kullback.tensors.views import View

T = TypeVar("T")


def detached(value: T) -> T:
    """The same distribution, view or tensor, cut off from the graph of its parameters; memory is shared."""
    return with_tensors(value, Tensor.detach)


def without_masked_gradient(value: Distribution, mask: Tensor) -> Distribution:
    """The same distribution, whose parameters get gradient 0 in the batch elements that the mask leaves out.

    Masking the result alone would leave 0 · NaN in their gradient.
    """
    batch = value.batch_shape
    keep = mask.expand(batch)

    def change(tensor: Tensor) -> Tensor:
        if tensor.shape[: len(batch)] != batch:
            return tensor
        fitting = keep.reshape(*batch, *(1,) * (tensor.dim() - len(batch)))
        return torch.where(fitting, tensor, tensor.detach())

    return with_tensors(value, change)


def with_tensors(value: T, change: Callable[[Tensor], Tensor]) -> T:
    """A copy of a distribution, view or tensor in which `change` is applied to every tensor."""
    found: Any = value
    if isinstance(found, Tensor):
        return change(found)  # type: ignore[return-value]
    if isinstance(found, View):
        return found.with_tensor(change(found.tensor))  # type: ignore[return-value]
    if isinstance(found, (list, tuple)):
        return type(found)([with_tensors(item, change) for item in found])  # type: ignore[return-value]
    if isinstance(found, dict):
        return {key: with_tensors(item, change) for key, item in found.items()}  # type: ignore[return-value]
    if isinstance(found, (Distribution, Transform, nn.Module)):
        twin = object.__new__(type(found))
        for name, item in vars(found).items():
            # A transform keeps the last x, y pair with its graph.
            object.__setattr__(twin, name, (None, None) if name == "_cached_x_y" else with_tensors(item, change))
        return twin  # type: ignore[return-value]
    return value
