"""One loss value per token from two rows of logits: divergence at a temperature, mixed with cross-entropy.

Called by `distillation` with the logits of all tokens and by `linear_distillation` with those of one chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback._core.dtypes import result_dtype
from kullback._core.shapes import batch_shape
from kullback.kernels.device_choice import route_of
from kullback.kernels.levels import is_batch_of_gradients, tracer_active, transform_active
from kullback.losses.row_divergence import RowDivergence
from kullback.losses.token_reduction import IGNORED_LABEL

_CHUNK_ELEMENTS = {"cpu": 1 << 21}  # logits of one side that are scaled at a time
_ACCELERATOR_CHUNK_ELEMENTS = 1 << 26


class TokenLoss(NamedTuple):
    """The loss of a token: (1-λ) c D(p_T, q_T) + λ CE, with c = T² if `t_squared` and else 1.

    Attributes:
        divergence: D.
        temperature: T, which divides the logits of both sides in D and not in CE.
        t_squared: Whether D is multiplied by T².
        label_weight: λ.
        group: The ranks that hold the vocabulary in shards; None where this process has all of it.
    """

    divergence: RowDivergence
    temperature: float
    t_squared: bool
    label_weight: float
    group: Any = None

    @property
    def plain(self) -> bool:
        """Whether a kernel gives the loss from the logits as they are."""
        return self.temperature == 1.0 and self.label_weight == 0.0

    def rows(
        self,
        student: Tensor,
        teacher: Tensor,
        keep: Tensor | None,
        labels: Tensor | None,
        check: Callable[[], None] | None = None,
    ) -> Tensor:
        """One value per row, in differentiable operations."""
        rows = self.divergence_rows(student, teacher, keep, check)
        return rows if labels is None else self.with_labels(rows, student, labels, keep)

    def divergence_rows(
        self, student: Tensor, teacher: Tensor, keep: Tensor | None, check: Callable[[], None] | None = None
    ) -> Tensor:
        """The divergence of every row at the temperature, times T² if that is asked for."""
        if self.scales_in_kernel(student, teacher):
            rows = self.divergence.rows(student, teacher, keep, check, scale=1.0 / self.temperature)
            return rows * self.temperature**2 if self.t_squared else rows
        sides = self.scaled(student), self.scaled(teacher)
        if self.group is None:
            rows = self.divergence.rows(*sides, keep, check)
        else:
            rows = self.divergence.shard_rows(*sides, keep, self.group)
        return rows * self.temperature**2 if self.t_squared and self.temperature != 1.0 else rows

    def with_labels(self, rows: Tensor, student: Tensor, labels: Tensor, keep: Tensor | None) -> Tensor:
        """The loss of every row from its divergence."""
        return self.mix(rows, label_rows(student, labels, keep, self.group))

    def mix(self, divergence: Tensor, cross_entropy: Tensor) -> Tensor:
        """The weighted sum of the two terms; a term of weight zero is left out even where it is infinite."""
        if self.label_weight == 0.0:
            return divergence
        if self.label_weight == 1.0:
            return cross_entropy.to(divergence.dtype)
        return (1.0 - self.label_weight) * divergence + self.label_weight * cross_entropy

    def scales_in_kernel(self, *logits: Tensor) -> bool:
        """Whether the kernel multiplies by 1/T as it reads: those on a GPU do, and keep what rounding takes."""
        return (
            self.temperature != 1.0
            and self.group is None
            and all(route_of(side.device) == "triton" and side.dtype != torch.float64 for side in logits)
        )

    def scaled(self, logits: Tensor) -> Tensor:
        """Logits divided by the temperature, in a dtype in which the division does not cost digits of the result.

        Division by a power of two is exact. By any other number it rounds each logit at its own size, which is large
        beside the difference of two models that nearly agree: float32 logits are therefore divided in float64. Half
        precision differs by steps of its own, beside which the rounding of float32 is small.
        """
        if self.temperature == 1.0:
            return logits
        half = logits.dtype in (torch.float16, torch.bfloat16)
        exact = math.frexp(self.temperature)[0] == 0.5
        work = logits.float() if half else logits if exact or logits.device.type == "mps" else logits.double()
        return work / self.temperature


def label_rows(student: Tensor, labels: Tensor, keep: Tensor | None, group: Any = None) -> Tensor:
    """Cross-entropy with class indices per row; 0 where the label is -100 or the row is not kept."""
    if keep is not None:
        student = torch.where(keep.unsqueeze(-1), student, 0.0)
        labels = torch.where(keep, labels, IGNORED_LABEL)
    work = student if student.dtype == torch.float64 else student.float()
    if group is not None:
        from kullback.parallel.shard_classes import shard_label_rows

        return torch.where(labels == IGNORED_LABEL, 0.0, shard_label_rows(work, labels, group).to(work.dtype))
    log_probs = torch.log_softmax(work, -1)
    picked = log_probs.gather(-1, labels.long().clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return torch.where(labels == IGNORED_LABEL, 0.0, -picked)


def token_rows(
    loss: TokenLoss,
    student: Tensor,
    teacher: Tensor,
    keep: Tensor | None,
    labels: Tensor | None,
    *,
    check: Callable[[], None] | None = None,
) -> Tensor:
    """One value per token, of logits that exist as a whole; temporaries are those of a chunk of tokens."""
    if loss.plain or (loss.label_weight == 0.0 and loss.scales_in_kernel(student, teacher)):
        return loss.rows(student, teacher, keep, None, check)
    if torch.compiler.is_compiling() or transform_active() or tracer_active():
        return loss.rows(student, teacher, keep, labels).to(result_dtype(student, teacher))
    if check is not None:
        check()
    batch = batch_shape(student, teacher)
    flat = [t.expand(*batch, t.shape[-1]).reshape(-1, t.shape[-1]) for t in (student, teacher)]
    keep = None if keep is None else keep.expand(batch).reshape(-1)
    rows: Tensor = _ChunkedRows.apply(loss, keep, None if labels is None else labels.reshape(-1), *flat)
    return rows.reshape(batch)


class _ChunkedRows(torch.autograd.Function):
    """Saves the logits and nothing else; the backward pass computes each chunk again."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd hands over by position
        ctx: Any, loss: TokenLoss, keep: Tensor | None, labels: Tensor | None, student: Tensor, teacher: Tensor
    ) -> Tensor:
        ctx.loss = loss
        ctx.save_for_backward(keep, labels, student, teacher)
        rows = torch.empty(student.shape[0], dtype=result_dtype(student, teacher), device=student.device)
        for part in _parts(student):
            rows[part] = loss.rows(student[part], teacher[part], _at(keep, part), _at(labels, part)).to(rows.dtype)
        return rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        loss: TokenLoss = ctx.loss
        keep, labels, student, teacher = ctx.saved_tensors
        needs = ctx.needs_input_grad[3:]
        if torch.is_grad_enabled() or transform_active() or tracer_active() or is_batch_of_gradients(grad):
            with torch.enable_grad():
                rows = loss.rows(student, teacher, keep, labels)
            wanted = [t for t, need in zip((student, teacher), needs, strict=True) if need]
            create = torch.is_grad_enabled()
            whole = iter(torch.autograd.grad(rows, wanted, grad.to(rows.dtype), create_graph=create))
            return (None, None, None, *(next(whole) if need else None for need in needs))
        found = [torch.empty_like(t) if need else None for t, need in zip((student, teacher), needs, strict=True)]
        for part in _parts(student):
            sides = [t[part].detach().requires_grad_(need) for t, need in zip((student, teacher), needs, strict=True)]
            with torch.enable_grad():
                rows = loss.rows(sides[0], sides[1], _at(keep, part), _at(labels, part))
            wanted = [side for side, need in zip(sides, needs, strict=True) if need]
            gradients = iter(torch.autograd.grad(rows, wanted, grad[part].to(rows.dtype)))
            for out in found:
                if out is not None:
                    out[part] = next(gradients)
        return (None, None, None, *found)


def _parts(logits: Tensor) -> list[slice]:
    limit = _CHUNK_ELEMENTS.get(logits.device.type, _ACCELERATOR_CHUNK_ELEMENTS)
    step = max(1, limit // logits.shape[-1])
    return [slice(start, start + step) for start in range(0, logits.shape[0], step)]


def _at(tensor: Tensor | None, part: slice) -> Tensor | None:
    return None if tensor is None else tensor[part]
