"""Means, variances and medians of weighted points: x (n, B, …), w (n, B) or (n, 1). Called by every fit."""

from __future__ import annotations

import torch
from torch import Tensor

_TINY = 1e-300
_MAX_START_ROWS = 201  # a start needs few of the points


def mean_of(x: Tensor, w: Tensor) -> Tensor:
    """The weighted mean over the first dimension."""
    if w.shape[1] == 1:
        return (w[:, 0] @ x.reshape(len(x), -1)).reshape(x.shape[1:])
    return (w.reshape(*w.shape, *([1] * (x.dim() - w.dim()))) * x).sum(0)


def variance_of(x: Tensor, w: Tensor) -> Tensor:
    """The weighted variance (divided by n, as maximum likelihood has it)."""
    return mean_of((x - mean_of(x, w)).square(), w)


def covariance_of(x: Tensor, w: Tensor) -> Tensor:
    """The weighted covariance (B, d, d) of x (n, B, d)."""
    centred = (x - mean_of(x, w)) * w[..., None].sqrt()
    return torch.einsum("nbi,nbj->bij", centred, centred)


def weighted_median(x: Tensor, w: Tensor) -> Tensor:
    """The middle of the interval of medians of every column."""
    ordered, order = x.sort(dim=0)
    mass = w.expand_as(x).gather(0, order).cumsum(0)
    total = mass[-1]
    lower = (mass < 0.5 * total * (1 - 1e-12)).sum(0, keepdim=True).clamp(max=len(x) - 1)
    upper = (mass <= 0.5 * total * (1 + 1e-12)).sum(0, keepdim=True).clamp(max=len(x) - 1)
    return ((ordered.gather(0, lower) + ordered.gather(0, upper)) / 2)[0]


def middle_and_spread(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Medians of x and of |x − median| for a start, from some of the rows."""
    step = -(-len(x) // _MAX_START_ROWS)
    some, weight = x[::step], w[::step]
    if step > 1 and not bool((weight.sum(0) > 0).all()):
        some, weight = x, w
    loc = weighted_median(some, weight)
    distance = (some - loc).abs()
    spread = weighted_median(distance, weight)
    return loc, torch.where(spread > 0, spread, mean_of((x - loc).abs(), w)).clamp(min=_TINY)
