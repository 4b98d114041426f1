"""Distillation from two tensors of logits: the public function `distillation`."""

from __future__ import annotations

from typing import Any, Literal, NoReturn

import torch
from torch import Tensor

from kullback._core.dtypes import result_dtype
from kullback._core.errors import InputTypeError, InputValueError, KullbackWarning, ShapeError, explain_problem
from kullback._core.reduction import Reduction
from kullback._core.shapes import batch_shape
from kullback._core.validation import check_rows
from kullback.losses.row_divergence import DivergenceName, choose_divergence
from kullback.losses.token_loss import TokenLoss, token_rows
from kullback.losses.token_reduction import (
    IGNORED_LABEL,
    TokenReduction,
    check_label_weight,
    check_labels,
    check_temperature,
)
from kullback.tensors.frame import values_hidden

_WARN_MASS = 0.01  # of probability among truncated classes, on average over tokens


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
            Not with `align`.

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
    check_logits("student_logits", student_logits)
    check_logits("teacher_logits", teacher_logits)
    loss = TokenLoss(
        choose_divergence(divergence, beta, alpha),
        check_temperature(temperature),
        t_squared,
        check_label_weight(labels, label_weight),
        group,
    )
    teacher = teacher_logits if teacher_gradient else teacher_logits.detach()
    student, teacher = _aligned(student_logits, teacher, align)
    batch = batch_shape(student, teacher)
    if labels is not None:
        check_labels(labels, batch, whole_vocabulary(student, group))
        mask = labels != IGNORED_LABEL if mask is None else mask
    reduce = TokenReduction(mask, weight, denominator, reduction)
    reduce.check(batch)
    keep = None if mask is None else mask.expand(batch)
    if group is not None:
        refuse_align(align)
        return reduce.apply(loss.rows(student, teacher, keep, labels).to(result_dtype(student, teacher)))

    def check() -> None:
        check_rows(student, "Logits", "student_logits", True, keep=keep)
        check_rows(teacher, "Logits", "teacher_logits", True, keep=keep)

    rows = token_rows(loss, student, teacher, keep, labels, check=None if values_hidden() else check)
    return reduce.apply(rows)


def check_logits(name: str, logits: Any) -> None:
    """Refuse what is not a tensor of real numbers with classes last."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        raise InputTypeError(
            explain_problem(
                f"{name} are the raw outputs of a model.",
                got=f"a tensor of {logits.dtype}" if isinstance(logits, Tensor) else type(logits).__name__,
                expected="a torch.Tensor of floating dtype, classes last",
                instead="distillation(student(x).logits, teacher(x).logits) for models of transformers",
            )
        )
    if logits.dim() == 0 or logits.shape[-1] == 0:
        raise ShapeError(
            explain_problem(
                f"{name} has no classes.", got=f"shape {tuple(logits.shape)}", expected="shape (..., vocabulary)"
            )
        )


def whole_vocabulary(classes_last: Tensor, group: Any) -> int:
    """The number of classes, of all ranks where there is a group."""
    if group is None:
        return classes_last.shape[-1]
    from kullback.parallel.shard_classes import vocabulary_size

    return vocabulary_size(classes_last, group)


def refuse_align(align: object) -> None:
    """Refuse to align vocabularies of which each rank has a shard."""
    if align is not None:
        raise InputValueError(
            explain_problem(
                "Sharded vocabularies are not aligned.",
                got="align= together with group=",
                expected="align=None",
                instead="cut the last classes off before the vocabulary is sharded",
            )
        )


def check_align(align: object) -> None:
    """Refuse a way to align vocabularies that does not exist."""
    if align not in (None, "truncate"):
        raise InputValueError(
            explain_problem(
                "Unknown way to align vocabularies.",
                got=f"align={align!r}",
                expected='None or "truncate"',
                instead='kullback.align(Logits(student), Logits(teacher), how="pad") gives missing classes '
                "probability zero, which makes the forward divergence infinite",
            )
        )


def refuse_sizes(student: int, teacher: int) -> NoReturn:
    """Refuse vocabularies of different sizes, and name the fix."""
    raise ShapeError(
        explain_problem(
            "The vocabularies have different sizes. If one of them is padded for the hardware, the extra entries "
            "mean nothing and can be dropped.",
            got=f"{student} classes of the student, {teacher} of the teacher",
            expected="the same classes in the same order",
            instead='align="truncate" if they differ only by padded rows; two tokenizers need a mapping first',
        )
    )


def _aligned(student: Tensor, teacher: Tensor, align: object) -> tuple[Tensor, Tensor]:
    check_align(align)
    sizes = student.shape[-1], teacher.shape[-1]
    if sizes[0] == sizes[1]:
        return student, teacher
    if align is None:
        refuse_sizes(*sizes)
    shared = min(sizes)
    for name, logits in (("student", student), ("teacher", teacher)):
        if logits.shape[-1] > shared:
            _warn_about_mass(name, logits.detach(), shared)
    return student[..., :shared], teacher[..., :shared]


def _warn_about_mass(name: str, logits: Tensor, shared: int) -> None:
    if values_hidden() or logits.device.type != "cpu" or logits.numel() == 0:
        return
    kept = torch.logsumexp(logits[..., :shared].float(), -1)
    dropped = torch.logsumexp(logits[..., shared:].float(), -1)
    mass = float(torch.sigmoid(dropped - kept).nan_to_num(0.0).mean())
    if mass > _WARN_MASS:
        import warnings

        warnings.warn(
            explain_problem(
                f"Truncation drops classes that the {name} uses: the vocabularies do not differ by padding alone.",
                got=f"{mass:.1%} of the {name}'s probability, on average, in classes {shared} to "
                f"{logits.shape[-1] - 1}",
                expected="padded entries, whose probability is next to 0",
                instead="one tokenizer for both models, or a mapping between the two",
            ),
            KullbackWarning,
            stacklevel=4,
        )
