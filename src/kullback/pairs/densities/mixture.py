"""Mixtures of univariate laws: log f = log Σ wᵢ fᵢ, the components along a dimension before the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from kullback._core.numbers import as_tensor
from kullback.pairs.densities.chart import Mark
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.nesting import as_mixture, flat
from kullback.pairs.densities.point import Point
from kullback.pairs.densities.reading import Given, component_lift
from kullback.pairs.densities.tails import Tail
from kullback.pairs.support import Bound
from kullback.pairs.visible import at_most

# The drop of a density that is 0, and its logarithm: beyond anything a weight can make up for.
ABSENT, FARTHEST = 1e100, 1e7
# In parts of an end: what a map may have rounded a point by that is next to it.
_ROUNDED = 1e-15
# The logarithm of a weight that is none.
_LEAST = -1e5


def describe_mixture(given: Given, describe: Callable[[Given], Law]) -> Law:
    """The law of the mixture from that of its components."""
    mixture = as_mixture(given.distribution)
    assert mixture is not None
    lift = component_lift(given.lift)
    shares, component, merge = flat(mixture)
    part = describe(Given(component, lambda tensor: lift(merge(tensor))))
    log_share = lift(shares)

    def log_density(point: Point) -> LogDensity:
        spread = point.spread()
        level, drop, log_drop = part.log_density(spread)
        outside = outside_of(part, spread)
        if log_drop is None:
            level = level if drop is None else level - drop
            if outside is None:
                return LogDensity(_log_sum(log_share + level, log_share))
            drop = log_drop = torch.zeros_like(level + log_share)
        assert drop is not None
        if outside is not None:
            drop = torch.where(outside, ABSENT, drop)
            log_drop = torch.where(outside, FARTHEST, log_drop)
        # What every component drops by is left out of the sum, so that its logarithm exists.
        absent = log_share == -math.inf
        least = torch.where(absent, math.inf, drop).amin(-2, keepdim=True)
        inner = log_share + level - (drop - least)
        log_least = torch.where(absent, math.inf, log_drop).amin(-2)
        return LogDensity(torch.logsumexp(inner, -2), least.squeeze(-2), log_least)

    return Law(
        part.chart,
        log_density,
        _reach(part.lower, log_share, lowest=True),
        _reach(part.upper, log_share, lowest=False),
        _joint(part.lower_tails, _at_end(part.lower, log_share, lowest=True)),
        _joint(part.upper_tails, _at_end(part.upper, log_share, lowest=False)),
        marks=[one for mark in [*part.marks, *part.bulk] for one in _each(mark)],
        moving=part.moving,
        unsure=part.unsure,
        kinks=tuple(k for kink in [*part.kinks, *_moving_ends(part)] for k in kink.unbind(-2)),
    )


def _log_sum(terms: Tensor, log_share: Tensor) -> Tensor:
    """Log Σ e^(term) over components."""
    if terms.shape[-2] == 2 and at_most(-log_share, -_LEAST):
        return torch.logaddexp(*terms.unbind(-2))
    return torch.logsumexp(terms, -2)


def _each(mark: Mark) -> list[Mark]:
    """One mark per component."""
    at, width = torch.broadcast_tensors(mark.at, mark.width)  # type: ignore[no-untyped-call]
    lower = [None] * at.shape[-2] if mark.lower is None else mark.lower.expand_as(at).unbind(-2)
    upper = [None] * at.shape[-2] if mark.upper is None else mark.upper.expand_as(at).unbind(-2)
    return [Mark(*parts) for parts in zip(at.unbind(-2), width.unbind(-2), lower, upper, strict=True)]


def _moving_ends(part: Law) -> list[Tensor]:
    """Ends that differ between components; a number where one is at infinity, whose place has no derivative."""
    ends = [end for end in (part.lower, part.upper) if part.moving and isinstance(end, Tensor)]
    return [torch.where(end.isfinite(), end, 0.0) for end in ends]


def outside_of(part: Law, point: Point) -> Tensor | None:
    """Where a point lies outside a component; a point at an end that a map has rounded does not."""
    found: Tensor | None = None
    for end, sign in ((part.lower, 1.0), (part.upper, -1.0)):
        if part.moving and isinstance(end, Tensor):
            beyond = sign * point.standard(end, torch.ones_like(end))[0] < -_ROUNDED * end.abs()
            found = beyond if found is None else found | beyond
    return found


def _reach(end: Bound, log_share: Tensor, *, lowest: bool) -> Bound:
    """The outermost end of components that have weight."""
    if not isinstance(end, Tensor):
        return end
    absent = math.inf if lowest else -math.inf
    counted = torch.where(log_share == -math.inf, absent, end)
    return counted.amin(-2) if lowest else counted.amax(-2)


def _at_end(end: Bound, log_share: Tensor, *, lowest: bool) -> Tensor:
    """The components that have weight and reach as far as any."""
    reach = _reach(end, log_share, lowest=lowest)
    present = log_share > -math.inf
    return present & (end == reach.unsqueeze(-2)) if isinstance(reach, Tensor) else present


def _joint(tails: list[Tail], present: Tensor) -> list[Tail]:
    """The heaviest tail of these components: the smallest exponent, and of these the smallest rate."""
    joined = []
    for tail in tails:
        there = present if tail.where is None else present & tail.where
        exponent = torch.where(there, as_tensor(tail.exponent), math.inf)
        least = exponent.amin(-2, keepdim=True)
        rate = torch.where(exponent == least, as_tensor(tail.rate), math.inf).amin(-2)
        joined.append(Tail(tail.kind, least.squeeze(-2), rate, where=there.any(-2)))
    return [unless_heavier(tail, joined) for tail in joined]


def unless_heavier(tail: Tail, tails: list[Tail]) -> Tail:
    """The tail where no heavier one stands beside it."""
    mask = tail.where
    for other in tails:
        if other.kind < tail.kind and other.where is not None and mask is not None:
            mask = mask & ~other.where
    return tail._replace(where=mask)
