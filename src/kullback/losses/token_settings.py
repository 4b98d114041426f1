"""The arguments that losses of logits and of hidden states share, read and checked; called by both.

With a group, every rank reads its own; `kullback.parallel.peers.checked_together` compares the descriptions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, ShapeError, explain_problem
from kullback.losses.row_divergence import choose_divergence
from kullback.losses.token_loss import TokenLoss
from kullback.losses.token_reduction import (
    IGNORED_LABEL,
    TokenReduction,
    check_label_range,
    check_label_weight,
    check_labels,
    check_temperature,
)
from kullback.parallel.peers import Peers, checked_together


class TokenSettings(NamedTuple):
    """What is computed per token, and how tokens become a loss.

    Attributes:
        loss: The loss of a token.
        reduce: The reduction over tokens.
        batch: The shape of the tokens.
        keep: Which tokens count, of the shape `batch`; None where all do.
        labels: Class indices of the shape `batch`.
        description: What must be the same on every rank of a group.
    """

    loss: TokenLoss
    reduce: TokenReduction
    batch: torch.Size
    keep: Tensor | None
    labels: Tensor | None
    description: str

    def check_label_range(self, classes: int, device: torch.device) -> None:
        """Refuse labels that are not classes, given the number of classes of this process; one all-reduce or two."""
        labels, group = self.labels, self.loss.group
        if labels is None:
            return
        if group is None:
            check_label_range(labels, classes, self.keep)
            return
        whole = sum(Peers(group).sizes(classes, device))

        def check() -> TokenSettings:
            check_label_range(labels, whole, self.keep)
            return self

        checked_together(check, group, device)


def token_settings(
    batch: torch.Size,
    *,
    divergence: object,
    temperature: float,
    t_squared: bool,
    beta: float | None,
    alpha: float | None,
    mask: Tensor | None,
    weight: Tensor | float | None,
    denominator: Tensor | float | None,
    reduction: str,
    labels: Tensor | None,
    label_weight: float | None,
    group: Any,
) -> TokenSettings:
    """Read and check the arguments; makes no all-reduce."""
    loss = TokenLoss(
        choose_divergence(divergence, beta, alpha),
        check_temperature(temperature),
        t_squared,
        check_label_weight(labels, label_weight),
        group,
    )
    if labels is not None:
        check_labels(labels, batch)
        mask = labels != IGNORED_LABEL if mask is None else mask
    reduce = TokenReduction(mask, weight, denominator, reduction)
    reduce.check(batch)
    keep = None if mask is None else mask.expand(batch)
    description = (
        f"{divergence!r}, beta={beta}, alpha={alpha}, temperature={temperature}, t_squared={t_squared}, "
        f"reduction={reduction!r}, label_weight={loss.label_weight}, tokens of shape {tuple(batch)}"
    )
    return TokenSettings(loss, reduce, batch, keep, labels, description)


def check_logits(name: str, logits: Any, group: Any = None) -> None:
    """Refuse what is not a tensor of real numbers with classes last; only a shard of a group may have no class."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        raise InputTypeError(
            explain_problem(
                f"{name} are the raw outputs of a model.",
                got=f"a tensor of {logits.dtype}" if isinstance(logits, Tensor) else type(logits).__name__,
                expected="a torch.Tensor of floating dtype, classes last",
                instead="distillation(student(x).logits, teacher(x).logits) for models of transformers",
            )
        )
    if logits.dim() == 0 or (logits.shape[-1] == 0 and group is None):
        raise ShapeError(
            explain_problem(
                f"{name} has no classes.", got=f"shape {tuple(logits.shape)}", expected="shape (..., vocabulary)"
            )
        )
