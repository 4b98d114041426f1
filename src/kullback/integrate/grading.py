"""Where to put panels: graded towards every place at which an integrand changes its behaviour.

A mark (c, w) says that the integrand is smooth on the scale max(w, |y − c|): a bulk of width w, or a singularity of its
continuation at c ± iw. Panels whose lengths grow in proportion to the distance from every mark then hold a Gauss rule
of fixed order to a fixed accuracy, however different the widths are: their number grows with the logarithm of ratios.
In the coordinate T(y) = Σ ±log(1 + |y − c|/w) such panels are equally long.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

# Rungs at ± w·sinh(τ): τ in steps of 1.5 up to 33, fourteen decades.
_RUNGS, _SPACING = 22, 1.5
# What is e^−42 times the largest value leaves nothing in the sixteenth digit.
_NEGLIGIBLE = 42.0


class Panels(NamedTuple):
    """A ladder of points ascending in the last dimension, and T at each."""

    at: Tensor
    stretched: Tensor


_UP = [math.sinh(_SPACING * k) for k in range(1, _RUNGS + 1)]
_ALL_RUNGS = [-r for r in reversed(_UP)] + [0.0] + _UP


def ladder(centres: Tensor, widths: Tensor) -> Panels:
    """Points at distances from every mark that grow geometrically; marks are the last dimension."""
    rungs = torch.tensor(_ALL_RUNGS, dtype=centres.dtype, device=centres.device)
    at = (centres.unsqueeze(-1) + widths.unsqueeze(-1) * rungs).flatten(-2).sort(dim=-1).values
    offset = (at.unsqueeze(-2) - centres.unsqueeze(-1)) / widths.unsqueeze(-1)
    stretched = (torch.log1p(offset.abs()) * torch.sign(offset)).sum(-2)
    return Panels(at, stretched)


def worth_keeping(log_size: Tensor) -> tuple[Tensor, Tensor]:
    """First and last rung of the range outside which the integrand, of which the log-size is given, is negligible."""
    keep = log_size >= log_size.amax(-1, keepdim=True) - _NEGLIGIBLE
    count = keep.shape[-1]
    index = torch.arange(count, device=keep.device)
    first = torch.where(keep, index, count).amin(-1, keepdim=True)
    last = torch.where(keep, index, -1).amax(-1, keepdim=True)
    return (first - 1).clamp(0, count - 1), (last + 1).clamp(0, count - 1)


def graded_panels(rungs: Panels, first: Tensor, last: Tensor, count: int) -> Tensor:
    """`count` panels between two rungs, equally long in T; their edges."""
    low, high = rungs.stretched.gather(-1, first), rungs.stretched.gather(-1, last)
    share = torch.linspace(0, 1, count + 1, dtype=low.dtype, device=low.device)
    wanted = low + (high - low) * share
    right = torch.searchsorted(rungs.stretched, wanted).clamp(1, rungs.stretched.shape[-1] - 1)
    t0, t1 = rungs.stretched.gather(-1, right - 1), rungs.stretched.gather(-1, right)
    y0, y1 = rungs.at.gather(-1, right - 1), rungs.at.gather(-1, right)
    part = ((wanted - t0) / torch.where(t1 > t0, t1 - t0, 1.0)).clamp(0, 1)
    return y0 + (y1 - y0) * part


def split_panels(edges: Tensor, parts: Tensor, count: int) -> Tensor:
    """Panels split into equal parts, as many as each is worth, resampled to `count` in all.

    Where a batch element asks for fewer than `count` parts its panels become correspondingly shorter.
    """
    grown = torch.nn.functional.pad(parts.to(edges.dtype).cumsum(-1), (1, 0))
    ladder_of_parts = Panels(edges, grown)
    ends = torch.zeros_like(edges[..., :1], dtype=torch.long)
    return graded_panels(ladder_of_parts, ends, ends + edges.shape[-1] - 1, count)
