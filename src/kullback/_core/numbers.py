"""Numbers as tensors, wherever torch would make new tensors at the moment."""

from __future__ import annotations

import torch
from torch import Tensor


def as_tensor(value: float | Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor as it is, a number as one without dimensions, which meets tensors of any device.

    `torch.as_tensor` would bring both to the device of `torch.set_default_device`, with which those of a user who keeps
    some distributions elsewhere cannot be combined.

    Example:
        >>> with torch.device("meta"):
        ...     as_tensor(0.5)
        tensor(0.5000)
    """
    if isinstance(value, Tensor):
        return value if dtype is None else value.to(dtype)
    return torch.tensor(value, dtype=dtype, device="cpu")
