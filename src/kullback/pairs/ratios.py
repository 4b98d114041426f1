"""Quotients of parameters with full relative accuracy: log(x/y) near x = y, a/(a+b) with its slopes."""

from __future__ import annotations

import torch
from torch import Tensor

from kullback._core.special._derivatives import attach, split_point

# Quotients beyond these are compared by logarithms: the slope of a larger one, x/y², overflows before it does.
_LEAST, _MOST = 1e-100, 1e100


def log_ratio(x: Tensor, y: Tensor) -> Tensor:
    """log(x/y) for positive x and y; -inf at x = 0.

    Near equality the difference x − y is exact and x/y − 1 would lose what matters, so log1p of the relative
    difference is taken. Far from it the quotient is logged, and where that is huge or tiny the logarithms are
    subtracted, since their difference is then large.
    """
    difference = x - y
    near = difference.abs() <= 0.5 * y
    quotient = torch.where(near, 1.0, x / torch.where(near, 1.0, y))
    representable = (quotient > _LEAST) & (quotient < _MOST)
    apart = near | representable
    log_x, log_y = (torch.log(torch.where(apart, 1.0, t)) for t in (x, y))
    logged = torch.where(representable, torch.log(torch.where(representable, quotient, 1.0)), log_x - log_y)
    relative = torch.where(near, difference, 0.0) / torch.where(near, y, 1.0)
    return torch.where(near, torch.log1p(relative), logged)


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
