"""Which dtype a computation runs in and which dtype it returns."""

from __future__ import annotations

import torch
from torch import Tensor

_NO_FLOAT64 = frozenset({"mps"})


def has_float64(device: torch.device) -> bool:
    """Whether a device computes in float64."""
    return device.type not in _NO_FLOAT64


def result_dtype(*tensors: Tensor) -> torch.dtype:
    """float64 where any tensor is float64, else float32: half precision is never returned.

    Example:
        >>> import torch
        >>> result_dtype(torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.float16))
        torch.float32
    """
    return torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32


def work_dtype(device: torch.device) -> torch.dtype:
    """The dtype of intermediate numbers: float64 where the device has it, so that float32 input is rounded once."""
    return torch.float64 if has_float64(device) else torch.float32


def needs_compensation(work: torch.dtype, *tensors: Tensor) -> bool:
    """Whether differences of input must be kept exactly, because the working precision is no wider than the input."""
    return work == torch.float32 or any(t.dtype == torch.float64 for t in tensors)
