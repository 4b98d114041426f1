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
# A bracket is cut into so many parts, so often: by 8^10 in all, which one step of Newton's method squares.
_NUM_PARTS, _NUM_ROUNDS = 8, 10


def find_crossings(
    edges: Tensor, ratio: Callable[[Tensor], Tensor], moving: Callable[[Tensor], Tensor], *, rings: bool
) -> Tensor:
    """Coordinates where the log-ratio changes its sign and some around them, NaN where there are none.

    Args:
        edges: Ascending coordinates to look at.
        ratio: The log-ratio with constant parameters.
        moving: The same with the parameters' derivatives.
        rings: Whether the panels beside a crossing cannot be refined, and need edges of their own.

    Smaller and smaller brackets find the places; one step of Newton's method then attaches their derivatives.
    """
    with torch.no_grad():
        quarter = torch.arange(4, dtype=edges.dtype, device=edges.device) / 4
        grid = (edges[:, :-1, None] + (edges[:, 1:, None] - edges[:, :-1, None]) * quarter).flatten(1)
        positive = ratio(grid) > 0
        changes = (positive[:, 1:] != positive[:, :-1]) & (grid[:, 1:] > grid[:, :-1])
        found, place = changes.to(torch.int8).topk(min(_MAX_CROSSINGS, changes.shape[1]), dim=-1)
        left, right = grid.gather(-1, place), grid.gather(-1, place + 1)
        bracket = right - left
        rises = positive.gather(-1, place + 1)
        parts = torch.arange(1, _NUM_PARTS, dtype=edges.dtype, device=edges.device) / _NUM_PARTS
        for _ in range(_NUM_ROUNDS):
            inside = left.unsqueeze(-1) + (right - left).unsqueeze(-1) * parts
            beyond = (ratio(inside.flatten(1)) > 0).reshape(inside.shape) == rises.unsqueeze(-1)
            # The first place beyond the crossing, and the last before it.
            right = torch.where(beyond, inside, right.unsqueeze(-1)).amin(-1)
            left = torch.where(~beyond & (inside < right.unsqueeze(-1)), inside, left.unsqueeze(-1)).amax(-1)
        middle = (left + right) / 2
        # A pole next to the crossing changes the slope within a longer step.
        step = torch.minimum(1e-6 * (1 + middle.abs()), 1e-3 * bracket).clamp_min(1e-300)
        slope = (ratio(middle + step) - ratio(middle - step)) / (2 * step)
        usable = (found > 0) & (slope.abs() > 1e-12) & (slope.abs() < 1e12)
    shift = moving(middle) / torch.where(usable, slope, 1.0)
    within = torch.maximum(torch.minimum(middle - shift.detach(), right), left)
    moved = within - (shift - shift.detach())
    # A jump is an end of a support, which is an edge already: a second one beside it would not move with it.
    place = torch.where(usable, moved, math.nan)
    if not rings:
        return place
    width = torch.where(usable, 1 / torch.where(usable, slope, 1.0).abs(), 0.0)
    multiples = torch.tensor(_RINGS, dtype=edges.dtype, device=edges.device)
    return (place.unsqueeze(-1) + width.unsqueeze(-1) * multiples).flatten(-2)
