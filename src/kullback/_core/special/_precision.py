"""Which precision a special function computes in, and polynomial evaluation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Backends without float64 compute in float32 and are as accurate as that allows.
_WITHOUT_FLOAT64 = ("mps",)


def widen(*tensors: Tensor) -> tuple[torch.dtype, list[Tensor]]:
    """The common dtype of the arguments, and the arguments broadcast in the precision to compute in."""
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    working = torch.float32 if tensors[0].device.type in _WITHOUT_FLOAT64 else torch.float64
    return dtype, [tensor.to(working) for tensor in torch.broadcast_tensors(*tensors)]  # type: ignore[no-untyped-call]


def horner(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Σ coefficients[k]·x^k, constant first."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def horner_of_columns(coefficients: Sequence[Tensor], x: Tensor) -> Tensor:
    """Several polynomials at once: coefficients that broadcast over the first dimension of x, highest power first."""
    total = coefficients[0].expand_as(x)
    for coefficient in coefficients[1:]:
        total = torch.addcmul(coefficient, total, x)
    return total
