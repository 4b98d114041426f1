"""`DistillationLoss`: `distillation` as a module, with its settings given once."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from kullback._core.reduction import Reduction, check_reduction
from kullback.losses.logit_distillation import distillation
from kullback.losses.row_divergence import DivergenceName, choose_divergence
from kullback.losses.token_reduction import check_temperature


class DistillationLoss(nn.Module):
    """`distillation` as a module: settings when it is made, tensors when it is called.

    Args:
        divergence: As for `distillation`, and so are the others.
        temperature: Divides the logits of both models.
        t_squared: Multiply the divergence by T².
        beta: Of `"scaled_js"` and `"gkd"`.
        alpha: Of `"skew"`, `"skew_reverse"` and `"alpha"`.
        reduction: `"mean"`, `"sum"` or `"none"`.
        label_weight: The share of the cross-entropy where labels are given.
        align: `"truncate"` for vocabularies that differ by padding.
        teacher_gradient: Whether a gradient goes to the teacher.

    Example:
        >>> import torch
        >>> from kullback.losses import DistillationLoss
        >>> loss = DistillationLoss("reverse", temperature=2.0)
        >>> loss
        DistillationLoss(divergence='reverse', temperature=2.0, reduction='mean')
        >>> loss(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.0]]))
        tensor(0.)
    """

    def __init__(
        self,
        divergence: DivergenceName = "forward",
        *,
        temperature: float = 1.0,
        t_squared: bool = False,
        beta: float | None = None,
        alpha: float | None = None,
        reduction: Reduction = "mean",
        label_weight: float | None = None,
        align: Literal["truncate"] | None = None,
        teacher_gradient: bool = False,
    ) -> None:
        super().__init__()
        choose_divergence(divergence, beta, alpha)
        check_reduction(reduction)
        self.divergence: DivergenceName = divergence
        self.temperature = check_temperature(temperature)
        self.t_squared = t_squared
        self.beta = beta
        self.alpha = alpha
        self.reduction: Reduction = reduction
        self.label_weight = label_weight
        self.align: Literal["truncate"] | None = align
        self.teacher_gradient = teacher_gradient

    def forward(
        self,
        student_logits: Tensor,
        teacher_logits: Tensor,
        *,
        mask: Tensor | None = None,
        weight: Tensor | float | None = None,
        denominator: Tensor | float | None = None,
        labels: Tensor | None = None,
        group: Any = None,
    ) -> Tensor:
        """The loss of two tensors of logits, with the mask, weights, denominator and labels of this batch."""
        return distillation(
            student_logits,
            teacher_logits,
            divergence=self.divergence,
            temperature=self.temperature,
            t_squared=self.t_squared,
            beta=self.beta,
            alpha=self.alpha,
            mask=mask,
            weight=weight,
            denominator=denominator,
            reduction=self.reduction,
            labels=labels,
            label_weight=None if labels is None else self.label_weight,
            align=self.align,
            teacher_gradient=self.teacher_gradient,
            group=group,
        )

    def extra_repr(self) -> str:
        """The settings that differ from none."""
        shown = [f"divergence={self.divergence!r}", f"temperature={self.temperature}"]
        for name in ("beta", "alpha", "label_weight", "align"):
            value = getattr(self, name)
            if value is not None:
                shown.append(f"{name}={value!r}")
        if self.t_squared:
            shown.append("t_squared=True")
        if self.teacher_gradient:
            shown.append("teacher_gradient=True")
        return ", ".join([*shown, f"reduction={self.reduction!r}"])
