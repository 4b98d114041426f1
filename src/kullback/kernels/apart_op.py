"""A covariance D + UUᵀ beside a dense one in native passes (`csrc/pairs/apart.h`), where nobody wants a derivative."""

from __future__ import annotations

import struct

import torch
from torch import Tensor

from kullback.kernels import native as _native
from kullback.kernels.factor_op import is_served
from kullback.kernels.levels import is_plain, tracer_active, transform_active
from kullback.kernels.low_rank_op import LARGEST_RANK, LowRank

_DTYPES = {torch.float64: 0, torch.float32: 1}
_FACTOR, _APART = struct.Struct("=8q"), struct.Struct("=12q")
LARGEST_SIZE = 96  # rows from which a library for large matrices is faster


def factor_low_rank(factor: Tensor, diagonal: Tensor) -> Tensor | None:
    """L with LLᵀ = D + UUᵀ in float64; None for what is not served."""
    if torch.compiler.is_compiling() or transform_active() or tracer_active():
        return None
    library, (*batch, size, rank) = _native.library(), factor.shape
    recorded = torch.is_grad_enabled() and (factor.requires_grad or diagonal.requires_grad)
    if library is None or recorded or not _is_moderate(size, rank) or diagonal.shape != (*batch, size):
        return None
    if not is_plain(factor) or not is_plain(diagonal) or factor.dtype not in _DTYPES or diagonal.dtype != factor.dtype:
        return None
    lower = factor.new_empty((*batch, size, size), dtype=torch.float64)
    held = factor.contiguous(), diagonal.contiguous()
    packed = _FACTOR.pack(
        *(_DTYPES[factor.dtype], diagonal.numel() // size, size, rank, torch.get_num_threads()),
        *(t.data_ptr() for t in (*held, lower)),
    )
    return lower if library.kullback_factor_low_rank(packed) == 0 else None


def compare_apart(loc_p: Tensor, lower_p: Tensor, q: LowRank) -> tuple[Tensor, Tensor] | None:
    """KL of a Gaussian by its factor from one with D + UUᵀ, and ‖ZZᵀ − I‖²; None for what is not served."""
    *batch, size, rank = q.factor.shape
    # With as many columns as rows the capacitance matrix is worse conditioned than the covariance.
    if not _is_moderate(size, rank) or rank >= size or not is_served(loc_p, lower_p, q.loc, lower_p):
        return None
    if any(not is_plain(t) or t.dtype != loc_p.dtype or (torch.is_grad_enabled() and t.requires_grad) for t in q[1:]):
        return None
    if loc_p.shape != q.diagonal.shape:
        return None
    value = loc_p.new_empty(batch, dtype=torch.float64)
    excess = torch.empty_like(value)
    held = [t.contiguous() for t in (loc_p, lower_p, *q)]
    packed = _APART.pack(
        *(_DTYPES[loc_p.dtype], value.numel(), size, rank, torch.get_num_threads()),
        *(t.data_ptr() for t in (*held, value, excess)),
    )
    library = _native.library()
    assert library is not None
    return (value, excess) if library.kullback_compare_apart(packed) == 0 else None


def _is_moderate(size: int, rank: int) -> bool:
    return 0 < size <= LARGEST_SIZE and 1 <= rank <= LARGEST_RANK
