"""Two Gaussians with covariances D + UUᵀ compared in one native pass without derivatives (`csrc/pairs/low_rank.h`)."""

from __future__ import annotations

import struct
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.kernels import native as _native
from kullback.kernels.levels import is_plain, tracer_active, transform_active

_DTYPES = {torch.float64: 0, torch.float32: 1}
_CALL = struct.Struct("=12qd")
_LARGEST = 16  # columns of U, as csrc/pairs/factors.h has it


class LowRank(NamedTuple):
    """A Gaussian with the covariance D + UUᵀ.

    Attributes:
        loc: Its mean.
        factor: U.
        diagonal: D.
    """

    loc: Tensor
    factor: Tensor
    diagonal: Tensor


def compare_low_rank(p: LowRank, q: LowRank, near: float) -> Tensor | None:
    """KL of two such Gaussians, float64; where ‖M‖² is below `near` by its expansion to second order.

    None for what is not served: unequal or large ranks, shapes that broadcast, tensors that need a gradient or are
    followed.
    """
    if torch.compiler.is_compiling() or transform_active() or tracer_active():
        return None
    library = _native.library()
    dtype, (*batch, size, rank) = p.loc.dtype, p.factor.shape
    if library is None or not 1 <= rank <= _LARGEST or dtype not in _DTYPES:
        return None
    shapes = (*batch, size), p.factor.shape, (*batch, size)
    recorded = torch.is_grad_enabled()
    for side in (p, q):
        for tensor, shape in zip(side, shapes, strict=True):
            if tensor.shape != shape or tensor.dtype is not dtype or not is_plain(tensor):
                return None
            if recorded and tensor.requires_grad:
                return None
    tensors = [tensor.contiguous() for side in (p, q) for tensor in side]
    value = p.loc.new_empty(batch, dtype=torch.float64)
    packed = _CALL.pack(
        *(_DTYPES[dtype], value.numel(), size, rank, torch.get_num_threads()),
        *(tensor.data_ptr() for tensor in tensors),
        *(value.data_ptr(), near),
    )
    return value if library.kullback_compare_low_rank(packed) == 0 else None
