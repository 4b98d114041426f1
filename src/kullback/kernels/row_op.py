"""Functions of rows: in native code where there is some, else in pure torch; differentiable any number of times.

A divergence is a `RowOp`: one function from sides to a value per row, written once, in differentiable torch
operations that reduce the last dimension. This module and `row_run` give it everything else:

| the call happens               | and runs                                                                        |
|--------------------------------|---------------------------------------------------------------------------------|
| inside vmap, grad, jvp         | the function and its gradients on whole tensors, so that the transform follows  |
| while compiling                | native or Triton code as a node of the graph, or else the function itself       |
| in plain eager mode, on CPU    | native code where there is some that serves these tensors                       |
| in plain eager mode, on a GPU  | Triton kernels where there are some (`device_rows`)                             |
| in plain eager mode, otherwise | block by block; backward and double backward recompute each block               |

so that memory beyond the inputs and their gradients is one number per row and the temporaries of one block. A side
that needs no gradient costs nothing, a broadcast batch dimension is never expanded, a row outside `keep` is replaced
before anything is computed from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kullback._core.shapes import batch_shape
from kullback.kernels import row_library
from kullback.kernels.device_rows import op as device_op
from kullback.kernels.levels import forward_mode_nested, is_plain, is_strided, tracer_active, transform_active
from kullback.kernels.native_rows import NativeRows, Request, statistics_for
from kullback.kernels.row_run import (
    Gradients,
    Value,
    aligned,
    followed_rows,
    gradient_followed,
    recorded_rows,
    reference_gradients,
    run_of,
)
from kullback.kernels.sides import Encoding


@dataclass(frozen=True)
class RowOp:
    """A function of one or more sides with one value per row.

    Args:
        value: `(*sides, *options) -> rows`, differentiable torch operations in the working dtype, any batch shape.
        gradients: `(needs, *sides, *options) -> one tensor or None per side`: the derivative with respect to what the
            user handed over (logits, or weights for a linear encoding), itself differentiable. Without it the
            gradient of `value` is taken by autograd.
        native: The same function in native code, indistinguishable but for time and memory.

    Example:
        >>> import torch
        >>> from kullback.kernels.sides import Encoding
        >>> log_normaliser = RowOp(lambda side: torch.logsumexp(side.log, -1))
        >>> log_normaliser((torch.zeros(2, 4),), (Encoding(),)).exp()
        tensor([4., 4.])
    """

    value: Value
    gradients: Gradients | None = None
    native: NativeRows | None = None

    def __post_init__(self) -> None:
        if self.native is not None:
            row_library.register(self.native.name, self)

    def __call__(
        self,
        tensors: Sequence[Tensor],
        encodings: Sequence[Encoding],
        *options: Any,
        keep: Tensor | None = None,
        tolerances: Sequence[float] = (math.inf, math.inf),
        check: Callable[[], None] | None = None,
    ) -> Tensor:
        """One value per row.

        Args:
            tensors: One per side, classes last and equal in number, batch dimensions that broadcast.
            encodings: What each tensor holds.
            options: Handed to `value` and `gradients`.
            keep: Boolean over rows; a row that is not kept gives 0 and zero gradient whatever it holds.
            tolerances: How far from 0 the log of the sum of each side's rows may be; needed with `check`.
            check: Raises where the values of a tensor are impossible. Native code notices suspicious rows on its way
                and asks only then; the reference asks first.
        """
        batch = batch_shape(*tensors)
        if torch.compiler.is_compiling():
            followed = True
            if self.native is not None and not transform_active() and self.native.serves_graph(tensors, options):
                return row_library.library_rows(self.native.name, tensors, Request(encodings, batch, options, keep))
            if self.native is not None and not transform_active() and all(e == Encoding() for e in encodings):
                settings = device_op.served_settings(self.native, tensors, options)
                if settings is not None:
                    # Declaring an op for Triton imports the whole compiler, which takes seconds.
                    from kullback.kernels.device_rows import library as device_library

                    return device_library.library_rows(settings, tensors, Request(encodings, batch, options, keep))
        else:
            followed = transform_active() or tracer_active()
        recorded = not followed and torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        unscaled = all(encoding.scale == 1.0 for encoding in encodings)
        if not followed and unscaled and self.native is not None and self.native.serves(tensors, options):
            return self.in_native(tensors, Request(encodings, batch, options, keep, tolerances), check, recorded)
        if check is not None:
            check()
        request = Request(encodings, batch, options, keep)
        if not followed and self.native is not None and all(map(is_strided, tensors)):
            settings = device_op.served_settings(self.native, tensors, options)
            rows = None if settings is None else device_op.device_rows(self, settings, tensors, request, recorded)
            if rows is not None:
                return rows
        tensors, keep = aligned(request, tensors)
        run = run_of(self, request, tensors, followed=followed)
        if followed:
            traced = torch.compiler.is_compiling() or tracer_active()
            by_formula = self.gradients is not None and not traced and not forward_mode_nested()
            return followed_rows(run, keep, tensors) if by_formula else run.whole(tensors, keep)
        if recorded:
            return recorded_rows(run, keep, tensors)
        return run.rows(tensors, keep)

    def in_native(
        self, tensors: Sequence[Tensor], request: Request, check: Callable[[], None] | None, recorded: bool
    ) -> Tensor:
        """The same where native code serves the tensors and nobody follows the call."""
        assert self.native is not None
        if recorded:
            rows: Tensor = _NativeRows.apply(self, request, check, *tensors)
            return rows
        return self.native.forward(tensors, request, check, None)


class _NativeRows(torch.autograd.Function):
    """In native code, saving a few numbers per row as well; the reference does what is not a first derivative."""

    @staticmethod
    def forward(ctx: Any, op: RowOp, request: Request, check: Callable[[], None] | None, *tensors: Tensor) -> Tensor:
        assert op.native is not None
        statistics = statistics_for(request.batch)
        rows = op.native.forward(tensors, request, check, statistics)
        ctx.op, ctx.request, ctx.statistics = op, request, statistics
        ctx.save_for_backward(*tensors)
        return rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        op, request, native, tensors = ctx.op, ctx.request, ctx.op.native, ctx.saved_tensors
        needs, batch = ctx.needs_input_grad[3:], request.batch
        if torch.is_grad_enabled() or gradient_followed(grad) or not is_plain(grad):
            return (None, None, None, *reference_gradients(op, request, grad, tensors, needs))
        shared = any(need and t.shape[:-1] != batch for t, need in zip(tensors, needs, strict=True))
        backward = native.shared_backward if shared else native.backward
        return (None, None, None, *backward(grad, ctx.statistics, tensors, request, needs))
