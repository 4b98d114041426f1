"""Quotients of parameters with full relative accuracy: log(x/y) near x = y, a/(a+b) with its slopes."""

from __future__ import annotations

import torch
from torch import Tensor

from kullback._core.special._derivatives import attach, split_point


def log_ratio(x: Tensor, y: Tensor) -> Tensor:
    """log(x/y) for positive x and y; -inf at x = 0.

    Near equality the difference x − y is exact and x/y − 1 would lose what matters, so log1p of the relative
    difference is taken. Further apart the logarithms are subtracted, which neither overflows nor cancels.
    """
    difference = x - y
    near = difference.abs() <= 0.5 * y
    relative = torch.where(near, difference, 0.0) / torch.where(near, y, 1.0)
    return torch.where(near, torch.log1p(relative), torch.log(x) - torch.log(y))


def share(a: Tensor, b: Tensor) -> Tensor:
    """a/(a+b) for positive a and b, whose slope in a is b/(a+b)² where that of the quotient would cancel for b ≪ a."""
    a, b = a + torch.zeros_like(b), b + torch.zeros_like(a)
    (x, step_x), (y, step_y) = split_point(a), split_point(b)
    total = x + y
    value, rest = x / total, y / total
    first = [rest / total, -value / total]
    second = [-2 * first[0] / total, (value - rest) / total / total, -2 * first[1] / total]
    return attach(value, [step_x, step_y], first, second)


def valued(value: Tensor, slopes_of: Tensor) -> Tensor:
    """A value with the derivatives of another expression for the same quantity."""
    return value.detach() + (slopes_of - slopes_of.detach())
