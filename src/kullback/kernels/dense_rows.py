"""The short way to the native rows of two dense tensors of one shape, for small inputs (`csrc/python/rows_call.cpp`).

What an earlier call with such tensors has answered is not asked again, and what has to be asked is asked in C. It
declines whatever is not ordinary: the long way checks and explains.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from kullback.kernels import native
from kullback.kernels.native_rows import Request
from kullback.kernels.row_op import RowOp
from kullback.kernels.row_run import reference_gradients

Check = Callable[[Any, Any, Any], None]
Shortcut = Callable[[RowOp, dict[tuple[Any, ...], Request | None], Any, Any, Any, tuple[Any, ...]], Any]

try:
    from kullback.kernels import _rows_call
except ImportError:  # not built for this interpreter
    _rows_call = None  # type: ignore[assignment]


def connect(check: Check) -> Shortcut | None:
    """`(op, remembered, p, q, validate, parameters) -> rows or NotImplemented`; None where there is no native code.

    Args:
        check: `(p, q, validate)`, raises where the values of a view are impossible.
    """
    library = native.library()
    if library is None or _rows_call is None:
        return None
    _NativeDenseRows.check = staticmethod(check)
    forward, backward = _address(library.kullback_rows_forward), _address(library.kullback_rows_backward)
    _rows_call.connect(forward, backward, _NativeDenseRows.apply, check)
    shortcut: Shortcut = _rows_call.rows
    return shortcut


def _address(entry: Any) -> int:
    found = ctypes.cast(entry, ctypes.c_void_p).value
    assert found is not None
    return found


class _NativeDenseRows(torch.autograd.Function):
    """A recorded call; the reference does what is not a first derivative."""

    check: ClassVar[Check]

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd hands over by position
        ctx: Any, op: RowOp, request: Request, p: Any, q: Any, validate: bool, x: Tensor, y: Tensor
    ) -> Tensor:
        rows, ctx.statistics, reported = _rows_call.forward(x, y, request)
        if reported and validate:
            _NativeDenseRows.check(p, q, validate)
        ctx.op, ctx.request = op, request
        ctx.save_for_backward(x, y)
        found: Tensor = rows
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        to_x, to_y = ctx.needs_input_grad[5:]
        found = _rows_call.backward(grad, ctx.statistics, ctx.request, x, y, to_x, to_y)
        if found is NotImplemented and not torch.is_grad_enabled() and not grad.is_contiguous():
            found = _rows_call.backward(grad.contiguous(), ctx.statistics, ctx.request, x, y, to_x, to_y)
        if found is NotImplemented:
            found = reference_gradients(ctx.op, ctx.request, grad, (x, y), (to_x, to_y))
        return (None, None, None, None, None, *found)
