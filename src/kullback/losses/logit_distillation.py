"""Distillation from two tensors of logits: the public function `distillation`."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from torch import Tensor

from kullback._core.dtypes import result_dtype
from kullback._core.reduction import Reduction
from kullback._core.shapes import batch_shape
from kullback._core.validation import check_rows
from kullback.losses.row_divergence import DivergenceName
from kullback.losses.token_loss import token_rows
from kullback.losses.token_settings import TokenSettings, check_logits, token_settings
from kullback.losses.vocabularies import aligned_logits
from kullback.parallel.local_parts import local_classes
from kullback.parallel.peers import checked_together
from kullback.tensors.frame import values_hidden


class _Arguments(NamedTuple):
    student: Tensor
    teacher: Tensor
    settings: TokenSettings

    @property
    def description(self) -> str:
        return self.settings.description


def distillation(
    student_logits: Tensor,
    teacher_logits: Tensor,
    *,
    divergence: DivergenceName = "forward",
    temperature: float = 1.0,
    t_squared: bool = False,
    beta: float | None = None,
    alpha: float | None = None,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    denominator: Tensor | float | None = None,
    reduction: Reduction = "mean",
    labels: Tensor | None = None,
    label_weight: float | None = None,
    align: Literal["truncate"] | None = None,
    teacher_gradient: bool = False,
    group: Any = None,
) -> Tensor:
    """The divergence between a teacher's and a student's next-token distributions, a training loss for the student.

    With p = softmax(teacher / T), q = softmax(student / T) and λ = `label_weight`, the loss of one token is

        (1-λ) c D(p, q) + λ CE(softmax(student), label),    c = T² with `t_squared`, else 1.

    It is never negative or NaN, and keeps its digits and its gradient's where the two models nearly agree.

    Args:
        student_logits: Shape (..., vocabulary), any floating dtype; half precision is computed in float32 or better.
        teacher_logits: The same shape.
        divergence: `"forward"` is KL(p ‖ q), `"reverse"` KL(q ‖ p), `"js"` the Jensen-Shannon divergence,
            `"scaled_js"` the one of `beta` that is continuous from forward (0) to reverse (1), `"gkd"` that of GKD and
            TRL, which is β(1-β) times as large and jumps at both ends, `"skew"` KL(p ‖ αp + (1-α)q), `"skew_reverse"`
            KL(q ‖ αq + (1-α)p), `"tv"` the total variation, `"alpha"` Amari's (Σ p^α q^(1-α) - 1) / (α(α-1)).
        temperature: Divides the logits of both models; not those of the cross-entropy.
        t_squared: Multiply the divergence by T², so that its gradient keeps its size beside the cross-entropy.
        beta: Of `"scaled_js"` and `"gkd"`, 0.5 unless given: the weight of the teacher in the mixture.
        alpha: Of `"skew"` and `"skew_reverse"` (0.1 unless given) and of `"alpha"` (0.5).
        mask: Boolean per token: True keeps it. A token that is left out gives 0 and zero gradient whatever it holds.
        weight: A number per token that multiplies it.
        denominator: What the sum is divided by instead of the number of tokens that are left: the count over all
            micro-batches and ranks makes gradient accumulation exact.
        reduction: `"mean"` over the tokens that are left (weighted), `"sum"`, or `"none"` for one value per token.
        labels: Class indices per token, -100 for none. Without `mask`, tokens labelled -100 are left out altogether;
            with it they only lack the cross-entropy.
        label_weight: λ, 0.5 unless given; only with `labels`.
        align: `"truncate"` compares the classes that both vocabularies have, from the first on, and normalises both
            sides on them; warns where a model has more than 1 % of its probability on the others. None refuses
            vocabularies of different sizes.
        teacher_gradient: Whether a gradient goes to the teacher; it is detached otherwise.
        group: A `torch.distributed` group whose ranks hold the vocabulary in shards: the logits are then those of this
            rank's classes, the labels those of the whole vocabulary, and the loss is the same on every rank.
            `DTensor` logits that are sharded over their classes bring their group along. Not with `align`.

    Returns:
        float64 where an input is float64, else float32.

    Raises:
        InputTypeError: Arguments of the wrong kind.
        InputValueError: Unknown divergence, parameters out of range, logits that are NaN, +inf or -inf throughout.
        ShapeError: Vocabularies, batch shapes, masks or labels that do not fit.

    Example:
        >>> import torch
        >>> from kullback.losses import distillation
        >>> student = torch.tensor([[[1.0, 2.0, 0.5], [0.0, 0.0, 0.0]]], requires_grad=True)
        >>> teacher = torch.tensor([[[1.0, 2.5, 0.0], [9.0, 9.0, 9.0]]])
        >>> loss = distillation(student, teacher, mask=torch.tensor([[True, False]]), temperature=2.0, t_squared=True)
        >>> loss
        tensor(0.0743, grad_fn=<WhereBackward0>)
        >>> loss.backward()
        >>> student.grad[0, 1]
        tensor([0., 0., 0.])
    """
    student, group = local_classes(student_logits, -1, group)
    teacher, group = local_classes(teacher_logits, -1, group)

    def read() -> _Arguments:
        check_logits("student_logits", student, group)
        check_logits("teacher_logits", teacher, group)
        pair = aligned_logits(student, teacher if teacher_gradient else teacher.detach(), align, group)
        settings = token_settings(
            batch_shape(*pair),
            divergence=divergence,
            temperature=temperature,
            t_squared=t_squared,
            beta=beta,
            alpha=alpha,
            mask=mask,
            weight=weight,
            denominator=denominator,
            reduction=reduction,
            labels=labels,
            label_weight=label_weight,
            group=group,
        )
        return _Arguments(*pair, settings)

    student, teacher, settings = (
        read() if group is None else checked_together(read, group, getattr(student, "device", None))
    )
    settings.check_label_range(student.shape[-1], student.device)
    keep = settings.keep
    if group is not None:
        rows = settings.loss.rows(student, teacher, keep, settings.labels)
        return settings.reduce.apply(rows.to(result_dtype(student, teacher)))

    def check() -> None:
        check_rows(student, "Logits", "student_logits", True, keep=keep)
        check_rows(teacher, "Logits", "teacher_logits", True, keep=keep)

    rows = token_rows(settings.loss, student, teacher, keep, settings.labels, check=None if values_hidden() else check)
    return settings.reduce.apply(rows)
