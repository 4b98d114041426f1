"""KL(p ‖ q) of any two univariate continuous laws, mixtures included, by an integral over p.

    KL = ∫ p·r dx,    r = log p − log q,

in p's own coordinate, on panels graded towards wherever p or log q changes behaviour. Where that sum cancels, p and q
being close, ∫ p·φ(−r) dx + q(p = 0) with φ(x) = eˣ − 1 − x is the same number (both densities integrate to 1) by an
integrand that is nowhere negative and of second order; its panels follow the mass of q, too. Where the support of p is
not inside that of q, or the tails make the expectation diverge, the answer is infinite by comparison of parameters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.shapes import joint_shape
from kullback.integrate.recorded import Found
from kullback.pairs import support
from kullback.pairs.densities import describable, in_family
from kullback.pairs.densities.expectation import NOWHERE as _NOWHERE
from kullback.pairs.densities.expectation import Expectation, Pieces, Sample, integral_over, log_size_of, pieces_of
from kullback.pairs.densities.inclusion import is_infinite, same_support
from kullback.pairs.densities.log_ratio import closable, ratio_of
from kullback.pairs.densities.meeting import log_weight as _log_weight
from kullback.pairs.densities.meeting import seen_from
from kullback.pairs.densities.nesting import as_mixture
from kullback.pairs.densities.parameter_table import Again, Attached, is_followed
from kullback.pairs.densities.placing import sharpness
from kullback.pairs.densities.programs import Layout, Programs, is_lost, programs_for
from kullback.pairs.dispatch import infinite_everywhere
from kullback.pairs.registry import Rule, answer_generally
from kullback.pairs.visible import at_most, hidden, surely
from kullback.special import expm1mx

# Below this share of ∫p|r| the sum has cancelled three digits; below this value it is close to the rounding of r.
CANCELLED, SMALL = 1e-3, 2e-4
# So large a part of a value up to the second may be rounding before the other form is asked, too.
ROUNDED, MODERATE = 2e-11, 0.1
# Of a log-density, in parts of its size.
ROUNDING = 4e-15
# Of the logarithm of a density that is 0.
_ABSENT = -1e90
# The coordinate of points at an end of a support.
_AT_END = 60.0
# Logarithms of products are formed as sums above the first; e^690 is beyond what a sum of them can hold.
_LARGE, _BEYOND, _HUGE = 100.0, 700.0, math.exp(690.0)


def kl_by_integral(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor]:
    """Value and error estimate."""
    if not hidden():
        native = _by_programs(p, q)
        if native is not None:
            return native
    return _by_operations(p, q, None)


def _by_operations(p: Distribution, q: Distribution, some: Tensor | None) -> tuple[Tensor, Tensor]:
    """Value and error by torch's operations, of all elements or of those with an index."""
    pieces = pieces_of(p, q, some)
    infinite = is_infinite(pieces)
    if isinstance(infinite, bool) or hidden() or infinite.ndim == 0 or not bool(infinite.any()):
        if infinite is True or (isinstance(infinite, Tensor) and surely(infinite)):
            return _all_infinite(p, q, some)
        value, error = _finite(pieces, p, q, some)
        infinite = (value > _HUGE) | infinite
        return torch.where(infinite, math.inf, value.clamp_min(0.0)), torch.where(infinite, 0.0, error)
    whole = _all_infinite(p, q, some)
    if bool(infinite.all()):
        return whole
    # An integral that diverges would be refined in vain.
    index = (~infinite).flatten().nonzero().squeeze(-1)
    assert pieces.part is not None
    value, error = _finite(pieces.part(index), p, q, index if some is None else some[index])
    value = torch.where(value > _HUGE, math.inf, value.clamp_min(0.0))
    pairs = zip(whole, (value, error), strict=True)
    found = [a.to(b.dtype).expand(infinite.numel()).index_copy(0, index, b).reshape(infinite.shape) for a, b in pairs]
    return found[0], found[1]


