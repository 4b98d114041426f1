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
    """A recorded call; the reference does what is not a first derivative.

    Where the exponentials of a row stay in the cache until its sums are known (up to 4,096 classes of float32 logits),
    the forward pass writes the gradients too, and the backward pass multiplies them by the incoming gradient.
    """

    check: ClassVar[Check]

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd hands over by position
        ctx: Any, op: RowOp, request: Request, p: Any, q: Any, validate: bool, x: Tensor, y: Tensor
    ) -> Tensor:
        to_x, to_y = ctx.needs_input_grad[5:]
        rows, statistics, reported, begun = _rows_call.forward(x, y, request, to_x, to_y)
        if reported and validate:
            _NativeDenseRows.check(p, q, validate)
        ctx.op, ctx.request, ctx.left = op, request, (statistics, begun)
        ctx.save_for_backward(x, y)
        found: Tensor = rows
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        to_x, to_y = ctx.needs_input_grad[5:]
        grad = grad if grad.dim() == 1 else grad.contiguous()
        if ctx.left is None:  # the first backward pass has given the gradients away
            _, statistics, _, _ = _rows_call.forward(x, y, ctx.request, False, False)
            ctx.left = statistics, None
        statistics, begun = ctx.left
        found = _rows_call.backward(grad, statistics, ctx.request, x, y, to_x, to_y, begun)
        if found is NotImplemented:
            found = reference_gradients(ctx.op, ctx.request, grad, (x, y), (to_x, to_y))
        elif begun is not None:
            ctx.left = None
        return (None, None, None, None, None, *found)
