"""Two univariate laws as both see each other: integrals over either, with the other's density 0 where it does not live.

An integral for KL never leaves q's support, so a law's density is only right inside its own. Here p may reach beyond q.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.pairs.densities.chart import Mark
from kullback.pairs.densities.expectation import Pieces, Sample, pieces_of
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.point import Point
from kullback.pairs.support import Bound, less, no_more
from kullback.pairs.visible import hidden, surely

# −log of a density that is 0, beyond whatever can be made of it.
_NOWHERE = 1e100


def seen_from(
    p: Distribution,
    q: Distribution,
    *,
    closely: bool = False,
    index: Tensor | None = None,
    component: Tensor | None = None,
) -> Pieces:
    """Both laws for integrals over p.

    Args:
        p: The law whose coordinate is used.
        q: The other.
        closely: Whether log-ratios are made of differences of parameters where that knows more.
        index: Which elements of the batch; all if None.
        component: Which component of p for each, see `Pieces.part`.
    """
    pieces = pieces_of(p, q, index, component, closely=closely)

    def part(some: Tensor, component: Tensor | None = None, /) -> Pieces:
        chosen = some if index is None else index[some]
        return seen_from(p, q, closely=closely, index=chosen, component=component)

    return pieces._replace(q=everywhere(pieces.q, pieces.p), part=part)


def everywhere(law: Law, other: Law) -> Law:
    """The law with a density on the whole line; its ends are kinks for a law that reaches beyond them."""
    ends = inner_ends(law, other)
    if not ends:
        return law

    def log_density(point: Point) -> LogDensity:
        level, drop, _ = law.log_density(point)
        outside = torch.zeros_like(level, dtype=torch.bool)
        for end, sign in ends:
            outside = outside | (sign * point.standard(end, torch.ones_like(end))[0] < 0)
        total = level if drop is None else level - drop
        return LogDensity(torch.where(outside, -_NOWHERE, total))

    # An end is the edge of a panel. A mark of no width costs a ladder down to it, for which fixed panels are too few.
    marks = [] if hidden() else [_mark_at(end) for end, _ in ends]
    # One at infinity would be the edge of no panel, and its coordinate has no derivative.
    kinks = (*law.kinks, *(torch.where(end.isfinite(), end, 0.0) for end, _ in ends))
    return law._replace(log_density=log_density, kinks=kinks, marks=[*law.marks, *marks])


def inner_ends(law: Law, other: Law) -> list[tuple[Tensor, float]]:
    """The ends of a law beyond which the other may reach, with the sign that leads inside."""
    beyond = [(law.lower, 1.0, less(other.lower, law.lower)), (law.upper, -1.0, less(law.upper, other.upper))]
    # Ends that are parameters are left in: such a density may be a constant that knows nothing of the nodes.
    return [
        (_as_tensor(end, law), sign)
        for end, sign, reached in beyond
        if _is_somewhere(end) and ((law.moving and isinstance(end, Tensor)) or _anywhere(reached))
    ]


def _mark_at(end: Tensor) -> Mark:
    """A mark of no width; one that says nothing where an end of some elements is at infinity."""
    there = end.isfinite()
    return Mark(torch.where(there, end, 0.0), torch.where(there, 0.0, torch.ones_like(end)))


def _is_somewhere(end: Bound) -> bool:
    """Whether there may be an end."""
    return isinstance(end, Tensor) or math.isfinite(end)


def _as_tensor(end: Bound, law: Law) -> Tensor:
    """An end that is a number, of a map onto an interval, as one with a dimension for the nodes."""
    if isinstance(end, Tensor):
        return end
    device = next((mark.at.device for mark in (*law.marks, *law.bulk)), None)
    return torch.full((1,), end, dtype=torch.float64, device=device)


def _anywhere(mask: Tensor | bool) -> bool:
    """Whether the mask may hold for some element."""
    return mask if isinstance(mask, bool) else not surely(~mask)


def share_nothing(pieces: Pieces) -> Tensor | bool:
    """Where p and q have no point in common, decided on parameters, with the dimension of the nodes."""
    p, q = pieces.p, pieces.q
    return no_more(p.upper, q.lower) | no_more(q.upper, p.lower)


def disjoint(pieces: Pieces) -> Tensor | bool:
    """The same without that dimension."""
    apart = share_nothing(pieces)
    if not isinstance(apart, Tensor):
        return apart
    return apart.squeeze(-1) if pieces.log_share is None else apart.flatten(-2).squeeze(-1)


def log_weight(sample: Sample) -> Tensor:
    """The size of a bounded integrand: that of p itself."""
    return sample.log_weight


def at_some(index: Tensor, value: Tensor, other: Tensor) -> Tensor:
    """The values with those of some elements, counted through the whole batch, replaced."""
    return value.reshape(-1).index_copy(0, index, other.reshape(-1)).reshape(value.shape)
