"""log(x/y) with full relative accuracy near x = y, the starting point of most closed forms."""

from __future__ import annotations

import torch
from torch import Tensor


def log_ratio(x: Tensor, y: Tensor) -> Tensor:
    """log(x/y) for positive x and y; -inf at x = 0.

    Near equality the difference x − y is exact and x/y − 1 would lose what matters, so log1p of the relative
    difference is taken. Far from it the quotient is logged, and where even that over- or underflows the logarithms are
    subtracted, since their difference is then large.
    """
    difference = x - y
    near = difference.abs() <= 0.5 * y
    quotient = torch.where(near, 1.0, x / torch.where(near, 1.0, y))
    representable = (quotient > 1e-300) & (quotient < 1e300)
    apart = near | representable
    log_x, log_y = (torch.log(torch.where(apart, 1.0, t)) for t in (x, y))
    logged = torch.where(representable, torch.log(torch.where(representable, quotient, 1.0)), log_x - log_y)
    relative = torch.where(near, difference, 0.0) / torch.where(near, y, 1.0)
    return torch.where(near, torch.log1p(relative), logged)
