"""Divergences of rows in pure torch: cut into blocks, recomputed in backward, differentiable any number of times.

A divergence is a `RowOp`: one function from sides to a value per row, written once, in differentiable torch
operations that reduce the last dimension. This module gives it everything else:

| the call happens                        | and runs                                                               |
|-----------------------------------------|------------------------------------------------------------------------|
| inside vmap, grad, jvp; while compiling | the function itself, on whole tensors, so that the transform follows it |
| in plain eager mode, on CPU             | native code where there is some that serves these tensors               |
| in plain eager mode, otherwise          | block by block; backward and double backward recompute each block      |

so that memory beyond the inputs and their gradients is one number per row and the temporaries of one block. A side
that needs no gradient costs nothing, a broadcast batch dimension is never expanded, a row outside `keep` is replaced
before anything is computed from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kullback._core.dtypes import needs_compensation, result_dtype, work_dtype
from kullback._core.shapes import batch_shape, block_of, blocks
from kullback.kernels.levels import is_batch_of_gradients, is_plain, tracer_active, transform_active
from kullback.kernels.native_rows import NativeRows, Request, statistics_for
from kullback.kernels.sides import Encoding, Side, read_side

Value = Callable[..., Tensor]
Gradients = Callable[..., Sequence[Tensor | None]]


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
        followed = torch.compiler.is_compiling() or transform_active() or tracer_active()
        recorded = not followed and torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        if not followed and self.native is not None and self.native.serves(tensors, encodings, options):
            return self.in_native(tensors, Request(encodings, batch, options, keep, tolerances), check, recorded)
        if check is not None:
            check()
        request = Request(encodings, batch, options, keep)
        tensors, keep = _aligned(request, tensors)
        run = _run_of(self, request, tensors, followed=followed)
        if followed:
            return run.whole(tensors, keep)
        if recorded:
            rows: Tensor = _Rows.apply(run, keep, *tensors)
            return rows
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


def _aligned(request: Request, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Tensor | None]:
    """Every batch dimension written out, of size 1 where it broadcasts."""
    whole = [t[(None,) * (len(request.batch) + 1 - t.dim())] for t in tensors]
    return whole, None if request.keep is None else request.keep.expand(request.batch)


def _run_of(op: RowOp, request: Request, tensors: Sequence[Tensor], *, followed: bool = False) -> _Run:
    work = work_dtype(tensors[0].device)
    return _Run(
        op=op,
        encodings=tuple(request.encodings),
        options=request.options,
        batch=request.batch,
        result=result_dtype(*tensors),
        work=work,
        compensated=needs_compensation(work, *tensors),
        visible=not followed and tensors[0].device.type == "cpu",
    )


@dataclass(frozen=True)
class _Run:
    """One call: everything but the tensors."""

    op: RowOp
    encodings: tuple[Encoding, ...]
    options: tuple[Any, ...]
    batch: torch.Size
    result: torch.dtype
    work: torch.dtype
    compensated: bool
    visible: bool

    def whole(self, tensors: Sequence[Tensor], keep: Tensor | None) -> Tensor:
        return self.value([t.to(self.work) for t in tensors], keep).to(self.result)

    def rows(self, tensors: Sequence[Tensor], keep: Tensor | None) -> Tensor:
        out = torch.empty(self.batch, dtype=self.result, device=tensors[0].device)
        for index in blocks(self.batch, tensors[0].shape[-1], out.device):
            parts = [block_of(t, index).to(self.work) for t in tensors]
            out[index] = self.value(parts, None if keep is None else keep[index]).to(self.result)
        return out

    def value(self, parts: Sequence[Tensor], keep: Tensor | None) -> Tensor:
        """Rows of one block."""
        rows = self.op.value(*self.sides(parts, keep), *self.options)
        return rows if keep is None else torch.where(keep, rows, 0.0)

    def sides(self, parts: Sequence[Tensor], keep: Tensor | None) -> list[Side]:
        if keep is not None:
            # 1 is a valid logit and a valid weight.
            parts = [torch.where(keep.unsqueeze(-1), part, 1.0) for part in parts]
        return [read_side(t, e, self.compensated, self.visible) for t, e in zip(parts, self.encodings, strict=True)]

    def gradients(
        self, parts: Sequence[Tensor], grad: Tensor, keep: Tensor | None, needs: Sequence[bool]
    ) -> list[Tensor]:
        """Vector-Jacobian product of one block, one tensor per side that needs it, differentiable where recorded."""
        wanted = [part for part, need in zip(parts, needs, strict=True) if need]
        if self.op.gradients is None:
            recorded = torch.is_grad_enabled()
            with torch.enable_grad():
                parts = [part.requires_grad_() if need and not part.requires_grad else part
                         for part, need in zip(parts, needs, strict=True)]  # fmt: skip
                rows = self.value(parts, keep)
            return list(torch.autograd.grad(rows, wanted, grad.expand(rows.shape), create_graph=recorded))
        found = self.op.gradients(needs, *self.sides(parts, keep), *self.options)
        factor = grad if keep is None else torch.where(keep, grad, 0.0)
        return [
            (factor.unsqueeze(-1) * g).sum_to_size(part.shape)
            for g, part in zip((g for g in found if g is not None), wanted, strict=True)
        ]


class _Rows(torch.autograd.Function):
    """The values; saves the inputs and nothing else."""

    @staticmethod
    def forward(ctx: Any, run: _Run, keep: Tensor | None, *tensors: Tensor) -> Tensor:
        ctx.run = run
        ctx.save_for_backward(keep, *tensors)
        return run.rows(tensors, keep)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        keep, *tensors = ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        return (None, None, *_fill(_first_derivative(ctx.run, grad, keep, tensors, needs), needs))


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
        shared = any(need and t.shape[:-1] != batch for t, need in zip(tensors, needs, strict=True))
        if not (shared or torch.is_grad_enabled() or _followed(grad)) and is_plain(grad):
            return (None, None, None, *native.backward(grad, ctx.statistics, tensors, request, needs))
        return (None, None, None, *reference_gradients(op, request, grad, tensors, needs))


def reference_gradients(
    op: RowOp, request: Request, grad: Tensor, tensors: Sequence[Tensor], needs: Sequence[bool]
) -> list[Tensor | None]:
    """The gradients of a native call by the reference, where they are followed or recorded themselves."""
    whole, keep = _aligned(request, tensors)
    found = _fill(_first_derivative(_run_of(op, request, whole), grad, keep, whole, needs), needs)
    return [None if g is None else g.reshape(t.shape) for g, t in zip(found, tensors, strict=True)]


def _first_derivative(
    run: _Run, grad: Tensor, keep: Tensor | None, tensors: Sequence[Tensor], needs: Sequence[bool]
) -> Sequence[Tensor]:
    if _followed(grad):
        return _differentiable_gradients(run, grad, keep, tensors, needs)
    found: Sequence[Tensor] = _Gradients.apply(run, needs, keep, grad, *tensors)
    return found


class _Gradients(torch.autograd.Function):
    """The first derivative, block by block; its own backward is the second."""

    @staticmethod
    def forward(
        ctx: Any, run: _Run, needs: Sequence[bool], keep: Tensor | None, grad: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.run, ctx.needs = run, needs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(keep, grad, *tensors)
        buffers = [_Buffer(t, run) for t, need in zip(tensors, needs, strict=True) if need]
        for index in blocks(run.batch, tensors[0].shape[-1], grad.device):
            parts = [block_of(t, index).to(run.work) for t in tensors]
            rows = None if keep is None else keep[index]
            found = run.gradients([part.detach() for part in parts], grad[index].to(run.work), rows, needs)
            for buffer, g in zip(buffers, found, strict=True):
                buffer.add(index, g)
        return tuple(buffer.result() for buffer in buffers)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        run, wanted = ctx.run, ctx.needs_input_grad[3:]
        keep, grad, *tensors = ctx.saved_tensors
        arguments = [grad, *tensors]
        cotangents = [c for c in given if c is not None]
        if not cotangents:
            return (None,) * (3 + len(arguments))
        needs = [g is not None for g in _fill(given, ctx.needs)]
        if torch.is_grad_enabled() or any(map(_followed, cotangents)):
            with torch.enable_grad():
                found = _differentiable_gradients(run, grad, keep, tensors, needs)
                sources = [a for a, want in zip(arguments, wanted, strict=True) if want]
                second = torch.autograd.grad(found, sources, cotangents, create_graph=True, allow_unused=True)
            return (None, None, None, *_fill(second, wanted))
        buffers = [_Buffer(a, run, rows=a is grad) for a, want in zip(arguments, wanted, strict=True) if want]
        for index in blocks(run.batch, tensors[0].shape[-1], grad.device):
            with torch.enable_grad():
                parts = [block_of(t, index).to(run.work).detach().requires_grad_() for t in tensors]
                part_grad = grad[index].to(run.work).detach().requires_grad_()
                first = run.gradients(parts, part_grad, None if keep is None else keep[index], needs)
            seeds = [block_of(c, index).to(run.work) for c in cotangents]
            sources = [a for a, want in zip([part_grad, *parts], wanted, strict=True) if want]
            for buffer, g in zip(buffers, torch.autograd.grad(first, sources, seeds, allow_unused=True), strict=True):
                if g is not None:
                    buffer.add(index, g)
        return (None, None, None, *_fill([buffer.result() for buffer in buffers], wanted))


class _Buffer:
    """A gradient being filled; where its tensor was broadcast, blocks are added up in the working dtype."""

    def __init__(self, tensor: Tensor, run: _Run, *, rows: bool = False) -> None:
        self.shared = not rows and tensor.shape[:-1] != run.batch
        self.tensor, self.dtype = torch.zeros_like(tensor, dtype=run.work if self.shared else None), tensor.dtype

    def add(self, index: tuple[int | slice, ...], block: Tensor) -> None:
        target = block_of(self.tensor, index)
        if self.shared:
            target += block.sum_to_size(target.shape)
        else:
            target.copy_(block)

    def result(self) -> Tensor:
        return self.tensor.to(self.dtype)


def _followed(grad: Tensor) -> bool:
    return transform_active() or tracer_active() or is_batch_of_gradients(grad)


def _differentiable_gradients(
    run: _Run, grad: Tensor, keep: Tensor | None, tensors: Sequence[Tensor], needs: Sequence[bool]
) -> list[Tensor]:
    with torch.enable_grad():
        parts = [t.to(run.work) for t in tensors]
        found = replace(run, visible=False).gradients(parts, grad.to(run.work), keep, needs)
    wanted = (t for t, need in zip(tensors, needs, strict=True) if need)
    return [g.to(t.dtype) for g, t in zip(found, wanted, strict=True)]


def _fill(found: Sequence[Tensor | None], needs: Sequence[bool]) -> list[Tensor | None]:
    remaining = iter(found)
    return [next(remaining) if need else None for need in needs]
