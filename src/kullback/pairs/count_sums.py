"""Sums over counts by recorded programs: KL(p ‖ q) of all elements at once, those left out that need more."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.shapes import joint_shape
from kullback.integrate.recorded_series import Sums, Window
from kullback.pairs.densities.count_programs import Terms, count_programs_for
from kullback.pairs.densities.counts import CountLaw
from kullback.pairs.densities.expectation import Expectation, Sample
from kullback.pairs.densities.law import LogDensity
from kullback.pairs.densities.parameter_table import Again, Attached, is_followed
from kullback.pairs.univariate import CANCELLED, ROUNDING, SMALL, first_order, second_error, second_order


def is_near(value: Tensor, size: Tensor) -> Tensor:
    """Where the second form keeps more digits."""
    return value < (CANCELLED * size).clamp_min(SMALL)


def by_programs(
    p: Distribution, q: Distribution, window: Window, again: Again | None = None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Value and error of KL, and which elements no program holds, flat; None where there are no programs.

    Args:
        p: The first law.
        q: The second.
        window: Which counts matter.
        again: The value by torch's operations, for derivatives of derivatives; None if there are no derivatives, and
            laws that are close are somebody else's.
    """
    batch, followed = joint_shape(p.batch_shape, q.batch_shape), is_followed(p, q)
    first = count_programs_for(p, q, _first_terms, window, both=False, followed=followed)
    filled = None if first is None or 0 in batch else first.fill(p, q, batch)
    if first is None or filled is None:
        return None
    with torch.no_grad():
        found = first.sums(filled, None)
        value, error, lost, slopes = found.value, _error(found), _is_lost(found), found.slopes
        upper_p, upper_q = filled.table[0], filled.table[1]
        infinite = ~lost & ((upper_p > upper_q) | (found.lacking > 0))
        near = ~lost & ~infinite & (upper_p == upper_q) & is_near(value, found.size)
        if again is None:
            lost = lost | near
        elif bool(near.any()):
            index = near.nonzero().squeeze(-1)
            second = count_programs_for(p, q, _second_terms, window, both=True, followed=followed)
            other = None if second is None else second.fill(p, q, batch)
            if second is None or other is None:
                lost = lost | near
            else:
                close = second.sums(other, index)
                value = value.index_copy(0, index, close.value)
                error = error.index_copy(0, index, second_error(_expectation(close)))
                lost = lost.index_copy(0, index, _is_lost(close))
                if slopes is not None and close.slopes is not None:
                    slopes = slopes.index_copy(1, index, close.slopes)
        if slopes is not None:
            slopes = torch.where(infinite | lost | (value < 0), 0.0, slopes)
        value = torch.where(infinite, math.inf, value.clamp_min(0.0))
        error = torch.where(infinite, 0.0, error)
    if slopes is not None and again is not None and not bool(lost.all()):
        value = Attached(filled, slopes, (p, q), again).to(value)
    return value, error, lost


def _expectation(found: Sums) -> Expectation:
    rounding = 8 * torch.finfo(found.size.dtype).eps * found.size
    return Expectation(found.value, found.size, rounding, found.noise)


def _error(found: Sums) -> Tensor:
    return _expectation(found).error + ROUNDING * found.noise


def _is_lost(found: Sums) -> Tensor:
    """Where no program holds."""
    lost = found.lost | found.value.isnan()
    return lost if found.slopes is None else lost | found.slopes.isnan().any(0)


def _first_terms(p: CountLaw, q: CountLaw, k: Tensor) -> Terms:
    return at_counts(p.log_pmf(k), q.log_pmf(k), first_order)


def _second_terms(p: CountLaw, q: CountLaw, k: Tensor) -> Terms:
    return at_counts(p.log_pmf(k), q.log_pmf(k), second_order)


def at_counts(log_p: Tensor, log_q: Tensor, f: Callable[[Sample], Tensor]) -> Terms:
    """The integrand, whether p has a count that q lacks, and p·(|log p| + |log q|), where either law may lack some."""
    none_p, none_q = log_p == -math.inf, log_q == -math.inf
    both = ~none_p & ~none_q
    inner_p, inner_q = torch.where(both, log_p, 0.0), torch.where(both, log_q, 0.0)
    value = torch.where(both, f(Sample(inner_p, inner_p, LogDensity(inner_q))), 0.0)
    if f is second_order:
        only_q = none_p & ~none_q
        value = value + torch.where(only_q, torch.exp(torch.where(only_q, log_q, 0.0)), 0.0)
    heights = inner_p.detach().abs() + inner_q.detach().abs()
    return value, ~none_p & none_q, torch.exp(inner_p.detach()) * heights
