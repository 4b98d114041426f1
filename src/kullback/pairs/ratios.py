"""log(x/y) with full relative accuracy near x = y; the formulas of `pairs` call it."""

from __future__ import annotations

import torch
from torch import Tensor


def log_ratio(x: Tensor, y: Tensor) -> Tensor:
    """log(x/y) for positive x and y; -inf at x = 0.

    Near equality the difference x − y is exact and x/y − 1 would lose what matters, so log1p of the relative
    difference is taken. Further apart the logarithms are subtracted, which neither overflows nor cancels.
    """
    difference = x - y
    near = difference.abs() <= 0.5 * y
    relative = torch.where(near, difference, 0.0) / torch.where(near, y, 1.0)
    return torch.where(near, torch.log1p(relative), torch.log(x) - torch.log(y))
