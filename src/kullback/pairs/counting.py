"""KL(p ‖ q) of any two laws of counts, mixtures included, by a sum over p.

The counts that matter are summed, if there are not more than a thousand. Of a wider law the first 512 counts are (and
the last 512 of a finite one, if they matter); the rest is an integral by Euler and Maclaurin's formula,

    Σ_{k > a} f(k) = ∫_a^∞ f dx + f'(a)/24 − 7f'''(a)/5760 + 31f⁽⁵⁾(a)/967680 − …,    a + ½ whole,

whose derivatives are differences of neighbouring counts. That costs the same for a mean of 10⁴ and of 10¹².
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.shapes import joint_shape
from kullback._core.special._double_double import two_sum
from kullback.integrate.constants import Constants
from kullback.integrate.recorded_series import Window
from kullback.pairs import support
from kullback.pairs.count_sums import at_counts, by_programs, is_near
from kullback.pairs.densities import describable
from kullback.pairs.densities.chart import Log, Logit, Mark
from kullback.pairs.densities.count_mixture import countable, describe_counts
from kullback.pairs.densities.counts import CountLaw
from kullback.pairs.densities.expectation import Expectation, Pieces, Sample, integral_over
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.point import CAP, Point
from kullback.pairs.densities.reading import Chosen
from kullback.pairs.dispatch import infinite_everywhere
from kullback.pairs.registry import Rule, answer_generally
from kullback.pairs.univariate import ROUNDING, first_order, second_error, second_order
from kullback.pairs.visible import at_most, hidden, surely

_HEAD = 512
# Elements with windows of about the same length are summed together; those beyond the last are integrated.
_BUCKETS, _WIDE = Constants([96.0, 256.0, 1024.0]), 3
# What is e^−48 of the largest leaves nothing, whatever the logarithm of the ratio is.
_NEGLIGIBLE = 48.0
# As many counts as the size of one, and a log-ratio that grows with it.
_GROWTH = 2.0
_UP = [0.5, 1.0, 1.5, *(size * 2.0**k for k in range(1, 12) for size in (1.0, 1.5)), *(2.0**k for k in range(12, 50))]
_STEPS = Constants([-step for step in reversed(_UP)] + [0.0] + _UP)
WINDOW = Window([*(-step for step in reversed(_UP)), 0.0, *_UP], _NEGLIGIBLE, _HEAD, 2.0 * _HEAD)

Integrand = Callable[[Sample], Tensor]
Laws = tuple[CountLaw, CountLaw]


def kl_by_series(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor]:
    """Value and error estimate."""
    found = None if hidden() else by_programs(p, q, WINDOW, lambda p, q: _by_operations(p, q, None)[0])
    if found is None:
        return _by_operations(p, q, None)
    value, error, lost = found
    if bool(lost.any()):
        if bool(lost.all()):
            return _by_operations(p, q, None)
        index = lost.nonzero().squeeze(-1)
        pairs = zip((value, error), _by_operations(p, q, index), strict=True)
        value, error = (whole.index_copy(0, index, part) for whole, part in pairs)
    batch = joint_shape(p.batch_shape, q.batch_shape)
    return value.reshape(batch), error.reshape(batch)


def _by_operations(p: Distribution, q: Distribution, some: Tensor | None) -> tuple[Tensor, Tensor]:
    """Value and error by torch's operations, of all elements or of those with an index."""
    laws = _laws(p, q, some)

    def part(index: Tensor | None) -> Laws:
        return laws if index is None else _laws(p, q, index if some is None else some[index])

    law_p, law_q = laws
    infinite = (law_p.upper > law_q.upper).squeeze(-1)
    plain, gap = _total(part, first_order)
    infinite = infinite | gap
    value, error = plain.value, plain.error + ROUNDING * plain.noise
    same = (law_p.upper == law_q.upper).squeeze(-1)
    near = same & ~infinite & is_near(plain.value.detach(), plain.size)
    if not surely(~near):
        close, _ = _total(part, second_order)
        value, error = torch.where(near, close.value, value), torch.where(near, second_error(close), error)
    return torch.where(infinite, math.inf, value.clamp_min(0.0)), torch.where(infinite, 0.0, error)