class _Part(NamedTuple):
    """What programs know of some elements.

    Attributes:
        value: The divergence.
        error: Its error.
        lost: Which of the elements no program holds.
        slopes: Derivatives by the inputs, with a column for each element or component; None if there are none.
    """

    value: Tensor
    error: Tensor
    lost: Tensor
    slopes: Tensor | None


def _by_programs(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor] | None:
    """Value and error by recorded programs; None where there are none."""
    found = by_programs(p, q, lambda p, q: _by_operations(p, q, None)[0])
    if found is None:
        return None
    value, error, lost = found
    if bool(lost.any()):
        if bool(lost.all()):
            return None
        index = lost.nonzero().squeeze(-1)
        pairs = zip((value, error), _by_operations(p, q, index), strict=True)
        value, error = (whole.index_copy(0, index, part) for whole, part in pairs)
    batch = joint_shape(p.batch_shape, q.batch_shape)
    return value.reshape(batch), error.reshape(batch)


def by_programs(p: Distribution, q: Distribution, again: Again | None = None) -> tuple[Tensor, Tensor, Tensor] | None:
    """Value, error and which elements no program holds, flat; None where there are none.

    Args:
        p: The first law.
        q: The second.
        again: The value by torch's operations, for derivatives of derivatives; None if there are no derivatives, and
            laws that are close are somebody else's.
    """
    batch, followed = joint_shape(p.batch_shape, q.batch_shape), is_followed(p, q)
    first = programs_for(p, q, first_order, size_of_p, follow_q=False, followed=followed)
    layout = None if first is None or 0 in batch else first.layout(p, q, batch)
    if first is None or layout is None:
        return None
    wanted = layout.infinite == 0
    if layout.foreseen is not None:
        wanted &= layout.foreseen
    elements = None if bool(wanted.all()) else wanted.nonzero().squeeze(-1)
    with torch.no_grad():
        if elements is None:
            found = _finite_by_programs(p, q, first, layout, None, closely=again is not None)
        else:
            lost = torch.zeros_like(wanted) if layout.foreseen is None else ~layout.foreseen
            table = layout.filled.table
            slopes = table.new_zeros(len(layout.filled.inputs), table.shape[1])
            whole = torch.full_like(layout.infinite, math.inf), torch.zeros_like(layout.infinite)
            found = _Part(*whole, lost, slopes if followed else None)
            if len(elements):
                some = _finite_by_programs(p, q, first, layout, elements, closely=again is not None)
                found = _placed(found, some, elements, layout.filled.components)
    value, error, lost, slopes_found = found
    if slopes_found is not None and again is not None and not bool(lost.all()):
        value = Attached(layout.filled, slopes_found, (p, q), again).to(value)
    return value, error, lost


def _placed(whole: _Part, part: _Part, index: Tensor, components: int) -> _Part:
    """The whole with a part of it at some elements."""
    columns = (
        index
        if components == 1
        else (index.unsqueeze(-1) * components + torch.arange(components, device=index.device)).flatten()
    )
    slopes = None
    if whole.slopes is not None and part.slopes is not None:
        slopes = whole.slopes.index_copy(1, columns, part.slopes)
    value, error, lost = (a.index_copy(0, index, b) for a, b in zip(whole[:3], part[:3], strict=True))
    return _Part(value, error, lost, slopes)


def _finite_by_programs(
    p: Distribution, q: Distribution, first: Programs, layout: Layout, elements: Tensor | None, *, closely: bool
) -> _Part:
    """The elements with an index, or all, and of those that are close only with `closely`."""
    plain = first.integral(layout, elements)
    value, error, slopes = plain.value, plain.error + ROUNDING * plain.noise, plain.slopes
    lost = is_lost(plain)
    same = layout.same if elements is None else layout.same.index_select(0, elements)
    near = _near(plain, error) & ~lost
    # The second form by programs does not know what p leaves out of q.
    # Nor does it what ends that move leave out.
    known = closely and as_mixture(p) is None and not (slopes is not None and first.moving)
    lost = lost | (near & (same == 0)) if known else lost | near
    near = near & ~lost
    found = _Part(value, error, lost, slopes)
    if bool(near.any()):
        close = near.nonzero().squeeze(-1)
        part = _close_by_programs(p, q, close if elements is None else elements[close], followed=slopes is not None)
        found = found._replace(lost=lost | near) if part is None else _placed(found, part, close, 1)
    value, error, lost, slopes = found
    infinite = value > _HUGE
    if slopes is not None:
        nothing = infinite | lost | (value < 0)
        components = layout.filled.components
        if components > 1:
            nothing = nothing.unsqueeze(-1).expand(-1, components).reshape(-1)
        slopes = torch.where(nothing, 0.0, slopes)
    value = torch.where(infinite, math.inf, value.clamp_min(0.0))
    return _Part(value, torch.where(infinite, 0.0, error), lost, slopes)


