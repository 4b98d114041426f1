"""The error of a closed form whose terms are larger than their sum."""

from __future__ import annotations

import torch
from torch import Tensor

# How many roundings of the size of a term its computation adds up to: observed below 2, doubled.
_ROUNDINGS = 4 * torch.finfo(torch.float64).eps

Answer = tuple[Tensor, Tensor]


def rounded(value: Tensor, sizes: Tensor) -> Answer:
    """The value and what roundings of terms of these sizes can change it by."""
    finite = value.isfinite()
    return value, torch.where(finite, _ROUNDINGS * torch.where(finite, sizes, 0.0).detach(), 0.0)