def sum_over(p: Distribution, q: Distribution, f: Integrand, *, alone: bool = False) -> Tensor:
    """Σ f over the counts that both laws have, or over all that p has; f is given both log-probabilities."""

    def part(index: Tensor | None) -> Laws:
        law_p, law_q = _laws(p, q, index)
        log_pmf = law_q.log_pmf

        def everywhere(k: Tensor, lost: Tensor | None = None) -> Tensor:
            return log_pmf(k, lost).clamp_min(_NOTHING)

        return law_p, law_q._replace(log_pmf=everywhere) if alone else law_q

    return _total(part, f)[0].value


def _laws(p: Distribution, q: Distribution, index: Tensor | None) -> Laws:
    """Both laws, all elements or those with an index."""
    if index is None:
        return describe_counts(p, _for_counts), describe_counts(q, _for_counts)
    lift = Chosen(joint_shape(p.batch_shape, q.batch_shape), index, 1)
    return describe_counts(p, lift), describe_counts(q, lift)


def _for_counts(tensor: Tensor) -> Tensor:
    return tensor.unsqueeze(-1)


def _total(part: Callable[[Tensor | None], Laws], f: Integrand) -> tuple[Expectation, Tensor]:
    """Σ f, and where q lacks a count that p has."""
    p, q = part(None)
    size = _size(p)
    if size is not None:
        return _listed(p, q, torch.arange(size, dtype=p.upper.dtype, device=p.upper.device), f)
    if hidden() or p.upper.numel() == 0:
        return _with_tail(p, q, f, None)
    low, high = _window(p, q, both=f is second_order)
    # Short ones begin at 0, all at the same counts.
    low = torch.where(high < _HEAD, 0.0, low)
    length = (high - low).squeeze(-1)
    kinds = torch.bucketize(length, _BUCKETS.like(length))
    if bool((kinds == kinds.flatten()[0]).all()):
        return _one_kind(p, q, f, (low, high), int(kinds.flatten()[0]))
    found: list[tuple[Tensor, Expectation, Tensor]] = []
    for kind in sorted(set(kinds.flatten().tolist())):
        index = (kinds == kind).flatten().nonzero().squeeze(-1)
        window = low.reshape(-1, 1).index_select(0, index), high.reshape(-1, 1).index_select(0, index)
        found.append((index, *_one_kind(*part(index), f, window, kind)))
    order = torch.argsort(torch.cat([index for index, _, _ in found]))

    def joined(parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts)).index_select(0, order).reshape(kinds.shape)

    values = [joined(parts) for parts in zip(*(expectation for _, expectation, _ in found), strict=True)]
    return Expectation(*values), joined([gap for _, _, gap in found])


def _one_kind(
    p: CountLaw, q: CountLaw, f: Integrand, window: tuple[Tensor, Tensor], kind: int
) -> tuple[Expectation, Tensor]:
    """Σ f for elements of about the same length."""
    low, high = window
    if kind == _WIDE:
        return _with_tail(p, q, f, window)
    counts = _whole_numbers(high - low)
    return _listed(p, q, counts if at_most(low, 0.0) else low + counts, f)


def _whole_numbers(length: Tensor) -> Tensor:
    """0, 1, … up to the longest."""
    return torch.arange(int(length.max()) + 1, dtype=length.dtype, device=length.device)


def _listed(p: CountLaw, q: CountLaw, counts: Tensor, f: Integrand) -> tuple[Expectation, Tensor]:
    """Σ f over these counts."""
    terms, gap, noise = _terms(p, q, counts, f)
    size = terms.detach().abs().sum(-1)
    error = 8 * torch.finfo(size.dtype).eps * size
    return Expectation(terms.sum(-1), size, error, noise), gap | _lacking(p, q)


def _size(p: CountLaw) -> int | None:
    """How many counts to sum where that is all there are."""
    if p.size is not None:
        return p.size
    if hidden() or p.upper.numel() == 0:
        return None
    longest = float(p.upper.detach().max())
    return int(longest) + 1 if longest < _HEAD / 4 else None


def _window(p: CountLaw, q: CountLaw, *, both: bool) -> tuple[Tensor, Tensor]:
    """First and last count that matters to p, or to both laws."""
    with torch.no_grad():
        low, high = _reach(p)
        if both:
            low_q, high_q = _reach(q)
            return torch.minimum(low, low_q), torch.maximum(high, high_q)
        # q may have more batch elements.
        zero = torch.zeros_like(q.upper + p.upper).nan_to_num(0.0, 0.0, 0.0)
        return low + zero, high + zero


