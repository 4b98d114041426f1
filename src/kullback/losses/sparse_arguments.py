"""Arguments of `topk_distillation`: what is refused, and why."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback.losses.token_settings import check_logits
from kullback.tensors.frame import values_hidden

Tail = Literal["bucket", "renormalize", "drop", "sampled"]
_SUM_TOLERANCE = 1e-2  # log-probabilities stored in half precision sum to 1 within this


def check_tail(tail: object, divergence: object, group: object) -> None:
    """Refuse an unknown tail, or one that the divergence does not have."""
    if tail not in get_args(Tail):
        raise InputValueError(
            explain_problem(
                "Unknown tail.", got=f"tail={tail!r}", expected=", ".join(repr(known) for known in get_args(Tail))
            )
        )
    if tail == "sampled" and group is not None:
        raise InputValueError(
            explain_problem(
                "Samples of a teacher are not scored on a sharded vocabulary.",
                got='tail="sampled" together with group=',
                expected="group=None",
                instead='topk_teacher and tail="bucket"',
            )
        )
    allowed = {"drop": ("forward", "reverse"), "sampled": ("forward",)}.get(str(tail))
    if allowed is not None and divergence not in allowed:
        raise InputValueError(
            explain_problem(
                f"tail={tail!r} is defined for some divergences only.",
                got=f"divergence={divergence!r}",
                expected=" or ".join(map(repr, allowed)),
                instead='tail="bucket" for every divergence',
            )
        )


def check_sparse(
    student: Any,
    log_probs: Any,
    ids: Any,
    log_tail: Any,
    *,
    repeats: bool,
    group: Any = None,
    mask: Tensor | None = None,
) -> torch.Size:
    """The batch shape of a student and a sparse teacher; refuses what does not fit together."""
    check_logits("student_logits", student, group)
    check_logits("teacher_log_probs", log_probs)
    if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.dtype == torch.bool:
        raise InputTypeError(
            explain_problem(
                "teacher_ids are class indices.",
                got=f"a tensor of {ids.dtype}" if isinstance(ids, Tensor) else type(ids).__name__,
                expected="an integer tensor of the shape of teacher_log_probs",
                instead="topk_distillation(student_logits, teacher_log_probs, teacher_ids), in this order",
            )
        )
    batch = student.shape[:-1]
    if ids.shape != log_probs.shape or ids.shape[:-1] != batch:
        raise ShapeError(
            explain_problem(
                "Student and teacher do not have the same tokens.",
                got=f"student_logits {tuple(student.shape)}, teacher_log_probs {tuple(log_probs.shape)}, "
                f"teacher_ids {tuple(ids.shape)}",
                expected="(..., vocabulary), (..., k) and (..., k)",
            )
        )
    if log_tail is not None and (not isinstance(log_tail, Tensor) or log_tail.shape != batch):
        raise ShapeError(
            explain_problem(
                "log_tail has one number per token.",
                got=f"shape {tuple(log_tail.shape)}" if isinstance(log_tail, Tensor) else type(log_tail).__name__,
                expected=f"a tensor of shape {tuple(batch)}",
            )
        )
    if not values_hidden() and ids.device.type == "cpu" and ids.numel() > 0 and not repeats:
        _check_sum(log_probs.detach(), mask)
    return torch.Size(batch)


def check_ids(ids: Tensor, classes: int, keep: Tensor | None, *, repeats: bool) -> None:
    """Refuse ids that are not classes, or stand twice in a token that counts; on the CPU only."""
    if values_hidden() or ids.device.type != "cpu" or ids.numel() == 0:
        return
    if keep is not None:
        ids = torch.where(keep.unsqueeze(-1), ids, -1)
    wrong = (ids < -1) | (ids >= classes)
    if bool(wrong.any()):
        index = tuple(wrong.nonzero()[0].tolist())
        raise InputValueError(
            explain_problem(
                "A teacher id is not one of the student's classes.",
                got=f"teacher_ids[{', '.join(map(str, index))}] = {int(ids[index])}",
                expected=f"0 to {classes - 1}, or -1 for an empty slot",
            )
        )
    ordered = ids.sort(-1).values
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)
    if not repeats and bool(twice.any()):
        index = tuple(twice.nonzero()[0].tolist())
        raise InputValueError(
            explain_problem(
                "A class stands twice in one token.",
                got=f"id {int(ordered[..., 1:][index])} in token {index[:-1]}",
                expected="k different classes",
                instead='tail="sampled" for draws with repetition',
            )
        )


def _check_sum(log_probs: Tensor, mask: Tensor | None) -> None:
    total = torch.logsumexp(log_probs.double(), -1)
    wrong = (total > _SUM_TOLERANCE) | total.isnan()
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        wrong = wrong & mask
    if bool(wrong.any()):
        index = tuple(wrong.nonzero()[0].tolist())
        raise InputValueError(
            explain_problem(
                "The teacher's k classes have more than the whole probability.",
                got=f"a sum of {float(total[index].exp()):.6g} in token {index}",
                expected="log-probabilities in the whole vocabulary",
                instead="topk_teacher(teacher_logits, k), or teacher_logits.log_softmax(-1) before topk",
            )
        )