def _close_by_programs(p: Distribution, q: Distribution, elements: Tensor, *, followed: bool) -> _Part | None:
    """The second form of these elements; None if there is no program of it."""
    second = programs_for(p, q, second_order, size_of_both, follow_q=True, closely=closable(p, q), followed=followed)
    layout = None if second is None else second.layout(p, q, joint_shape(p.batch_shape, q.batch_shape))
    if second is None or layout is None or layout.foreseen is not None:
        return None
    found = second.integral(layout, elements)
    steep = sharpness(pieces_of(p, q, elements))
    return _Part(found.value, second_error(found, steep), is_lost(found), found.slopes)


size_of_p = functools.partial(log_size_of, follow_q=False)
size_of_both = functools.partial(log_size_of, follow_q=True)


def _finite(pieces: Pieces, p: Distribution, q: Distribution, index: Tensor | None) -> tuple[Tensor, Tensor]:
    """Value and error of integrals that exist."""
    plain = integral_over(pieces, first_order, apart=True)
    value, error = plain.value, plain.error + ROUNDING * plain.noise
    near = _near(plain, error)
    if hidden():
        near = near & same_support(pieces)
    if surely(~near):
        return value, error
    beyond = None if hidden() or _covers(p, same_support(pieces)) else functools.partial(_beyond, p, q, index)
    return _closer(pieces_of(p, q, index, closely=closable(p, q)), near, value, error, beyond)


def _all_infinite(p: Distribution, q: Distribution, some: Tensor | None) -> tuple[Tensor, Tensor]:
    value = infinite_everywhere(p, q)
    if some is not None:
        value = value.new_full((len(some),), math.inf)
    return value, torch.zeros_like(value)


def _near(plain: Expectation | Found, error: Tensor) -> Tensor:
    """Where the second form keeps more digits: r averages to next to nothing, or its roundings are no longer small."""
    value = plain.value.detach()
    rounded = (error.detach() > ROUNDED * value) & (value < MODERATE)
    return (value < (CANCELLED * plain.size).clamp_min(SMALL)) | rounded


def _covers(p: Distribution, same: Tensor | bool) -> bool:
    """Whether p is known to leave out nothing of q; a mixture may have gaps."""
    return as_mixture(p) is None and (same if isinstance(same, bool) else surely(same))


def _beyond(p: Distribution, q: Distribution, index: Tensor | None, some: Tensor | None) -> Expectation:
    """q(p = 0)."""
    if some is not None:
        index = some if index is None else index[some]
    return integral_over(seen_from(q, p, index=index), _where_p_is_not, log_size=_log_weight, apart=True)


def _where_p_is_not(sample: Sample) -> Tensor:
    return torch.where(sample.log_q.total() < _ABSENT, torch.exp(sample.log_weight), 0.0)


def _closer(
    pieces: Pieces,
    near: Tensor,
    value: Tensor,
    error: Tensor,
    beyond: Callable[[Tensor | None], Expectation] | None,
) -> tuple[Tensor, Tensor]:
    """Value and error with those of the second form where p and q are near."""

    def found(pieces: Pieces, index: Tensor | None) -> tuple[Tensor, Tensor]:
        close = integral_over(pieces, second_order, follow_q=True)
        error = second_error(close, 0.0 if hidden() else sharpness(pieces))
        if beyond is None:
            return close.value + _moving_ends(pieces), error
        rest = beyond(index)
        return close.value + rest.value, error + rest.error

    if hidden() or near.ndim == 0 or pieces.part is None or surely(near):
        close = found(pieces, None)
        return torch.where(near, close[0], value), torch.where(near, close[1], error)
    index = near.flatten().nonzero().squeeze(-1)
    pairs = zip((value, error), found(pieces.part(index), index), strict=True)
    result = [a.reshape(-1).index_copy(0, index, b.reshape(-1)).reshape(a.shape) for a, b in pairs]
    return result[0], result[1]