def _reach(law: CountLaw) -> tuple[Tensor, Tensor]:
    if not law.marks:
        return torch.zeros_like(law.upper), law.upper
    steps = _STEPS.like(law.upper)
    k = torch.cat([mean.detach() + spread.detach() * steps for mean, spread in law.marks], -1).floor().clamp_min(0.0)
    k = torch.minimum(k, law.upper).sort(dim=-1).values
    log_p = law.log_pmf(k)
    # A rare component may be so wide that its counts matter only together, and log q grows like their size.
    together = log_p + _GROWTH * torch.log1p(k)
    keep = _not_negligible(log_p) | _not_negligible(together)
    last = k.shape[-1] - 1
    index = torch.arange(last + 1, device=k.device)
    first = torch.where(keep, index, last).amin(-1, keepdim=True) - 1
    final = torch.where(keep, index, 0).amax(-1, keepdim=True) + 1
    return k.gather(-1, first.clamp_min(0)), k.gather(-1, final.clamp_max(last))


def _not_negligible(log_size: Tensor) -> Tensor:
    return log_size >= log_size.amax(-1, keepdim=True) - _NEGLIGIBLE


def _lacking(p: CountLaw, q: CountLaw) -> Tensor:
    return (p.upper > q.upper).squeeze(-1)


