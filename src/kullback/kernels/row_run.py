"""The reference of a function of rows at work: whole, or block by block with recomputation, to any derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from kullback._core.dtypes import needs_compensation, result_dtype
from kullback._core.shapes import block_of, blocks
from kullback.kernels.device_choice import rows_work_dtype
from kullback.kernels.levels import is_batch_of_gradients, tracer_active, transform_active
from kullback.kernels.native_rows import Request
from kullback.kernels.sides import Encoding, Side, read_side

Value = Callable[..., Tensor]
Gradients = Callable[..., Sequence[Tensor | None]]


class Formula(Protocol):
    """What a `RowOp` says of its reference."""

    @property
    def value(self) -> Value:
        """`(*sides, *options) -> rows`."""

    @property
    def gradients(self) -> Gradients | None:
        """`(needs, *sides, *options) -> one tensor or None per side`; without it the value is differentiated."""


def aligned(request: Request, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Tensor | None]:
    """Every batch dimension written out, of size 1 where it broadcasts."""
    whole = [t[(None,) * (len(request.batch) + 1 - t.dim())] for t in tensors]
    return whole, None if request.keep is None else request.keep.expand(request.batch)


def run_of(op: Formula, request: Request, tensors: Sequence[Tensor], *, followed: bool = False) -> Run:
    """How a formula is computed for such tensors; `followed`: by somebody who may not be shown values."""
    work = rows_work_dtype(tensors[0].device, *tensors)
    return Run(
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
class Run:
    """One call: everything but the tensors."""

    op: Formula
    encodings: tuple[Encoding, ...]
    options: tuple[Any, ...]
    batch: torch.Size
    result: torch.dtype
    work: torch.dtype
    compensated: bool
    visible: bool

    def whole(self, tensors: Sequence[Tensor], keep: Tensor | None) -> Tensor:
        """All rows at once, in plain differentiable operations."""
        return self.value([t.to(self.work) for t in tensors], keep).to(self.result)

    def rows(self, tensors: Sequence[Tensor], keep: Tensor | None) -> Tensor:
        """Block by block, without history."""
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
        """What the rows of one block say."""
        if keep is not None:
            # 1 is a valid logit and a valid weight.
            parts = [torch.where(keep.unsqueeze(-1), part, 1.0) for part in parts]
        return [read_side(t, e, self.compensated, self.visible) for t, e in zip(parts, self.encodings, strict=True)]

    def formula_gradients(
        self, needs: Sequence[bool], parts: Sequence[Tensor], keep: Tensor | None
    ) -> list[Tensor | None]:
        """The derivatives of one block that the formula gives, with respect to the tensors' numbers."""
        assert self.op.gradients is not None
        found = self.op.gradients(needs, *self.sides(parts, keep), *self.options)
        return [
            g if g is None or encoding.scale == 1.0 else g * encoding.scale
            for g, encoding in zip(found, self.encodings, strict=True)
        ]

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
        found = self.formula_gradients(needs, parts, keep)
        factor = grad if keep is None else torch.where(keep, grad, 0.0)
        return [
            (factor.unsqueeze(-1) * g).sum_to_size(part.shape)
            for g, part in zip((g for g in found if g is not None), wanted, strict=True)
        ]


def recorded_rows(run: Run, keep: Tensor | None, tensors: Sequence[Tensor]) -> Tensor:
    """Block by block, and so are their derivatives."""
    rows: Tensor = _RecordedRows.apply(run, keep, *tensors)
    return rows


class _RecordedRows(torch.autograd.Function):
    """The values; saves the inputs and nothing else."""

    @staticmethod
    def forward(ctx: Any, run: Run, keep: Tensor | None, *tensors: Tensor) -> Tensor:
        ctx.run = run
        ctx.save_for_backward(keep, *tensors)
        return run.rows(tensors, keep)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        keep, *tensors = ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        return (None, None, *_fill(_first_derivative(ctx.run, grad, keep, tensors, needs), needs))


def followed_rows(run: Run, keep: Tensor | None, tensors: Sequence[Tensor]) -> Tensor:
    """All rows at once under vmap, grad, jvp: their derivative is the formula for it, which is followed in turn."""
    rows: Tensor = _FollowedRows.apply(run, keep, *tensors)
    return rows


class _FollowedRows(torch.autograd.Function):
    """Differentiating the values operation by operation would lose the digits that the formula keeps."""

    generate_vmap_rule = True

    @staticmethod
    def forward(run: Run, keep: Tensor | None, *tensors: Tensor) -> Tensor:
        return run.whole(tensors, keep)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        ctx.run, *arguments = inputs
        ctx.save_for_backward(*arguments)
        ctx.save_for_forward(*arguments)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        keep, *tensors = ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        return (None, None, *_fill(_differentiable_gradients(ctx.run, grad, keep, tensors, needs), needs))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        keep, *tensors = ctx.saved_tensors
        given = tangents[2:]
        run = replace(ctx.run, visible=False)
        parts = [t.to(run.work) for t in tensors]
        found = run.formula_gradients(tuple(t is not None for t in given), parts, keep)
        rows = sum((g * t.to(run.work)).sum(-1) for g, t in zip(found, given, strict=True) if t is not None)
        return (rows if keep is None else torch.where(keep, rows, 0.0)).to(run.result)


def reference_gradients(
    op: Formula, request: Request, grad: Tensor, tensors: Sequence[Tensor], needs: Sequence[bool]
) -> list[Tensor | None]:
    """The gradients of a native call by the reference, where they are followed or recorded themselves."""
    # A view made without recording would not lead back to its tensor.
    with torch.enable_grad():
        whole, keep = aligned(request, tensors)
    found = _fill(_first_derivative(run_of(op, request, whole), grad, keep, whole, needs), needs)
    return [None if g is None else g.reshape(t.shape) for g, t in zip(found, tensors, strict=True)]


def _first_derivative(
    run: Run, grad: Tensor, keep: Tensor | None, tensors: Sequence[Tensor], needs: Sequence[bool]
) -> Sequence[Tensor]:
    if gradient_followed(grad):
        return _differentiable_gradients(run, grad, keep, tensors, needs)
    found: Sequence[Tensor] = _Gradients.apply(run, needs, keep, grad, *tensors)
    return found


class _Gradients(torch.autograd.Function):
    """The first derivative, block by block; its own backward is the second."""

    @staticmethod
    def forward(
        ctx: Any, run: Run, needs: Sequence[bool], keep: Tensor | None, grad: Tensor, *tensors: Tensor
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
        if torch.is_grad_enabled() or any(map(gradient_followed, cotangents)):
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

    def __init__(self, tensor: Tensor, run: Run, *, rows: bool = False) -> None:
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


def gradient_followed(grad: Tensor) -> bool:
    """Whether a backward pass is itself followed."""
    return transform_active() or tracer_active() or is_batch_of_gradients(grad)


def _differentiable_gradients(
    run: Run, grad: Tensor, keep: Tensor | None, tensors: Sequence[Tensor], needs: Sequence[bool]
) -> list[Tensor]:
    with torch.enable_grad():
        parts = [t.to(run.work) for t in tensors]
        found = replace(run, visible=False).gradients(parts, grad.to(run.work), keep, needs)
    wanted = (t for t, need in zip(tensors, needs, strict=True) if need)
    return [g.to(t.dtype) for g, t in zip(found, wanted, strict=True)]


def _fill(found: Sequence[Tensor | None], needs: Sequence[bool]) -> list[Tensor | None]:
    remaining = iter(found)
    return [next(remaining) if need else None for need in needs]