def _moving_ends(pieces: Pieces) -> Tensor | float:
    """What an end of q or p that moves takes from or gives to q(p = 0): 0 where they agree, with a derivative."""
    p, q = pieces.p, pieces.q
    if pieces.frozen or pieces.log_share is not None or not (p.moving or q.moving):
        return 0.0
    total: Tensor | float = 0.0
    for end_p, end_q, sign in ((p.lower, q.lower, 1.0), (p.upper, q.upper, -1.0)):
        if isinstance(end_p, Tensor) and isinstance(end_q, Tensor):
            there = end_p.isfinite() & (end_p == end_q)
            gap = torch.where(there, sign * (torch.where(there, end_p, 0.0) - torch.where(there, end_q, 0.0)), 0.0)
            point = pieces.over.chart.point(torch.full_like(gap, -sign * _AT_END))
            height = torch.exp(torch.where(there, q.log_density(point).total(), 0.0))
            total = total + (height * gap).squeeze(-1)
    return total


def second_error(close: Expectation | Found, sharpness: Tensor | float = 0.0) -> Tensor:
    """The slope of φ at r, averaged over p, is at most √(2·KL) for small r."""
    slope = torch.sqrt(2 * close.value.detach().clamp_min(0.0)) + torch.finfo(close.value.dtype).eps
    return close.error + ROUNDING * slope * (1 + close.noise + sharpness)


def first_order(sample: Sample) -> Tensor:
    """p·r·dx; what q drops by is multiplied with p by logarithms where it is large."""
    log_weight, log_p, (level, drop, log_drop), *_ = sample
    weight = torch.exp(log_weight)
    if drop is None:
        return weight * (log_p - level)
    if log_drop is None or at_most(log_drop, _LARGE):
        return weight * ((log_p - level) + drop)
    value = weight * (log_p - level)
    large = log_drop > _LARGE
    # Logarithms beyond this have no digits left for their sum, and the weight is 0 by any measure.
    real = large & (log_weight > _NOWHERE)
    by_log = torch.where(real, torch.exp(torch.where(real, log_weight + log_drop, 0.0).clamp_max(_BEYOND)), 0.0)
    return value + torch.where(large, by_log, weight * torch.where(large, 0.0, drop))


def second_order(sample: Sample) -> Tensor:
    """p·φ(−r)·dx; far from r = 0 its parts q and p·(r − 1)."""
    log_weight, log_p, log_q, _, log_ratio = sample
    r = log_p - log_q.total() if log_ratio is None else ratio_of(sample)
    small = r.abs() < 1
    weight = torch.exp(log_weight)
    close = weight * expm1mx(torch.where(small, -r, 0.0))
    apart = torch.exp((log_weight - torch.where(small, 0.0, r)).clamp_max(_BEYOND)) + weight * (r - 1)
    return torch.where(small, close, apart)


def rule_for(p: Distribution, q: Distribution) -> Rule | None:
    """The rule for two univariate laws that have a description."""
    if not (describable(p) and describable(q)):
        return None
    known = _known_support(p, q)
    inside = support.contained(p, q) if known else True
    if isinstance(inside, Tensor) and surely(~inside):
        return None
    source = "∫ p·(log p − log q) on graded Gauss–Legendre panels"
    return Rule(type(p), type(q), kl_by_integral, "integral", source, decides_support=not known)


def _known_support(p: Distribution, q: Distribution) -> bool:
    """Whether torch says where both live; of an affine map it does not."""
    return all(in_family(side) and support.interval(side) is not None for side in (p, q))


answer_generally(rule_for)
