"""Arguments that the distillation losses share, and the reduction over tokens; called by every distillation loss."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback._core.reduction import check_mask, check_reduction, check_weight, reduce_rows
from kullback._core.validation import check_row_weights
from kullback.tensors.frame import values_hidden

IGNORED_LABEL = -100  # as torch.nn.functional.cross_entropy has it


class TokenReduction(NamedTuple):
    """How one value per token becomes a loss.

    Attributes:
        mask: Boolean per token; True keeps it.
        weight: A number per token.
        denominator: What the sum is divided by, instead of the number of tokens that are left.
        reduction: "mean", "sum" or "none".
    """

    mask: Tensor | None
    weight: Tensor | float | None
    denominator: Tensor | float | None
    reduction: str

    def check(self, batch: torch.Size) -> None:
        """Refuse what does not fit tokens of this batch shape."""
        check_reduction(self.reduction)
        check_mask(self.mask, batch)
        check_weight(self.weight, batch)
        if not values_hidden():
            check_row_weights(self.weight, True)
        self._check_denominator()

    def _check_denominator(self) -> None:
        denominator = self.denominator
        if denominator is None:
            return
        if self.reduction != "mean":
            raise InputValueError(
                explain_problem(
                    "A denominator replaces the number of tokens that a mean divides by.",
                    got=f"denominator={denominator!r} with reduction={self.reduction!r}",
                    expected='reduction="mean"',
                )
            )
        if isinstance(denominator, Tensor):
            if denominator.numel() != 1:
                raise ShapeError(
                    explain_problem(
                        "The denominator is one number for the whole loss.",
                        got=f"a tensor of shape {tuple(denominator.shape)}",
                        expected="a number or a tensor with one element",
                        instead="weight= for a number per token",
                    )
                )
            if values_hidden() or denominator.device.type != "cpu":
                return
        elif isinstance(denominator, bool) or not isinstance(denominator, int | float):
            raise InputTypeError(
                explain_problem(
                    "The denominator is a number.", got=type(denominator).__name__, expected="a number or a tensor"
                )
            )
        if not 0.0 < float(denominator) < math.inf:
            raise InputValueError(
                explain_problem(
                    "The denominator is the number of tokens of all micro-batches together.",
                    got=f"denominator={float(denominator)}",
                    expected="a finite number above 0",
                )
            )

    def token_factors(self, batch: torch.Size, like: Tensor) -> Tensor:
        """What each token's value is multiplied by in the reduced loss, in the dtype and on the device of `like`."""
        ones = torch.ones(batch, dtype=like.dtype, device=like.device).requires_grad_()
        with torch.enable_grad():
            total = self.apply(ones)
        (factors,) = torch.autograd.grad(total, ones)
        return factors

    def apply(self, rows: Tensor) -> Tensor:
        """The loss from one value per token."""
        if self.denominator is None:
            return reduce_rows(rows, mask=self.mask, weight=self.weight, reduction=self.reduction)
        total = reduce_rows(rows, mask=self.mask, weight=self.weight, reduction="sum")
        denominator = self.denominator
        if isinstance(denominator, Tensor):
            denominator = denominator.detach().reshape(()).to(device=rows.device, dtype=rows.dtype)
        return total / denominator


def check_temperature(temperature: object) -> float:
    """A finite number above 0, as a float."""
    if isinstance(temperature, bool) or not isinstance(temperature, int | float):
        raise InputTypeError(
            explain_problem(
                "The temperature is a Python number, the same for teacher and student.",
                got=f"a {type(temperature).__name__}",
                expected="a number above 0",
                instead="temperature=float(temperature)",
            )
        )
    if not 0.0 < temperature < math.inf:
        raise InputValueError(
            explain_problem(
                "The temperature divides the logits of both models.",
                got=f"temperature={temperature!r}",
                expected="a finite number above 0",
            )
        )
    return float(temperature)


def check_label_weight(labels: Tensor | None, label_weight: float | None) -> float:
    """The share of the cross-entropy in the loss; ½ where labels are given without one, 0 without labels."""
    if labels is None:
        if label_weight is not None:
            raise InputValueError(
                explain_problem(
                    "label_weight is the share of the cross-entropy with the labels.",
                    got=f"label_weight={label_weight!r} without labels",
                    expected="labels= of class indices",
                )
            )
        return 0.0
    if label_weight is None:
        return 0.5
    if isinstance(label_weight, bool) or not isinstance(label_weight, int | float) or not 0 <= label_weight <= 1:
        raise InputValueError(
            explain_problem(
                "The loss is (1 - label_weight) · divergence + label_weight · cross-entropy.",
                got=f"label_weight={label_weight!r}",
                expected="a number from 0 to 1",
            )
        )
    return float(label_weight)


def check_labels(labels: Tensor, batch: torch.Size) -> None:
    """Refuse labels that are not one integer per token."""
    if (
        not isinstance(labels, Tensor)
        or labels.is_floating_point()
        or labels.is_complex()
        or labels.dtype == torch.bool
    ):
        raise InputTypeError(
            explain_problem(
                "Labels are class indices.",
                got=f"a tensor of {labels.dtype}" if isinstance(labels, Tensor) else type(labels).__name__,
                expected=f"an integer tensor of shape {tuple(batch)}",
            )
        )
    if labels.shape != batch:
        raise ShapeError(
            explain_problem(
                "There is one label per token.",
                got=f"labels of shape {tuple(labels.shape)}",
                expected=f"shape {tuple(batch)}",
                instead="labels already shifted: logits[:, :-1] with labels[:, 1:] for a causal model",
            )
        )


def check_label_range(labels: Tensor, classes: int, keep: Tensor | None) -> None:
    """Refuse labels of tokens that count and are not classes; on the CPU only, and not inside transforms."""
    if values_hidden() or labels.device.type != "cpu":
        return
    wrong = ((labels < 0) & (labels != IGNORED_LABEL)) | (labels >= classes)
    wrong = wrong if keep is None else wrong & keep
    if bool(wrong.any()):
        index = tuple(wrong.nonzero()[0].tolist())
        raise InputValueError(
            explain_problem(
                "A label is not one of the classes.",
                got=f"labels[{', '.join(map(str, index))}] = {int(labels[index])}",
                expected=f"0 to {classes - 1}, or {IGNORED_LABEL} for a token without a label",
            )
        )
