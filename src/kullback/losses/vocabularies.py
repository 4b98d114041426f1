"""Vocabularies of different sizes, one of them padded: refused, or truncated; called by the distillation losses."""

from __future__ import annotations

import warnings
from typing import NoReturn

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, KullbackWarning, ShapeError, explain_problem
from kullback.tensors.frame import values_hidden

_WARN_MASS = 0.01  # of probability among truncated classes, on average over tokens


def shared_classes(student: int, teacher: int, align: object, group: object) -> int:
    """How many classes are compared; refuses vocabularies of different sizes unless they are to be truncated."""
    if align not in (None, "truncate"):
        _refuse_unknown(align)
    if align is not None and group is not None:
        _refuse_shards()
    if student != teacher and align is None:
        _refuse_sizes(student, teacher)
    return min(student, teacher)


def aligned_logits(student: Tensor, teacher: Tensor, align: object, group: object) -> tuple[Tensor, Tensor]:
    """The logits of the classes that both vocabularies have; warns where a model uses the others."""
    shared = shared_classes(student.shape[-1], teacher.shape[-1], align, group)
    if student.shape[-1] == teacher.shape[-1]:
        return student, teacher
    for name, logits in (("student", student), ("teacher", teacher)):
        if logits.shape[-1] > shared:
            warn_about_mass(name, logits.detach(), shared)
    return student[..., :shared], teacher[..., :shared]


def warn_about_mass(name: str, logits: Tensor, shared: int) -> None:
    """Warn where the classes that are dropped have more than 1 % of a model's probability."""
    if values_hidden() or logits.device.type != "cpu" or logits.numel() == 0:
        return
    kept = torch.logsumexp(logits[..., :shared].float(), -1)
    dropped = torch.logsumexp(logits[..., shared:].float(), -1)
    mass = float(torch.sigmoid(dropped - kept).nan_to_num(0.0).mean())
    if mass > _WARN_MASS:
        warnings.warn(
            explain_problem(
                f"Truncation drops classes that the {name} uses: the vocabularies do not differ by padding alone.",
                got=f"{mass:.1%} of the {name}'s probability, on average, in classes {shared} to "
                f"{logits.shape[-1] - 1}",
                expected="padded entries, whose probability is next to 0",
                instead="one tokenizer for both models, or a mapping between the two",
            ),
            KullbackWarning,
            stacklevel=5,
        )


def _refuse_shards() -> NoReturn:
    raise InputValueError(
        explain_problem(
            "Sharded vocabularies are not aligned.",
            got="align= together with group=",
            expected="align=None",
            instead="cut the last classes off before the vocabulary is sharded",
        )
    )


def _refuse_unknown(align: object) -> NoReturn:
    raise InputValueError(
        explain_problem(
            "Unknown way to align vocabularies.",
            got=f"align={align!r}",
            expected='None or "truncate"',
            instead='kullback.align(Logits(student), Logits(teacher), how="pad") gives missing classes '
            "probability zero, which makes the forward divergence infinite",
        )
    )


def _refuse_sizes(student: int, teacher: int) -> NoReturn:
    raise ShapeError(
        explain_problem(
            "The vocabularies have different sizes. If one of them is padded for the hardware, the extra entries "
            "mean nothing and can be dropped.",
            got=f"{student} classes of the student, {teacher} of the teacher",
            expected="the same classes in the same order",
            instead='align="truncate" if they differ only by padded rows; two tokenizers need a mapping first',
        )
    )
