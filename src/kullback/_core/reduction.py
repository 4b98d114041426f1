"""Mask, weight, reduction and unit: the one place where rows become a result, for every divergence."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem

Reduction = Literal["none", "sum", "mean"]


def check_reduction(reduction: str) -> None:
    """Refuse a reduction that is not one of the three, and say what torch's names mean here."""
    if reduction in ("none", "sum", "mean"):
        return
    if reduction == "batchmean":
        raise InputValueError(
            explain_problem(
                "There is no reduction 'batchmean': classes are always summed, so 'mean' already divides by rows.",
                got="reduction='batchmean'",
                expected="'none', 'sum' or 'mean'",
                instead='reduction="mean" (for (batch, time, classes) torch\'s batchmean is '
                'reduction="sum", divided by the batch size)',
            )
        )
    raise InputValueError(
        explain_problem("Unknown reduction.", got=f"reduction={reduction!r}", expected="'none', 'sum' or 'mean'")
    )


def check_base(base: object) -> None:
    """Refuse a base of logarithms that measures nothing."""
    if base is not None and not isinstance(base, int | float):
        named = {"bits": 2, "bit": 2, "bans": 10, "nats": None, "nat": None}
        known = isinstance(base, str) and base.lower() in named
        raise InputTypeError(
            explain_problem(
                "The unit is given by the base of the logarithm, a number.",
                got=f"base={base!r}" if isinstance(base, str) else f"a {type(base).__name__}",
                expected="None for nats, 2 for bits, 10 for bans",
                instead=f"base={named[str(base).lower()]}" if known else "base=2 for bits",
            )
        )
    if base is not None and (isinstance(base, bool) or not (base > 0 and math.isfinite(base)) or base == 1):
        raise InputValueError(
            explain_problem(
                "No such unit.",
                got=f"base={base!r}",
                expected="a positive number other than 1: 2 for bits, 10 for bans",
            )
        )


def check_mask(mask: Tensor | None, batch: torch.Size) -> None:
    """Refuse a mask that is not boolean over rows."""
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise InputTypeError(
            explain_problem(
                "A mask is boolean: True keeps a row, False leaves it out.",
                got=f"a tensor of {mask.dtype}" if isinstance(mask, Tensor) else type(mask).__name__,
                expected=f"a bool tensor of shape {tuple(batch)}",
                instead="mask=mask.bool() for zeros and ones; numbers that weigh rows are weight="
                if isinstance(mask, Tensor)
                else "mask=torch.as_tensor(mask)",
            )
        )
    _check_rows("mask", mask, batch)


def check_weight(weight: Tensor | float | None, batch: torch.Size) -> None:
    """Refuse a weight that is not one real number per row."""
    if weight is None or isinstance(weight, (int, float)):
        return
    if not isinstance(weight, Tensor) or weight.dtype == torch.bool or weight.is_complex():
        raise InputTypeError(
            explain_problem(
                "A weight is a number per row.",
                got=f"a tensor of {weight.dtype}" if isinstance(weight, Tensor) else type(weight).__name__,
                expected=f"a real tensor of shape {tuple(batch)}",
                instead="mask= for booleans" if isinstance(weight, Tensor) else "weight=torch.as_tensor(weight)",
            )
        )
    _check_rows("weight", weight, batch)


def _check_rows(name: str, rows: Tensor, batch: torch.Size) -> None:
    fits = rows.dim() <= len(batch) and all(
        r in (1, b) for r, b in zip(reversed(rows.shape), reversed(batch), strict=False)
    )
    if fits:
        return
    has_classes = rows.dim() == len(batch) + 1
    raise ShapeError(
        explain_problem(
            f"{name} has one entry per row"
            + (", and rows have no class dimension." if has_classes else ", and does not fit the rows."),
            got=f"{name} of shape {tuple(rows.shape)}",
            expected=f"a shape that broadcasts to the batch shape {tuple(batch)}",
            instead="to exclude single classes give them the logit -inf on both sides" if has_classes else "",
        )
    )


def reduce_rows(
    rows: Tensor,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: str = "none",
    base: float | None = None,
) -> Tensor:
    """Turn one value per row into a result.

    A row where `mask` is False gives exactly 0 whatever it holds. `"mean"` is Σ w·rows / Σ w over the rows that are
    left (w = 1 without `weight`), and 0 where nothing is left.

    Example:
        >>> import torch
        >>> rows = torch.tensor([1.0, float("nan"), 4.0])
        >>> reduce_rows(rows, mask=torch.tensor([True, False, True]), reduction="mean")
        tensor(2.5000)
    """
    if base is not None:
        rows = rows / math.log(base)
    weights = _row_weights(rows, mask, weight)
    if mask is not None:
        rows = torch.where(mask, rows, 0.0)
    if weights is not None and weight is not None:
        # A weight of zero removes even an infinite row.
        rows = torch.where((weights == 0) & rows.isinf(), 0.0, weights * rows)
    if reduction == "none":
        return rows
    total = rows.sum()
    if reduction == "sum":
        return total
    if weights is None:
        return total / max(rows.numel(), 1)
    count = weights.sum()
    return torch.where(count == 0, 0.0, total / torch.where(count == 0, 1.0, count))


def _row_weights(rows: Tensor, mask: Tensor | None, weight: Tensor | float | None) -> Tensor | None:
    if weight is None and mask is None:
        return None
    weights = rows.new_ones(()) if weight is None else torch.as_tensor(weight, dtype=rows.dtype, device=rows.device)
    weights = weights.expand(rows.shape)
    return weights if mask is None else torch.where(mask, weights, 0.0)
