"""What the values of a tensor look like: a cheap look at some rows, and a closer one only where the first fails."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import torch
from torch import Tensor

# Rows are looked at until this many elements, and at least four: all of a small tensor, a few rows of a large one.
_ELEMENTS = 1 << 14
_ROWS = 4

# How far a row may be from 1. A log-probability of −16 in half precision is off by half its spacing, 2^-7 or 2^-4,
# and the probability by that fraction.
_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 7e-2}


@dataclass(frozen=True)
class Look:
    """What a tensor that is not what it should be looks like instead."""

    low: float
    high: float
    low_mass: float
    high_mass: float
    kind: str  # "probabilities" | "log-probabilities" | "other dimension" | "whole numbers" | "logits" | "measure"
    normalised_along: int | None = None

    @property
    def masses(self) -> str:
        """The range of the row sums, for a message."""
        low, high = f"{self.low_mass:.4g}", f"{self.high_mass:.4g}"
        return low if low == high else f"{low} to {high}"


def look_at(tensor: Tensor, *, log_space: bool) -> Look | None:
    """None if the rows of `tensor` are (log-)probabilities, as far as a cheap look can tell; NaN is not misuse.

    Beyond two dimensions the classes may lie along the last dimension or along dimension 1, as torch's losses have it.
    """
    tensor = tensor.detach()
    rows = _some_rows(tensor, -1)
    least, most = torch.aminmax(_mass(rows, log_space))
    low_mass, high_mass = least.item(), most.item()
    low = 0.0 if log_space else rows.amin().item()
    tolerance = _TOLERANCE.get(tensor.dtype, 1e-3)
    if low >= 0 and low_mass >= 1 - tolerance and high_mass <= 1 + tolerance:
        return None
    if isnan(low_mass) or isnan(low):
        return None
    others = (d for d in range(tensor.dim() - 1) if _normalised(_some_rows(tensor, d), log_space, tolerance))
    along = next(others, None)
    if tensor.dim() > 2 and along == 1:
        return None
    if _normalised(rows, log_space, tolerance, empty_rows=True):
        return None
    low, high = (v.item() for v in torch.aminmax(rows))
    return Look(low, high, low_mass, high_mass, _kind(rows, low, high, along, tolerance), along)


def _kind(rows: Tensor, low: float, high: float, along: int | None, tolerance: float) -> str:
    if _normalised(rows, False, tolerance):
        return "probabilities"
    if _normalised(rows, True, tolerance):
        return "log-probabilities"
    if along is not None:
        return "other dimension"
    if low >= 0 and high > 1 and bool((rows == rows.round()).all()):
        return "whole numbers"
    return "logits" if low < 0 < high else "measure"


def _mass(rows: Tensor, log_space: bool) -> Tensor:
    return (rows.exp() if log_space else rows).sum(-1)


def _normalised(rows: Tensor, log_space: bool, tolerance: float, *, empty_rows: bool = False) -> bool:
    """Whether all rows are non-negative with mass 1; with `empty_rows`, some may have mass 0: padding."""
    mass = _mass(rows, log_space)
    right = (mass - 1).abs() <= tolerance
    if not bool((right | (mass == 0)).all() if empty_rows else right.all()) or not bool(right.any()):
        return False
    return log_space or bool((rows >= 0).all())


def _some_rows(tensor: Tensor, dim: int) -> Tensor:
    """Evenly spaced rows along `dim`, last, as strided views: nothing large is copied, and at least float32."""
    rows = tensor if dim == -1 else tensor.movedim(dim, -1)
    limit = max(_ELEMENTS, _ROWS * rows.size(-1))
    for d in range(rows.dim() - 1):
        excess = -(-rows.numel() // limit)
        if excess <= 1:
            break
        step = min(excess, rows.size(d))
        rows = rows[(slice(None),) * d + (slice(None, None, step),)]
    return rows if rows.dtype in (torch.float32, torch.float64) else rows.float()
