"""The loss of hidden states and head weights, chunk by chunk, with its gradients; called by `linear_distillation`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback._core.validation import check_rows
from kullback.kernels.entropy_rows import entropy_rows
from kullback.kernels.levels import is_batch_of_gradients, tracer_active, transform_active
from kullback.kernels.sides import Encoding
from kullback.losses.head import Head, HeadGradients
from kullback.losses.token_loss import TokenLoss
from kullback.losses.token_reduction import TokenReduction
from kullback.tensors.frame import values_hidden


class Chunks(NamedTuple):
    """All tokens of a call, in chunks."""

    loss: TokenLoss
    student: Head
    teacher: Head
    keep: Tensor | None
    labels: Tensor | None
    size: int

    @property
    def parts(self) -> list[slice]:
        """The chunks."""
        return [slice(start, start + self.size) for start in range(0, self.student.hidden.shape[0], self.size)]

    @property
    def dtype(self) -> torch.dtype:
        """Of the loss."""
        return torch.promote_types(self.student.work_dtype, self.teacher.work_dtype)

    def empty_rows(self) -> Tensor:
        """Room for one number per token."""
        return torch.empty(self.student.hidden.shape[0], dtype=self.dtype, device=self.student.hidden.device)

    def rows_of(self, part: slice, student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
        """The divergence and the loss of some tokens, from their logits."""
        keep = None if self.keep is None else self.keep[part]
        rows = self.loss.divergence_rows(student, teacher, keep, _check_of(student, teacher, keep))
        if self.labels is None:
            return rows, rows
        return rows, self.loss.with_labels(rows, student, self.labels[part], keep)


class Details:
    """Divergence and entropies of every token, filled chunk by chunk."""

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = chunks
        self.rows = [torch.zeros_like(chunks.empty_rows()) for _ in range(3)]

    def fill(self, part: slice, divergence: Tensor, student: Tensor, teacher: Tensor) -> None:
        """Keep what is known of a chunk."""
        keep = None if self.chunks.keep is None else self.chunks.keep[part]
        self.rows[0][part] = divergence.to(self.chunks.dtype)
        for rows, logits in zip(self.rows[1:], (student, teacher), strict=True):
            found = entropy_rows((self.chunks.loss.scaled(logits),), (Encoding(),), keep=keep)
            rows[part] = found.to(self.chunks.dtype)


def token_losses(chunks: Chunks, log: Details | None) -> Tensor:
    """The loss of every token, without history."""
    rows = chunks.empty_rows()
    with torch.no_grad():
        for part in chunks.parts:
            student, teacher = (head.logits(head.products(part)) for head in (chunks.student, chunks.teacher))
            divergence, losses = chunks.rows_of(part, student, teacher)
            rows[part] = losses.to(rows.dtype)
            if log is not None:
                log.fill(part, divergence, student, teacher)
    return rows


class _Totals:
    """The gradients of both heads, summed over chunks."""

    def __init__(self, chunks: Chunks, needs: Sequence[bool]) -> None:
        self.chunks = chunks
        self.student = HeadGradients(chunks.student, (needs[0], needs[1], needs[2]), chunks.loss.group)
        self.teacher = HeadGradients(chunks.teacher, (needs[3], needs[4], needs[5]), chunks.loss.group)
        self.needs = any(needs[:3]), any(needs[3:])

    def add(self, part: slice, factors: Tensor, log: Details | None = None) -> Tensor:
        """Add the gradients of a chunk, each token times its factor; returns the losses of its tokens."""
        chunks = self.chunks
        heads = chunks.student, chunks.teacher
        products, wanted, logits = [], [], []
        with torch.enable_grad():
            for head, needed in zip(heads, self.needs, strict=True):
                found = head.products(part).requires_grad_(needed)
                bias = None if head.bias is None else head.bias.detach().requires_grad_(needed)
                logits.append(head.with_tensors(head.hidden, head.weight, bias).logits(found))
                products.append((found, bias))
                wanted += [t for t in (found, bias) if t is not None and needed]
            divergence, rows = chunks.rows_of(part, logits[0], logits[1])
        gradients = iter(torch.autograd.grad(rows, wanted, factors.to(rows.dtype)))
        if log is not None:
            log.fill(part, divergence.detach(), logits[0].detach(), logits[1].detach())
        del logits
        for totals, needed, (found, bias) in zip((self.student, self.teacher), self.needs, products, strict=True):
            if needed:
                totals.add(part, next(gradients).to(found.dtype), None if bias is None else next(gradients))
        return rows.detach()

    def scaled(self, factor: Tensor) -> list[Tensor | None]:
        """All gradients times a number; used up by this."""
        return [*self.student.scaled(factor), *self.teacher.scaled(factor)]


class ReducedLoss(torch.autograd.Function):
    """One number; the forward pass computes the gradients as well."""

    @staticmethod
    def forward(
        ctx: Any, chunks: Chunks, reduce: TokenReduction, batch: torch.Size, log: Details | None, *tensors: Tensor
    ) -> Tensor:
        """The loss; keeps the gradients for the backward pass."""
        rows = chunks.empty_rows()
        factors = reduce.token_factors(batch, rows).reshape(-1)
        totals = _Totals(chunks, ctx.needs_input_grad[4:])
        for part in chunks.parts:
            rows[part] = totals.add(part, factors[part], log).to(rows.dtype)
        ctx.chunks, ctx.factors, ctx.totals = chunks, factors, totals
        ctx.save_for_backward(*tensors)
        return reduce.apply(rows.reshape(batch))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients to the six tensors."""
        tensors, needs = ctx.saved_tensors, ctx.needs_input_grad[4:]
        if ctx.chunks.loss.group is not None:
            from kullback.parallel.shard_rows import replicated_gradient

            grad = replicated_gradient(grad, ctx.chunks.loss.group)
        if _followed(grad):
            found = _whole_gradients(ctx.chunks, tensors, needs, grad * ctx.factors)
        elif ctx.totals is not None:
            found, ctx.totals = ctx.totals.scaled(grad), None
        else:
            # Backward for the second time: the sums were given away, and are found again.
            found = _summed_gradients(ctx.chunks, needs, grad * ctx.factors)
        return (None, None, None, None, *found)


