"""Where to put panels: graded towards every place at which an integrand changes its behaviour.

A mark (c, w) says that the integrand is smooth on the scale max(w, |y − c|): a bulk of width w, or a singularity of its
continuation at c ± iw. Panels whose lengths grow in proportion to the distance from every mark then hold a Gauss rule
of fixed order to a fixed accuracy, however different the widths are: their number grows with the logarithm of ratios.
In the coordinate T with dT/dy = max 1/(w + |y − c|) such panels are equally long.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.integrate.constants import Constants

# Beyond the reach W of all marks rungs at ± W·sinh τ, up to fourteen decades; within, so many on either side of a mark.
_FAR = [1.5, 3.0, 4.5, 6.0, *(3.0 * k for k in range(3, 12))]
_NEAR = 8
# Ratios of distances and widths stay within the number range.
NARROWEST = 1e-250
# What is e^−38 times the largest value leaves nothing in the sixteenth digit.
NEGLIGIBLE = 38.0
# By how much the logarithm of an integrand changes over a unit of T.
FALL = 12.0
# The range of an argument in which a function of it turns, and how much of it a unit of T may hold.
TURNED, TURN = 16.0, 4.0
# The largest fall between two rungs that is believed.
STEEPEST = 6e4


class Panels(NamedTuple):
    """A ladder of points ascending in the last dimension, and T at each."""

    at: Tensor
    stretched: Tensor


OUTER = Constants([-math.sinh(t) for t in reversed(_FAR)] + [math.sinh(t) for t in _FAR])
INNER = Constants([k / _NEAR for k in range(-_NEAR, _NEAR + 1)])


def ladder(centres: Tensor, widths: Tensor) -> Panels:
    """Points at distances from every mark that grow geometrically; marks are the last dimension."""
    low, high = torch.aminmax(centres, dim=-1, keepdim=True)
    reach = widths.amax(-1, keepdim=True) + (high - low)
    widths = torch.maximum(widths, NARROWEST * reach)
    steps = torch.sinh(torch.asinh(reach / widths).unsqueeze(-1) * INNER.like(centres))
    near = (centres.unsqueeze(-1) + widths.unsqueeze(-1) * steps).flatten(-2)
    far = low + (high - low) / 2 + reach * OUTER.like(centres)
    at = torch.cat([near, far], -1).sort(dim=-1).values
    offset = (at.unsqueeze(-2) - centres.unsqueeze(-1)) / widths.unsqueeze(-1)
    grown = torch.copysign(torch.log1p(offset.abs()), offset).diff(dim=-1).amax(-2).cumsum(-1)
    return Panels(at, torch.nn.functional.pad(grown, (1, 0)))


class Span(NamedTuple):
    """The part of a ladder that matters.

    Attributes:
        rungs: The ladder, stretched where the integrand rises or falls by orders of magnitude.
        first: The first rung of the range outside which the integrand is negligible.
        last: The last one.
    """

    rungs: Panels
    first: Tensor
    last: Tensor

    def ends(self) -> tuple[Tensor, Tensor]:
        """Where the range begins and ends."""
        return self.rungs.at.gather(-1, self.first), self.rungs.at.gather(-1, self.last)

    def length(self) -> float:
        """How long the longest range of the batch is in T."""
        lengths = self.rungs.stretched.gather(-1, self.last) - self.rungs.stretched.gather(-1, self.first)
        # An element whose parameters are no numbers has no range, and takes nothing from the others.
        return float(lengths.nan_to_num(0.0).max()) if lengths.numel() else 0.0


def falling(rungs: Panels, log_size: Tensor, argument: Tensor | None = None) -> Span:
    """The range that matters of an integrand whose log-size at the rungs is given.

    A Gauss rule holds e^(cy) over a bounded range of cy, whatever the marks say, so the fall of the integrand counts;
    and where the integrand is a function of an argument that turns from one exponential into another around 0, so does
    the change of the argument there.
    """
    top = log_size.amax(-1, keepdim=True)
    # Where there is nothing at all, a component of no weight, any range will do.
    log_size = torch.where(top == -math.inf, 0.0, log_size)
    floor = torch.where(top == -math.inf, 0.0, top) - NEGLIGIBLE
    keep = log_size >= floor
    count = keep.shape[-1]
    index = torch.arange(count, device=keep.device)
    first = torch.where(keep, index, count).amin(-1, keepdim=True)
    last = torch.where(keep, index, -1).amax(-1, keepdim=True)
    change = torch.maximum(log_size, floor).diff(dim=-1).abs() / FALL
    if argument is not None and argument.shape[-1] > 1:  # one that is constant has no nodes
        change = torch.maximum(change, argument.clamp(-TURNED, TURNED).diff(dim=-1).abs() / TURN)
    grown = torch.maximum(rungs.stretched.diff(dim=-1), change).cumsum(-1)
    stretched = torch.nn.functional.pad(grown, (1, 0))
    return Span(
        Panels(rungs.at.expand_as(log_size), stretched), (first - 1).clamp(0, count - 1), (last + 1).clamp(0, count - 1)
    )


def tightened(span: Span, log_size: Tensor) -> Span:
    """The range with its ends moved to where the integrand falls below what matters, by interpolation.

    With s the fall from the top, log(1 + s) is taken to be linear between rungs. It is concave where s grows like a
    power and linear where it grows exponentially, so that the end is not moved too far in; s is capped against faster
    growth.
    """
    at, top = span.rungs.at, log_size.amax(-1, keepdim=True)
    for outer, step in ((span.first, 1), (span.last, -1)):
        inner = (outer + step).clamp(0, at.shape[-1] - 1)
        near, far = (torch.log1p((top - log_size.gather(-1, i)).clamp(0.0, STEEPEST)) for i in (inner, outer))
        part = ((math.log1p(NEGLIGIBLE) - near) / (far - near)).nan_to_num(1.0, 1.0, 1.0).clamp(0.0, 1.0)
        y0, y1 = at.gather(-1, inner), at.gather(-1, outer)
        at = at.scatter(-1, outer, y0 + (y1 - y0) * torch.where(far > near, part, 1.0))
    return span._replace(rungs=Panels(at, span.rungs.stretched))


def graded_panels(span: Span, count: int) -> Tensor:
    """`count` panels, equally long in T; their edges."""
    rungs, first, last = span
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
    return graded_panels(Span(ladder_of_parts, ends, ends + edges.shape[-1] - 1), count)
