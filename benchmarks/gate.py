"""The correctness gate: no contender is compared by speed before its result is compared with the truth."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Verdict(NamedTuple):
    """How a result compares with the truth.

    Attributes:
        right: Whether every entry is within the case's tolerance.
        error: Largest relative error; infinite for a wrong shape, NaN or infinity.
        note: What is wrong, in words; empty when right.
    """

    right: bool
    error: float
    note: str


def relative_error(value: torch.Tensor, truth: torch.Tensor, *, floor: float = 0.0, by_row: bool = False) -> float:
    """max |value - truth| / max(|truth|, floor) over all entries; `by_row`, |truth| is the largest of its row.

    Where the truth is zero (and the floor is too), infinite or NaN only the very same value is right: the error is 0
    or infinite.
    """
    value, truth = value.detach().double(), truth.detach().double()
    if truth.numel() == 0:
        return 0.0
    same = (value == truth) | (value.isnan() & truth.isnan())
    size = truth.abs()
    scale = (size.amax(-1, keepdim=True) if by_row and truth.dim() > 1 else size).clamp(min=floor)
    error = torch.where(same, 0.0, (value - truth).abs() / scale)
    # inf - inf, inf / inf and 0 / 0 are NaN here: not the same value, so as wrong as can be.
    return float(error.nan_to_num(nan=torch.inf, posinf=torch.inf).max())


def judge(value: Any, truth: Any, *, rtol: float, floor: float = 0.0, by_row: bool = False) -> Verdict:
    """Compare a result (a tensor or a tuple of tensors) with the truth."""
    values, truths = _leaves(value), _leaves(truth)
    if len(values) != len(truths):
        return Verdict(False, torch.inf, f"wrong result: {len(values)} tensors instead of {len(truths)}")
    error = 0.0
    for got, want in zip(values, truths, strict=True):
        if got.shape != want.shape:
            return Verdict(False, torch.inf, f"wrong result: shape {tuple(got.shape)} instead of {tuple(want.shape)}")
        error = max(error, relative_error(got, want, floor=floor, by_row=by_row))
    if error <= rtol:
        return Verdict(True, error, "")
    return Verdict(False, error, f"wrong result: relative error {error:.1e} (allowed {rtol:.0e})")


def _leaves(value: Any) -> list[torch.Tensor]:
    return [torch.as_tensor(leaf) for leaf in (value if isinstance(value, tuple | list) else (value,))]
