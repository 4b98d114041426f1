"""Divergences of rows in native code: what it serves, and how a call is packed for it (`csrc/rows/call.h`).

A row is read once, in cache-sized blocks; a backward pass needs a few numbers per row of what was found. Everything
here runs outside autograd on plain CPU tensors. What native code does not serve stays with the reference: options for
which `Settings` are None, which are mixtures next to the ends of their range and some orders of Rényi's divergence.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from kullback._core.shapes import block_of, blocks
from kullback.kernels import device_choice, native
from kullback.kernels.levels import is_plain
from kullback.kernels.sides import Encoding

_T = TypeVar("_T")
_DTYPES = {torch.float64: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
_OWN = struct.Struct("=13q")  # the fields that every call has of its own
_SHARED = struct.Struct("=4q3dqd 4q2d 4q2d")  # those that calls of one kind share
_STATISTICS = 13  # doubles per row
# Rows up to this length are computed in double, exact to one rounding of the result: per class that costs 5% more than
# float at 32 classes and 60% at 40 and 48.
_SHORT = 48


class Settings(NamedTuple):
    """Which function of rows, as `RowsCall` has it (`csrc/rows/call.h`).

    Attributes:
        function: As `RowFunction` numbers them.
        share: α of a mixture αp + (1-α)q, the order of a power.
        weights: What multiplies the two divergences from a mixture.
        outer: What becomes of the value, as `Outer` numbers them.
        unit: A factor of the outer function.
    """

    function: int
    share: float = 0.0
    weights: tuple[float, float] = (0.0, 0.0)
    outer: int = 0
    unit: float = 1.0


class Request(NamedTuple):
    """One call: everything but the tensors.

    Attributes:
        encodings: What each tensor holds.
        batch: The shape of the result; the tensors' batch dimensions broadcast to it.
        options: What the function takes besides the sides.
        keep: Boolean over rows; a row that is not kept gives 0 and zero gradient whatever it holds.
        tolerances: How far from 0 the log of the sum of each side's rows may be.
        kind: Packed once, in a request of `NativeRows.dense_request`.
    """

    encodings: Sequence[Encoding]
    batch: torch.Size
    options: tuple[Any, ...] = ()
    keep: Tensor | None = None
    tolerances: Sequence[float] = (math.inf, math.inf)
    kind: bytes | None = None


class NativeRows:
    """One function of rows in native code.

    Args:
        name: What the compiler calls it.
        settings: From the options of the function to what native code is asked for; None: it does not serve them.

    Attributes:
        remembered: Requests that were made for tensors of some shape and dtype, or None for such as are not served.
    """

    def __init__(self, name: str, settings: Callable[..., Settings | None]) -> None:
        self.name = name
        self.settings = settings
        self.library = native.library()
        self.remembered: dict[tuple[Any, ...], Request | None] = {}

    def serves(self, tensors: Sequence[Tensor], options: Sequence[Any]) -> bool:
        """Whether native code gives what the reference gives for these tensors."""
        return enabled and self._knows(tensors[0], tensors[-1], options) and all(map(is_plain, tensors))

    def serves_graph(self, tensors: Sequence[Tensor], options: Sequence[Any]) -> bool:
        """The same of tensors that stand for others in a graph that is being made."""
        dense = all(t.device.type == "cpu" and t.layout is torch.strided for t in tensors)
        return enabled and dense and self._knows(tensors[0], tensors[-1], options)

    def dense_request(
        self,
        tensors: Sequence[Tensor],
        encodings: Sequence[Encoding],
        options: tuple[Any, ...],
        tolerances: Sequence[float],
    ) -> Request | None:
        """The request for two dense tensors (plain and contiguous) of one shape, good for all such tensors.

        None where native code does not serve them.
        """
        p, q = tensors
        if not self._knows(p, q, options):
            return None
        request = Request(encodings, p.shape[:-1], options, None, tolerances)
        return request._replace(kind=self._pack_kind((p, q), request, p.shape[-1], p.shape[-1]))

    def forward(
        self, tensors: Sequence[Tensor], request: Request, check: Callable[[], None] | None, statistics: Tensor | None
    ) -> Tensor:
        """Values of all rows.

        Args:
            tensors: The sides.
            request: The rest of the call.
            check: Raises where the values of a tensor are impossible; called when a row looks wrong.
            statistics: From `statistics_for`, filled for a backward pass.
        """
        assert self.library is not None
        (p, q), batch = _both(tensors), request.batch
        double = p.dtype is torch.float64 or q.dtype is torch.float64
        if p.dtype is torch.float32 and not double and len(batch) == 1:
            value = p.new_empty(batch[0])  # a third of the time that a shape and a dtype take
        else:
            value = torch.empty(batch, dtype=torch.float64 if double else torch.float32, device="cpu")
        reported = self.library.kullback_rows_forward(_pack(self, tensors, request, statistics, value, None))
        assert reported >= 0
        if reported and check is not None:
            check()
        return value

    def backward(
        self, grad: Tensor, statistics: Tensor, tensors: Sequence[Tensor], request: Request, needs: Sequence[bool]
    ) -> list[Tensor | None]:
        """Gradients to the tensors that need one, times `grad`; none of them may be broadcast."""
        assert self.library is not None
        found = [
            torch.empty_like(t, memory_format=torch.contiguous_format) if need else None
            for t, need in zip(tensors, needs, strict=True)
        ]
        if grad.dim() != 1:  # the gradient of a sum repeats one number
            grad = grad.contiguous()
        packed = _pack(self, tensors, request, statistics, None, grad, found)
        status = self.library.kullback_rows_backward(packed)
        assert status == 0
        return found

    def shared_backward(
        self, grad: Tensor, statistics: Tensor, tensors: Sequence[Tensor], request: Request, needs: Sequence[bool]
    ) -> list[Tensor | None]:
        """The same where the rows of a tensor are shared by broadcasting: block by block, added up in double."""
        whole = [t[(None,) * (len(request.batch) + 1 - t.dim())] for t in tensors]
        found = [torch.zeros_like(t, dtype=torch.float64) if n else None for t, n in zip(whole, needs, strict=True)]
        saved = statistics.view(*request.batch, _STATISTICS)
        keep = None if request.keep is None else request.keep.expand(request.batch)
        for index in blocks(request.batch, tensors[0].shape[-1], grad.device):
            rows = grad[index].contiguous()
            parts = [block_of(t, index).expand(*rows.shape, t.shape[-1]) for t in whole]
            part = request._replace(batch=rows.shape, keep=None if keep is None else keep[index])
            gradients = self.backward(rows, saved[index].contiguous(), parts, part, needs)
            for total, block in zip(found, gradients, strict=True):
                if total is not None and block is not None:
                    target = block_of(total, index)
                    target += block.sum_to_size(target.shape)
        return [None if g is None else g.to(t.dtype).reshape(t.shape) for g, t in zip(found, tensors, strict=True)]

    def _knows(self, p: Tensor, q: Tensor, options: Sequence[Any]) -> bool:
        if self.library is None or p.dtype not in _DTYPES or q.dtype not in _DTYPES:
            return False
        return self.settings(*options) is not None

    def _pack_kind(self, tensors: Sequence[Tensor], request: Request, stride_p: int, stride_q: int) -> bytes:
        (p, q), (of_p, of_q), tolerances = tensors, _both(request.encodings), _both(request.tolerances)
        classes, double = p.shape[-1], p.dtype is torch.float64 or q.dtype is torch.float64
        wide = double or classes <= _SHORT
        settings = self.settings(*request.options)
        assert settings is not None
        return _SHARED.pack(
            *(settings.function, classes, wide, double),
            *(settings.share, *settings.weights, settings.outer, settings.unit),
            *(stride_p, p.stride(-1), _DTYPES[p.dtype], of_p.linear, of_p.smoothing, tolerances[0]),
            *(stride_q, q.stride(-1), _DTYPES[q.dtype], of_q.linear, of_q.smoothing, tolerances[1]),
        )


def _pack(  # noqa: PLR0917 - by position: keywords would take a tenth of the time of a small call
    native_rows: NativeRows,
    tensors: Sequence[Tensor],
    request: Request,
    statistics: Tensor | None,
    value: Tensor | None,
    grad: Tensor | None,
    gradients: Sequence[Tensor | None] = (None, None),
) -> bytes:
    (p, q), (to_p, to_q) = _both(tensors), (*gradients, None)[:2]
    rows = grad if value is None else value
    assert rows is not None
    grad_stride = 1 if grad is None or grad.dim() != 1 else grad.stride(0)
    stride_p, stride_q, layout = _lay_out(p, q, rows.shape)
    kind = native_rows._pack_kind((p, q), request, stride_p, stride_q)
    keep = None if request.keep is None else request.keep.expand(rows.shape).contiguous()
    packed = (
        _OWN.pack(
            rows.numel(),
            torch.get_num_threads(),
            0 if layout is None else ctypes.addressof(layout),
            0 if keep is None else keep.data_ptr(),
            0 if statistics is None else statistics.data_ptr(),
            0 if value is None else value.data_ptr(),
            0 if grad is None else grad.data_ptr(),
            0 if grad is None else grad_stride,
            p.data_ptr(),
            q.data_ptr(),
            0 if to_p is None else to_p.data_ptr(),
            0 if to_q is None else to_q.data_ptr(),
            0,  # no forward pass called from here writes gradients
        )
        + kind
    )
    return packed if layout is None and keep is None else _Held(packed, (layout, keep))


def statistics_for(batch: torch.Size, like: Tensor | None = None) -> Tensor:
    """Room for what a forward pass leaves to the backward pass; on the device of `like`, if that is given."""
    device = None if like is None else like.device
    return torch.empty(math.prod(batch) * _STATISTICS, dtype=torch.float64, device=device)


def _both(sides: Sequence[_T]) -> Sequence[_T]:
    """A function of one side is one of two that are the same."""
    return sides if len(sides) > 1 else (sides[0], sides[0])


class _Held(bytes):
    """A packed call that keeps alive what it points to."""

    held: object

    def __new__(cls, packed: bytes, held: object) -> _Held:
        self = super().__new__(cls, packed)
        self.held = held
        return self


enabled = device_choice.ROUTES["cpu"] == "native"


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
    if p.shape == q.shape and p.is_contiguous() and q.is_contiguous():
        return p.shape[-1], p.shape[-1], None
    if len(batch) == 1 and p.dim() == q.dim() == 2:
        return (p.stride(0) if p.shape[0] > 1 else 0), (q.stride(0) if q.shape[0] > 1 else 0), None
    strides = [t.expand(*batch, t.shape[-1]).stride()[:-1] for t in (p, q)]
    values = [len(batch), *batch, *itertools.chain.from_iterable(strides)]
    return 0, 0, (ctypes.c_int64 * len(values))(*values)
