"""A copy of a distribution or view whose parameters have no gradient; used by kl_balance and the path gradient."""

from __future__ import annotations

from typing import Any, TypeVar

from torch import Tensor, nn
from torch.distributions import Distribution
from torch.distributions.transforms import Transform

from kullback.tensors.views import View

T = TypeVar("T")


def detached(value: T) -> T:
    """The same distribution, view or tensor, cut off from the graph of its parameters; memory is shared."""
    found: Any = value
    if isinstance(found, Tensor):
        return found.detach()  # type: ignore[return-value]
    if isinstance(found, View):
        return found.with_tensor(found.tensor.detach())  # type: ignore[return-value]
    if isinstance(found, (list, tuple)):
        return type(found)([detached(item) for item in found])  # type: ignore[return-value]
    if isinstance(found, dict):
        return {key: detached(item) for key, item in found.items()}  # type: ignore[return-value]
    if isinstance(found, (Distribution, Transform, nn.Module)):
        twin = object.__new__(type(found))
        for name, item in vars(found).items():
            # A transform keeps the last x, y pair with its graph.
            object.__setattr__(twin, name, (None, None) if name == "_cached_x_y" else detached(item))
        return twin  # type: ignore[return-value]
    return value