def _terms(p: CountLaw, q: CountLaw, k: Tensor, f: Callable[[Sample], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The integrand at counts, whether p has one that q lacks, and Σ p·(|log p| + |log q|).

    A count that p lacks adds what q has to the second form.
    """
    log_p, log_q = torch.broadcast_tensors(p.log_pmf(k), q.log_pmf(k))  # type: ignore[no-untyped-call]
    if at_most(-log_p, _LEAST) and at_most(-log_q, _LEAST):
        value = f(Sample(log_p, log_p, LogDensity(log_q)))
        with torch.no_grad():
            noise = -(torch.exp(log_p) * (log_p + log_q)).sum(-1)
        return value, torch.zeros_like(noise, dtype=torch.bool), noise
    value, lacking, heights = at_counts(log_p, log_q, f)
    return value, lacking.any(-1), heights.sum(-1)


def _with_tail(
    p: CountLaw, q: CountLaw, f: Integrand, window: tuple[Tensor, Tensor] | None
) -> tuple[Expectation, Tensor]:
    """The first 512 counts and an integral over the rest, with the last 512 of a finite law.

    Args:
        p: The first law.
        q: The second.
        f: The integrand.
        window: The first and the last count that matter, where values can be seen; counts outside are left out.
    """
    start = torch.full_like(p.upper + q.upper, _HEAD - 0.5)
    long, late = p.upper.isinf(), torch.zeros_like(start, dtype=torch.bool)
    if window is not None:
        long, late = long | (window[1] < p.upper), window[0] > _HEAD
        start = torch.where(late, window[0] - 0.5, start)
    total, gap = _head(p, q, f, late)
    last = torch.where(long, start + 4.0 * _HEAD, p.upper)
    stop = (last - _HEAD + 0.5).maximum(start + 1)
    between = long | (last - _HEAD + 0.5 > start)
    # The second form is of the size of q, too, which may reach farther than p.
    both = f is second_order
    places = [(mean.detach(), width.detach()) for side in ((p, q) if both else (p,)) for mean, width in side.marks]
    if surely(long):
        sizes = [torch.maximum(mean - start, width) for mean, width in places]
        chart: Log | Logit = Log(start, functools.reduce(torch.maximum, sizes))
    else:
        chart = Logit(start, stop, stop - start, torch.zeros_like(start))
    marks = [Mark(mean, width) for mean, width in places]
    laws = [Law(chart, _density(side), start, stop, [], [], marks=marks) for side in (p, q)]
    frozen = not total.value.requires_grad
    body = integral_over(Pieces(laws[0], laws[1], laws[0], None, frozen), f, follow_q=both)
    inner = torch.where(late.squeeze(-1), 0.0, _maclaurin(p, q, start, f))
    correction = inner - torch.where(long.squeeze(-1), 0.0, _maclaurin(p, q, stop, f))
    # The first term left out, for a law whose deviation at 512 is 22, and no law there is narrower.
    body = body._replace(error=body.error + 1e-8 * correction.detach().abs())
    whole = torch.where(between.squeeze(-1), body.value + correction, 0.0)
    if not surely(long):
        k = last - torch.arange(_HEAD, dtype=last.dtype, device=last.device)
        ends = torch.where((k > start) & ~long, _terms(p, q, k.clamp_min(0.0), f)[0], 0.0)
        whole = whole + ends.sum(-1)
        total = total._replace(size=total.size + ends.detach().abs().sum(-1))
    size = total.size + body.size
    eps = torch.finfo(size.dtype).eps
    error = total.error + body.error + 8 * eps * size
    return Expectation(total.value + whole, size, error, total.noise + body.noise), gap | _lacking(p, q)


def _head(p: CountLaw, q: CountLaw, f: Integrand, late: Tensor) -> tuple[Expectation, Tensor]:
    """The first counts, unless they do not matter."""
    counts = torch.arange(2 if surely(late) else _HEAD, dtype=p.upper.dtype, device=p.upper.device)
    terms, gap, noise = _terms(p, q, counts, f)
    terms, noise = torch.where(late, 0.0, terms), torch.where(late.squeeze(-1), 0.0, noise)
    size = terms.detach().abs().sum(-1)
    return Expectation(terms.sum(-1), size, torch.zeros_like(size), noise), gap


def _density(law: CountLaw) -> Callable[[Point], LogDensity]:
    """The log-probability between whole numbers, as a density."""

    def log_density(point: Point) -> LogDensity:
        k, lost = _count(point)
        # Nodes may lie beyond any count that has a number, where only the length of a panel would still grow.
        return LogDensity(torch.where(k < _FARTHEST, law.log_pmf(k, lost).clamp_min(_NOTHING), _NOTHING))

    return log_density


def _count(point: Point) -> tuple[Tensor, Tensor | None]:
    """The count at a point, and what it lost when a distance was added to an end: for a mean of 1e12 that is 1e-4."""
    if point.above is None or point.below is not None:
        zero = point.log_jacobian.new_zeros(1)
        return point.standard(zero, zero + 1)[0].clamp_max(_FARTHEST), None
    end, scale, log = point.above
    k, lost = two_sum(end, (torch.exp(log.clamp_max(CAP)) * scale).clamp_max(_FARTHEST))
    return k, lost.detach()


def _weights() -> list[float]:
    """Of f(a + j/2) − f(a − j/2), j = 1, 3, 5, to make the terms with f', f''' and f⁽⁵⁾."""
    orders, steps = np.array([1, 3, 5]), np.array([0.5, 1.5, 2.5])
    taylor = 2 * steps[None, :] ** orders[:, None] / np.array([1.0, 6.0, 120.0])[:, None]
    found = np.linalg.solve(taylor, np.array([1 / 24, -7 / 5760, 31 / 967680]))
    return [float(weight) for weight in found]


_WEIGHTS = _weights()


def _maclaurin(p: CountLaw, q: CountLaw, at: Tensor, f: Callable[[Sample], Tensor]) -> Tensor:
    """Euler and Maclaurin's correction at a lower limit; at an upper one it has the other sign."""
    steps = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], dtype=at.dtype, device=at.device)
    weights = torch.tensor(_WEIGHTS, dtype=at.dtype, device=at.device)
    terms, _, _ = _terms(p, q, at + steps, f)
    return (terms * torch.cat([-weights.flip(0), weights])).sum(-1)


def rule_for(p: Distribution, q: Distribution) -> Rule | None:
    """The rule for two laws of counts, and for one of counts and one that has a density."""
    if (countable(p) and describable(q)) or (describable(p) and countable(q)):
        source = "mutually singular: one has atoms, the other has none"
        return Rule(type(p), type(q), infinite_everywhere, "infinite", source, decides_support=True)
    if not (countable(p) and countable(q)):
        return None
    if support.contained(p, q) is False and surely(describe_counts(p, _for_counts).upper > 1):
        return None
    source = "Σ p·(log p − log q), the far tail by Euler–Maclaurin"
    return Rule(type(p), type(q), kl_by_series, "series", source, decides_support=True)


_NOTHING, _FARTHEST, _LEAST = -1e30, 1e25, 1e100
answer_generally(rule_for)
