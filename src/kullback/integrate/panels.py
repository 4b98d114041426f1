"""Where the panels of an expectation lie: edges in the coordinate of the density that is integrated over.

`expectation` calls `place_edges`. The layout has a fixed number of panels and depends on one element only, so that an
element's answer does not depend on its batch, and `vmap` and `torch.compile` run the same code. Edges follow marks and
kinks when parameters move, which makes derivatives right where a kink is an edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.densities.density import Density
from kullback.densities.point import HUGE, Point
from kullback.integrate.rules import NUM_NODES

# Steps 2^k of the ladder that finds out how far the integrand reaches.
_NUM_RUNGS = 56
# What is smaller than the largest rung by e^−45 is left out.
NEGLIGIBLE = 45.0
# Where the integrand is alive at another mark, the range goes so many of its widths beyond.
_MARK_REACH = 16.0
# Panels between the middle of the mass and each end of the range; counts have more, from 16 on, for their lower end.
_NUM_STEPS, _NUM_COUNT_STEPS = 12, 16
# Edges to each side of another mark, from its width on to that of the range.
_NUM_RINGS = 8
# Edges around a kink, in multiples of the narrowest mark: a pole may stand there.
_KINK_RINGS = (-1.0, -1e-2, -1e-4, -1e-6, -1e-9, 0.0, 1e-9, 1e-6, 1e-4, 1e-2, 1.0)


class Range(NamedTuple):
    """How far the integrand reaches.

    Attributes:
        low: The first edge, one for each element.
        high: The last edge.
        beyond: What may lie outside, infinity where that cannot be said.
    """

    low: Tensor
    high: Tensor
    beyond: Tensor


class Marks(NamedTuple):
    """Marks and kinks in the coordinate: NaN where they are outside the support.

    Attributes:
        own: Those of the density that is integrated over.
        own_width: Their widths.
        other: Those of the other densities.
        other_width: Their widths.
        other_reach: If the integrand is alive there, the range goes so far beyond them.
        kinks: Places where a density or its derivative jumps.
    """

    own: Tensor
    own_width: Tensor
    other: Tensor
    other_width: Tensor
    other_reach: Tensor
    kinks: Tensor


def locate(over: Density, others: tuple[Density, ...], ends: tuple[Point, ...]) -> Marks:
    """The marks of all densities in the coordinate of the first, and kinks: ends of others' supports are such."""
    own, own_width = _located(over, over.marks)
    marks = tuple(mark for density in others for mark in density.marks)
    other, other_width = _located(over, marks) if marks else (own[..., :0], own_width[..., :0])
    kinks = tuple(kink for density in (over, *others) for kink in density.kinks) + ends
    places = [over.coordinate.coordinate(kink) for kink in kinks]
    at = torch.cat([p.expand(*own.shape[:-1], 1) for p in places], -1) if places else own[..., :0]
    return Marks(
        own, own_width, other, other_width, _MARK_REACH * other_width, torch.where(at.abs() < HUGE, at, math.nan)
    )


def _located(over: Density, marks: tuple[Point, ...]) -> tuple[Tensor, Tensor]:
    """Middles (NaN: outside) and widths (1: as wide as the support)."""
    places = [over.coordinate.coordinate(mark) for mark in marks]
    triples = torch.stack(torch.broadcast_tensors(*places), -2)  # type: ignore[no-untyped-call]
    left, middle, right = triples.unbind(-1)
    width = torch.minimum((middle - left).abs(), (right - middle).abs()).detach()
    usual = (width > 0) & (width < HUGE / 2)
    return torch.where(middle.abs() < HUGE, middle, math.nan), torch.where(usual, width, 1.0)


def find_range(
    over: Density, marks: Marks, log_size: Callable[[Tensor], tuple[Tensor, Tensor]], limits: Tensor | None = None
) -> Range:
    """Steps away from the marks, doubling, to the last where the integrand is not negligible.

    Args:
        over: The density that is integrated over.
        marks: Where its mass is.
        log_size: The logarithm of the integrand's size at coordinates, and where nobody can see it.
        limits: Where to stop at both ends because it is known what lies beyond; infinite where that is not known.
    """
    powers = 2.0 ** torch.arange(_NUM_RUNGS, dtype=marks.own.dtype, device=marks.own.device)
    step = (marks.own_width.amin(-1, keepdim=True) * powers).unsqueeze(-2)
    first = marks.own.nan_to_num(math.inf).amin(-1, keepdim=True).unsqueeze(-1)
    last = marks.own.nan_to_num(-math.inf).amax(-1, keepdim=True).unsqueeze(-1)
    rungs = torch.cat([first - step, last + step], -2)
    if limits is not None:
        rungs = torch.minimum(torch.maximum(rungs, limits[:, :1, None]), limits[:, 1:, None])
    places, reaches = torch.where(marks.other.isnan(), first.squeeze(-1), marks.other), marks.other_reach
    looked = torch.cat([rungs.flatten(-2), places], -1)
    looked = looked.round().clamp_min(0.0) + 0.5 if over.lattice else looked
    sizes, unseen = log_size(looked)
    count = 2 * _NUM_RUNGS
    size, unseen = sizes[..., :count].reshape(rungs.shape), unseen[..., :count].reshape(rungs.shape)
    # A density's peak is about one over its width, which is large for counts: their coordinate has no unit.
    peak = -torch.log(marks.own_width.amin(-1).clamp_min(1.0))
    largest = torch.maximum(sizes.amax(-1), peak)[..., None, None]
    alive = size > largest - NEGLIGIBLE
    number = torch.arange(_NUM_RUNGS, device=size.device)
    reach = (torch.where(alive, number, -1).amax(-1, keepdim=True) + 1).clamp_max(_NUM_RUNGS - 1)
    # Nobody sees what lies beyond the last rung, or beyond one where the logarithms overflow: about what is before it.
    last_one = torch.ones_like(alive[..., :1])
    blind = torch.cat([unseen[..., 1:], last_one], -1)
    blind = blind if limits is None else blind & limits.isinf().unsqueeze(-1)
    rising = torch.cat([~last_one, size[..., 1:] > (size[..., :-1] - 0.1).clamp_min(-NEGLIGIBLE)], -1)
    amount = torch.exp((size + torch.log(step)).clamp_max(700.0))
    beyond = torch.where(blind, torch.where(rising, math.inf, amount), 0.0).amax(-1)
    if over.integers_only:  # where the terms of a power are negligible, their sum is not yet
        beyond = torch.maximum(beyond, amount.gather(-1, reach).squeeze(-1))
    low, high = (rungs.gather(-1, reach)[..., i, :] for i in (0, 1))
    beyond = beyond[..., 1] if over.lattice else beyond.sum(-1)
    # The integrand may be large at a narrow mark of another density, and nowhere on a rung.
    seen = sizes[..., count:] > largest.squeeze(-1) - NEGLIGIBLE
    lower = torch.where(seen, places - reaches, math.inf).nan_to_num(math.inf)
    upper = torch.where(seen, places + reaches, -math.inf).nan_to_num(-math.inf)
    low = torch.minimum(low, torch.cat([low, lower], -1).amin(-1, keepdim=True))
    high = torch.maximum(high, torch.cat([high, upper], -1).amax(-1, keepdim=True))
    if limits is not None:
        low, high = torch.maximum(low, limits[:, :1]), torch.minimum(high, limits[:, 1:])
    return Range(low, high, beyond)


