"""How values per token become one number: the averages of GRPO, DAPO and Dr. GRPO by name, and a standard error."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.reduction import reduce_rows
from kullback.losses.arguments import check_choice, check_rows_options, check_tensor, widen

TokenReduction = Literal["none", "sum", "mean", "sequence_mean", "sequence_sum", "constant"]
TOKEN_REDUCTIONS = ("none", "sum", "mean", "sequence_mean", "sequence_sum", "constant")


def check_token_reduction(reduction: str, denominator: float | None) -> None:
    """Refuse an unknown average, and a denominator without the average that uses it."""
    check_choice("reduction", reduction, TOKEN_REDUCTIONS)
    if (denominator is not None) != (reduction == "constant") or (denominator is not None and not denominator > 0):
        raise InputValueError(
            explain_problem(
                'reduction="constant" divides by a denominator > 0 that does not depend on the lengths.',
                got=f"reduction={reduction!r}, denominator={denominator!r}",
                expected='both reduction="constant" and denominator=, or neither',
                instead='reduction="constant", denominator=max_completion_length',
            )
        )


def reduce_tokens(
    values: Tensor,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: TokenReduction = "mean",
    denominator: float | None = None,
) -> Tensor:
    """Values of shape (..., time) as one number.

    | reduction         | value, for S sequences s with tokens t                | used by              |
    |-------------------|-------------------------------------------------------|----------------------|
    | `"mean"`          | Σ_st v / number of tokens                             | DAPO, token mean     |
    | `"sequence_mean"` | mean_s (Σ_t v / number of tokens of s)                | GRPO                 |
    | `"sequence_sum"`  | mean_s Σ_t v                                          | KL of sequences      |
    | `"constant"`      | Σ_st v / (S · denominator)                            | Dr. GRPO             |
    | `"sum"`, `"none"` | Σ_st v, and v itself                                  |                      |

    Only tokens that `mask` keeps count, by their `weight`. A sequence without any token does not count in
    `"sequence_mean"` and `"sequence_sum"`; it does in `"constant"`, whose denominator is constant.

    Example:
        >>> import torch
        >>> values = torch.tensor([[1.0, 1.0, 1.0, 1.0], [4.0, 0.0, 0.0, 0.0]])
        >>> mask = torch.tensor([[True] * 4, [True, False, False, False]])
        >>> [round(float(reduce_tokens(values, mask=mask, reduction=r)), 4) for r in ("mean", "sequence_mean")]
        [1.6, 2.5]
        >>> reduce_tokens(values, mask=mask, reduction="constant", denominator=8)
        tensor(0.5000)
    """
    check_token_reduction(reduction, denominator)
    (values,) = widen(check_tensor("reduce_tokens", "values", values))
    check_rows_options(mask, weight, values.shape)
    if reduction in ("none", "sum", "mean"):
        return reduce_rows(values, mask=mask, weight=weight, reduction=reduction)
    total, count = _per_sequence(values, mask, weight)
    if denominator is not None:
        return total.sum() / (max(total.numel(), 1) * denominator)
    held = count > 0
    rows = total / torch.where(held, count, 1.0) if reduction == "sequence_mean" else total
    return reduce_rows(rows, mask=held, reduction="mean")


def token_mean_and_error(values: Tensor, mask: Tensor | None, weight: Tensor | float | None) -> tuple[Tensor, Tensor]:
    """The token mean and its standard error, where sequences are independent but tokens of one sequence are not.

    With totals x_s and counts n_s of the sequences and m = Σ x / Σ n, the error is the square root of
    S/(S−1) Σ_s (x_s − m n_s)² / (Σ n)²; NaN for a single sequence. A tensor of one dimension holds independent tokens.
    """
    flat = values if values.dim() != 1 else values.unsqueeze(-1)
    one = values.dim() == 1
    wide_mask = mask.unsqueeze(-1) if one and mask is not None else mask
    wide_weight = weight.unsqueeze(-1) if one and isinstance(weight, Tensor) else weight
    total, count = _per_sequence(flat, wide_mask, wide_weight)
    tokens = count.sum()
    mean = total.sum() / torch.where(tokens > 0, tokens, 1.0)
    sequences = (count > 0).sum()
    square = ((total - mean * count) ** 2).sum() / torch.where(tokens > 0, tokens, 1.0) ** 2
    return mean, (square * sequences / (sequences - 1)).sqrt()


def _per_sequence(values: Tensor, mask: Tensor | None, weight: Tensor | float | None) -> tuple[Tensor, Tensor]:
    total = reduce_rows(values, mask=mask, weight=weight).sum(-1)
    count = reduce_rows(torch.ones_like(values), mask=mask, weight=weight).sum(-1)
    return total, count
