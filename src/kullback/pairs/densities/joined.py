"""Mixtures for recorded programs: the law of components that are given one by one, each with its own tensors.

The same law as `mixture` describes along a dimension, by operations on numbers only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.mixture import ABSENT, FARTHEST, outside_of, unless_heavier
from kullback.pairs.densities.point import Point
from kullback.pairs.densities.tails import Tail
from kullback.pairs.support import Bound

Choose = Callable[[Tensor, Tensor], Tensor]


def joined_law(parts: Sequence[Law], log_shares: Sequence[Tensor]) -> Law:
    """The law of a mixture; its chart is that of the first component."""
    first = parts[0]

    def log_density(point: Point) -> LogDensity:
        densities = [part.log_density(point) for part in parts]
        outside = [outside_of(part, point) for part in parts]
        if densities[0].log_drop is None and outside[0] is None:
            return LogDensity(log_sum([share + f.total() for share, f in zip(log_shares, densities, strict=True)]))
        found = [_with_drop(one, beyond) for one, beyond in zip(densities, outside, strict=True)]
        # What every component drops by is left out of the sum, so that its logarithm exists.
        levels, drops, log_drops = ([one[i] for one in found] for i in range(3))
        least, log_least = (_chosen(part, log_shares, torch.minimum, math.inf) for part in (drops, log_drops))
        inner = [share + level - (drop - least) for share, level, drop in zip(log_shares, levels, drops, strict=True)]
        return LogDensity(log_sum(inner), least, log_least)

    return Law(
        first.chart,
        log_density,
        _reach([part.lower for part in parts], log_shares, torch.minimum, math.inf),
        _reach([part.upper for part in parts], log_shares, torch.maximum, -math.inf),
        _tails([part.lower_tails for part in parts], log_shares),
        _tails([part.upper_tails for part in parts], log_shares),
        marks=[mark for part in parts for mark in (*part.marks, *part.bulk)],
        moving=first.moving,
        unsure=first.unsure,
        kinks=tuple(kink for part in parts for kink in (*part.kinks, *_moving_ends(part))),
    )


def log_sum(terms: Sequence[Tensor]) -> Tensor:
    """The logarithm of a sum of exponentials."""
    top = functools.reduce(torch.maximum, [term.detach() for term in terms])
    safe = torch.where(top == -math.inf, 0.0, top)
    total = functools.reduce(torch.add, [torch.exp(term - safe) for term in terms])
    return torch.where(top == -math.inf, -math.inf, safe + torch.log(torch.where(total > 0, total, 1.0)))


def _with_drop(found: LogDensity, outside: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Level, drop and log-drop, these astronomic where a point lies outside the component."""
    level, drop, log_drop = found
    if drop is None or log_drop is None:
        level, drop = found.total(), torch.zeros_like(level)
        log_drop = drop
    if outside is not None:
        drop, log_drop = torch.where(outside, ABSENT, drop), torch.where(outside, FARTHEST, log_drop)
    return level, drop, log_drop


def _chosen(values: Sequence[Tensor], log_shares: Sequence[Tensor], choose: Choose, absent: float) -> Tensor:
    """The least or largest of components that have weight."""
    counted = [torch.where(share == -math.inf, absent, x) for x, share in zip(values, log_shares, strict=True)]
    return functools.reduce(choose, counted)


def _reach(ends: Sequence[Bound], log_shares: Sequence[Tensor], choose: Choose, absent: float) -> Bound:
    found = [end for end in ends if isinstance(end, Tensor)]
    return _chosen(found, log_shares, choose, absent) if found else ends[0]


def _moving_ends(part: Law) -> list[Tensor]:
    return [end for end in (part.lower, part.upper) if part.moving and isinstance(end, Tensor)]


def _tails(each: Sequence[Sequence[Tail]], log_shares: Sequence[Tensor]) -> list[Tail]:
    """The heaviest tail of each kind: the smallest exponent, and of these the smallest rate."""
    joined: list[Tail] = []
    for tails in zip(*each, strict=True):
        there, exponents, rates = [], [], []
        for tail, share in zip(tails, log_shares, strict=True):
            some = share > -math.inf
            there.append(some if tail.where is None else some & tail.where)
            exponents.append(torch.where(there[-1], _number(tail.exponent, share), math.inf))
            rates.append(_number(tail.rate, share))
        least = functools.reduce(torch.minimum, exponents)
        slowest = [torch.where(e == least, rate, math.inf) for e, rate in zip(exponents, rates, strict=True)]
        mask = functools.reduce(torch.logical_or, there)
        joined.append(Tail(tails[0].kind, least, functools.reduce(torch.minimum, slowest), where=mask))
    return [unless_heavier(tail, joined) for tail in joined]


def _number(value: Tensor | float, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.full_like(like, value)