def place_edges(
    over: Density, marks: Marks, reach: Range, crossings: Tensor | None = None, num_integers: int = 0
) -> Tensor:
    """Edges of panels in ascending order, (elements, edges); some panels are empty.

    Args:
        over: The density that is integrated over.
        marks: Marks and kinks in its coordinate.
        reach: The range of the integrand.
        crossings: More edges.
        num_integers: So many integers, from 0 on, lie in panels of at most 16.
    """
    centre, width = marks.own[..., :1].nan_to_num(0.0), marks.own_width[..., :1]
    low, high = reach.low, reach.high
    if over.lattice:
        dtype, device = centre.dtype, centre.device
        lowest = torch.as_tensor(over.low, dtype=dtype, device=device).expand_as(low)
        highest = torch.as_tensor(over.high, dtype=dtype, device=device).expand_as(high) + 1
        low = torch.maximum(low.floor(), lowest)
        high = torch.maximum(torch.minimum(high.ceil(), highest), low + 1)
    share = torch.arange(_NUM_STEPS + 1, dtype=centre.dtype, device=centre.device) / _NUM_STEPS
    parts = [centre]
    for sign, end in ((-1.0, low), (1.0, high)):
        distance = (sign * (end - centre.detach())).clamp_min(1e-300)
        parts.append(centre + sign * width * (distance / width) ** share)
    parts.append(_rings(marks.own[..., 1:], marks.own_width[..., 1:], high - low))
    parts.append(_rings(marks.other, marks.other_width, high - low))
    if crossings is not None:
        parts.append(crossings)
    if over.lattice:
        start = low.clamp_min(NUM_NODES)
        share = torch.arange(_NUM_COUNT_STEPS + 1, dtype=centre.dtype, device=centre.device) / _NUM_COUNT_STEPS
        parts.append(start * (high.clamp_min(NUM_NODES) / start) ** share)
        parts.append(_around(marks.kinks, torch.ones_like(marks.kinks), (-0.5, 0.5)))
        steps = torch.arange(0, num_integers + NUM_NODES, NUM_NODES, dtype=centre.dtype, device=centre.device)
        parts.append(steps.expand(*centre.shape[:-1], -1))
    else:
        narrowest = marks.own_width.amin(-1, keepdim=True).expand_as(marks.kinks)
        parts.append(_around(marks.kinks, narrowest, _KINK_RINGS))
    # Of edges at one place the first moves them all: a kink, which was put last, comes before a mark.
    edges = torch.cat([*reversed(parts), low, high], -1)
    edges = torch.minimum(torch.maximum(torch.where(edges.isnan(), low, edges), low), high)
    edges = edges.sort(stable=True, dim=-1).values
    return edges.detach().round() if over.lattice else _joined(edges)


def _joined(edges: Tensor) -> Tensor:
    """Edges at one place move as one: an empty panel between them would otherwise have a derivative."""
    place = torch.arange(edges.shape[-1], device=edges.device).expand_as(edges)
    new = torch.cat([torch.ones_like(place[..., :1], dtype=torch.bool), edges[..., 1:] > edges[..., :-1]], -1)
    return edges.gather(-1, torch.where(new, place, 0).cummax(-1).values)


def _rings(middle: Tensor, width: Tensor, span: Tensor) -> Tensor:
    """Edges at a mark and geometrically away from it, as far as the range is wide."""
    share = torch.arange(_NUM_RINGS, dtype=middle.dtype, device=middle.device) / (_NUM_RINGS - 1)
    share = share**1.25  # closer to each other next to the mark
    distance = width.unsqueeze(-1) * (span / width).clamp_min(16.0).unsqueeze(-1) ** share
    middle = middle.unsqueeze(-1)
    return torch.cat([middle - distance, middle, middle + distance], -1).flatten(-2)


def _around(middle: Tensor, width: Tensor, multiples: tuple[float, ...]) -> Tensor:
    rings = torch.tensor(multiples, dtype=middle.dtype, device=middle.device)
    return (middle.unsqueeze(-1) + width.unsqueeze(-1) * rings).flatten(-2)
