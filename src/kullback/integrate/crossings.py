"""Where two densities cross: edges for integrands that have a kink or turn fast at p = q; `expectation` calls it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

# Crossings that are followed, for each element; two smooth unimodal densities have at most three or four.
_MAX_CROSSINGS = 8
# Edges around them, at log-ratios of about these sizes.
_RINGS = (-8.0, -2.0, 0.0, 2.0, 8.0)
_NUM_HALVINGS = 44


def find_crossings(edges: Tensor, ratio: Callable[[Tensor], Tensor], moving: Callable[[Tensor], Tensor]) -> Tensor:
    """Coordinates where the log-ratio changes its sign and some around them, NaN where there are none.

    Args:
        edges: Ascending coordinates to look at.
        ratio: The log-ratio with constant parameters.
        moving: The same with the parameters' derivatives.

    Bisection finds the places; one step of Newton's method then attaches their derivatives.
    """
    with torch.no_grad():
        quarter = torch.arange(4, dtype=edges.dtype, device=edges.device) / 4
        grid = (edges[:, :-1, None] + (edges[:, 1:, None] - edges[:, :-1, None]) * quarter).flatten(1)
        positive = ratio(grid) > 0
        changes = (positive[:, 1:] != positive[:, :-1]) & (grid[:, 1:] > grid[:, :-1])
        found, place = changes.to(torch.int8).topk(min(_MAX_CROSSINGS, changes.shape[1]), dim=-1)
        left, right = grid.gather(-1, place), grid.gather(-1, place + 1)
        rises = positive.gather(-1, place + 1)
        for _ in range(_NUM_HALVINGS):
            middle = (left + right) / 2
            beyond = (ratio(middle) > 0) == rises
            left, right = torch.where(beyond, left, middle), torch.where(beyond, middle, right)
        middle = (left + right) / 2
        step = 1e-6 * (1 + middle.abs())
        slope = (ratio(middle + step) - ratio(middle - step)) / (2 * step)
        usable = (found > 0) & (slope.abs() > 1e-12) & (slope.abs() < 1e12)
    value = moving(torch.where(usable, middle, middle.detach()))
    shift = (value - value.detach()) / torch.where(usable, slope, 1.0)
    place = torch.where(found > 0, middle - torch.where(usable, shift, 0.0), math.nan)
    width = torch.where(usable, 1 / torch.where(usable, slope, 1.0).abs(), 0.0)
    rings = torch.tensor(_RINGS, dtype=edges.dtype, device=edges.device)
    return (place.unsqueeze(-1) + width.unsqueeze(-1) * rings).flatten(-2)
