"""Divergences of rows in native code: what it serves, and how a call is packed for it (`csrc/rows/call.h`).

A row is read once, in cache-sized blocks; a backward pass needs a few numbers per row of what was found. Everything
here runs outside autograd on plain CPU tensors. What native code does not serve stays with the reference:

- float64 weights (`Probs`, `Counts`), whose logarithms need more than float64;
- the gradient of a tensor whose rows are shared by broadcasting;
- mixtures next to the ends of their range.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback.kernels import native
from kullback.kernels.levels import is_plain
from kullback.kernels.sides import Encoding

_DTYPES = {torch.float64: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
_NATIVE_WEIGHTS = {torch.float32, torch.float16, torch.bfloat16}
_CALL = struct.Struct("=11q3d 6q2d 6q2d")
_STATISTICS = 13  # doubles per row
_END = 1e-6  # the square of a smaller share would take the terms of a mixture out of the range of float
# Rows up to this length are computed in double, exact to one rounding of the result: per class that costs 5% more than
# float at 32 classes and 55% at 48; at 128 classes it would double the time of a gradient.
_SHORT = 48


class Request(NamedTuple):
    """One call: everything but the tensors.

    Attributes:
        encodings: What each tensor holds.
        batch: The shape of the result; the tensors' batch dimensions broadcast to it.
        options: What the function takes besides the sides.
        keep: Boolean over rows; a row that is not kept gives 0 and zero gradient whatever it holds.
        tolerances: How far from 0 the log of the sum of each side's rows may be.
        check: Raises where the values of a tensor are impossible; called when a row looks wrong.
    """

    encodings: Sequence[Encoding]
    batch: torch.Size
    options: tuple[Any, ...] = ()
    keep: Tensor | None = None
    tolerances: Sequence[float] = (math.inf, math.inf)
    check: Callable[[], None] | None = None


class NativeRows:
    """One function of two rows in native code: KL(p || q), or A KL(p || m) + B KL(q || m) with m = αp + (1-α)q.

    Args:
        mixture: For the second, from the options of the function to α, A, B; α next to 0 or 1 is not served.
    """

    def __init__(self, mixture: Callable[..., tuple[float, float, float]] | None = None) -> None:
        self.mixture = mixture
        self.library = native.library()

    def serves(self, tensors: Sequence[Tensor], encodings: Sequence[Encoding], options: Sequence[Any]) -> bool:
        """Whether native code gives what the reference gives for these tensors."""
        if self.library is None or not enabled:
            return False
        if self.mixture is not None and not _END <= self.mixture(*options)[0] <= 1.0 - _END:
            return False
        (p, q), (of_p, of_q) = tensors, encodings
        return (
            p.dtype in (_NATIVE_WEIGHTS if of_p.linear else _DTYPES)
            and q.dtype in (_NATIVE_WEIGHTS if of_q.linear else _DTYPES)
            and is_plain(p)
            and is_plain(q)
        )

    def forward(self, tensors: Sequence[Tensor], request: Request, statistics: Tensor | None = None) -> Tensor:
        """Values of all rows; `statistics`, from `statistics_for`, is filled for a backward pass."""
        assert self.library is not None
        (p, q), batch = tensors, request.batch
        double = p.dtype is torch.float64 or q.dtype is torch.float64
        if p.dtype is torch.float32 and not double and len(batch) == 1:
            value = p.new_empty(batch[0])  # a third of the time that a shape and a dtype take
        else:
            value = torch.empty(batch, dtype=torch.float64 if double else torch.float32)
        reported = self.library.kullback_rows_forward(self._pack(tensors, request, statistics, value=value))
        assert reported >= 0
        if reported and request.check is not None:
            request.check()
        return value

    def backward(
        self, grad: Tensor, statistics: Tensor, tensors: Sequence[Tensor], request: Request, needs: Sequence[bool]
    ) -> list[Tensor]:
        """Gradients to the tensors that need one, times `grad`; none of them may be broadcast."""
        assert self.library is not None
        found = [
            torch.empty_like(t, memory_format=torch.contiguous_format) if need else None
            for t, need in zip(tensors, needs, strict=True)
        ]
        grad = grad.contiguous()
        packed = self._pack(tensors, request, statistics, grad=grad, gradients=found)
        status = self.library.kullback_rows_backward(packed)
        assert status == 0
        return [g for g in found if g is not None]

    def _pack(
        self,
        tensors: Sequence[Tensor],
        request: Request,
        statistics: Tensor | None,
        *,
        value: Tensor | None = None,
        grad: Tensor | None = None,
        gradients: Sequence[Tensor | None] = (None, None),
    ) -> bytes:
        (p, q), (of_p, of_q), tolerances, keep = tensors, request.encodings, request.tolerances, request.keep
        rows, classes = grad if value is None else value, p.shape[-1]
        assert rows is not None
        if p.shape == q.shape and p.is_contiguous() and q.is_contiguous():
            stride_p = stride_q = classes
            layout = None
        else:
            stride_p, stride_q, layout = _lay_out(p, q, rows.shape)
        keep = None if keep is None else keep.expand(rows.shape).contiguous()
        double = rows.dtype is torch.float64
        wide = double or classes <= _SHORT or of_p.linear or of_q.linear
        packed = _CALL.pack(
            *(self.mixture is not None, rows.numel(), classes, wide, double, torch.get_num_threads()),
            0 if layout is None else ctypes.addressof(layout),
            0 if keep is None else keep.data_ptr(),
            0 if statistics is None else statistics.data_ptr(),
            0 if value is None else value.data_ptr(),
            0 if grad is None else grad.data_ptr(),
            *((0.0, 0.0, 0.0) if self.mixture is None else self.mixture(*request.options)),
            p.data_ptr(),
            0 if gradients[0] is None else gradients[0].data_ptr(),
            *(stride_p, p.stride(-1), _DTYPES[p.dtype], of_p.linear, of_p.smoothing, tolerances[0]),
            q.data_ptr(),
            0 if gradients[1] is None else gradients[1].data_ptr(),
            *(stride_q, q.stride(-1), _DTYPES[q.dtype], of_q.linear, of_q.smoothing, tolerances[1]),
        )
        return packed if layout is None and keep is None else _Held(packed, (layout, keep))


def statistics_for(rows: Tensor, batch: torch.Size) -> Tensor:
    """Room for what a forward pass leaves to the backward pass."""
    return rows.new_empty(math.prod(batch) * _STATISTICS, dtype=torch.float64)


class _Held(bytes):
    """A packed call that keeps alive what it points to."""

    held: object

    def __new__(cls, packed: bytes, held: object) -> _Held:
        self = super().__new__(cls, packed)
        self.held = held
        return self


enabled = True


@contextlib.contextmanager
def reference_only() -> Iterator[None]:
    """Keep native row kernels out, for comparisons."""
    global enabled  # noqa: PLW0603 - a switch for tests, restored on exit
    before, enabled = enabled, False
    try:
        yield
    finally:
        enabled = before


def _lay_out(p: Tensor, q: Tensor, batch: torch.Size) -> tuple[int, int, ctypes.Array[ctypes.c_int64] | None]:
    """A row stride per tensor, or where one does not do the sizes and strides of the batch."""
    if len(batch) == 1 and p.dim() == q.dim() == 2:
        return (p.stride(0) if p.shape[0] > 1 else 0), (q.stride(0) if q.shape[0] > 1 else 0), None
    strides = [t.expand(*batch, t.shape[-1]).stride()[:-1] for t in (p, q)]
    values = [len(batch), *batch, *itertools.chain.from_iterable(strides)]
    return 0, 0, (ctypes.c_int64 * len(values))(*values)