class TokenLosses(torch.autograd.Function):
    """One number per token; the backward pass computes the logits again."""

    @staticmethod
    def forward(ctx: Any, chunks: Chunks, log: Details | None, *tensors: Tensor) -> Tensor:
        """The loss of every token."""
        ctx.chunks = chunks
        ctx.save_for_backward(*tensors)
        return token_losses(chunks, log)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients to the six tensors."""
        tensors, needs = ctx.saved_tensors, ctx.needs_input_grad[2:]
        if _followed(grad):
            return (None, None, *_whole_gradients(ctx.chunks, tensors, needs, grad))
        return (None, None, *_summed_gradients(ctx.chunks, needs, grad))


def _followed(grad: Tensor) -> bool:
    return torch.is_grad_enabled() or transform_active() or tracer_active() or is_batch_of_gradients(grad)


def _summed_gradients(chunks: Chunks, needs: Sequence[bool], factors: Tensor) -> list[Tensor | None]:
    totals = _Totals(chunks, needs)
    for part in chunks.parts:
        totals.add(part, factors[part])
    return totals.scaled(torch.ones((), device=factors.device))


def _whole_gradients(
    chunks: Chunks, tensors: Sequence[Tensor | None], needs: Sequence[bool], factors: Tensor
) -> list[Tensor | None]:
    """The gradients in differentiable operations, from logits that exist as a whole."""
    recorded = torch.is_grad_enabled()
    with torch.enable_grad():
        whole = chunks._replace(
            student=chunks.student.with_tensors(*tensors[:3]),  # type: ignore[arg-type]
            teacher=chunks.teacher.with_tensors(*tensors[3:]),  # type: ignore[arg-type]
        )
        _, rows = whole.rows_of(slice(None), *whole_logits(whole))
    wanted = [t for t, need in zip(tensors, needs, strict=True) if need and t is not None]
    found = iter(torch.autograd.grad(rows, wanted, factors.to(rows.dtype), create_graph=recorded))
    return [next(found) if need else None for need in needs]


def whole_logits(chunks: Chunks) -> tuple[Tensor, Tensor]:
    """The logits of student and teacher for all tokens, in differentiable operations."""
    return chunks.student.whole_logits(), chunks.teacher.whole_logits()


def _check_of(student: Tensor, teacher: Tensor, keep: Tensor | None) -> Callable[[], None] | None:
    if values_hidden():
        return None

    def check() -> None:
        check_rows(student, "Logits", "the student's logits", True, keep=keep)
        check_rows(teacher, "Logits", "the teacher's logits", True, keep=keep)

    return check
