"""KL(p ‖ q) of any two laws of counts, mixtures included, by a sum over p.

A finite support is summed. Of an infinite one, or a very long one, the first 512 counts are (and the last 512); the
rest is an integral by Euler and Maclaurin's formula,

    Σ_{k > a} f(k) = ∫_a^∞ f dx + f'(a)/24 − 7f'''(a)/5760 + 31f⁽⁵⁾(a)/967680 − …,    a + ½ whole,

whose derivatives are differences of neighbouring counts. That costs the same for a mean of 10 and of 10¹².
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.pairs import support
from kullback.pairs.densities import describable
from kullback.pairs.densities.chart import Log, Logit, Mark
from kullback.pairs.densities.count_mixture import countable, describe_counts
from kullback.pairs.densities.counts import CountLaw
from kullback.pairs.densities.expectation import Expectation, Pieces, Sample, integral_over
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.point import Point
from kullback.pairs.dispatch import infinite_everywhere
from kullback.pairs.registry import Rule, answer_generally
from kullback.pairs.univariate import CANCELLED, ROUNDING, SMALL, first_order, second_error, second_order
from kullback.pairs.visible import hidden, surely

_HEAD, _LONGEST = 512, 4096


def kl_by_series(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor]:
    """Value and error estimate."""
    law_p, law_q = (describe_counts(side, _for_counts) for side in (p, q))
    infinite = (law_p.upper > law_q.upper).squeeze(-1)
    plain, gap = _total(law_p, law_q, first_order)
    infinite = infinite | gap
    value, error = plain.value, plain.error + ROUNDING * plain.noise
    same = (law_p.upper == law_q.upper).squeeze(-1)
    near = same & ~infinite & (value.detach() < (CANCELLED * plain.size).clamp_min(SMALL))
    if not surely(~near):
        close, _ = _total(law_p, law_q, second_order)
        value, error = torch.where(near, close.value, value), torch.where(near, second_error(close), error)
    return torch.where(infinite, math.inf, value.clamp_min(0.0)), torch.where(infinite, 0.0, error)


def sum_over(p: Distribution, q: Distribution, f: Callable[[Sample], Tensor], *, alone: bool = False) -> Tensor:
    """Σ f over the counts that both laws have, or over all that p has; f is given both log-probabilities."""
    law_p, law_q = (describe_counts(side, _for_counts) for side in (p, q))
    if not alone:
        return _total(law_p, law_q, f)[0].value
    log_pmf = law_q.log_pmf

    def everywhere(k: Tensor) -> Tensor:
        return log_pmf(k).clamp_min(_NOTHING)

    return _total(law_p, law_q._replace(log_pmf=everywhere), f)[0].value


def _for_counts(tensor: Tensor) -> Tensor:
    return tensor.unsqueeze(-1)


def _total(p: CountLaw, q: CountLaw, f: Callable[[Sample], Tensor]) -> tuple[Expectation, Tensor]:
    """Σ f, and where q lacks a count that p has."""
    size = _size(p)
    counts = torch.arange(size or _HEAD, dtype=p.upper.dtype, device=p.upper.device)
    terms, gap, noise = _terms(p, q, counts, f)
    total = terms.sum(-1)
    still = terms.detach()
    found = Expectation(total, still.abs().sum(-1), torch.zeros_like(still[..., 0]), noise)
    if size is None:
        found, gap = _with_tail(p, q, f, found), gap | _lacking(p, q)
    eps = torch.finfo(total.dtype).eps
    return found._replace(error=found.error + 8 * eps * found.size), gap


def _size(p: CountLaw) -> int | None:
    """How many counts to sum where that is all there are."""
    if p.size is not None:
        return p.size
    if hidden() or p.upper.numel() == 0:
        return None
    longest = float(p.upper.max())
    return int(longest) + 1 if longest < _LONGEST else None


def _lacking(p: CountLaw, q: CountLaw) -> Tensor:
    return (p.upper > q.upper).squeeze(-1)


def _terms(p: CountLaw, q: CountLaw, k: Tensor, f: Callable[[Sample], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The integrand at counts, whether p has one that q lacks, and Σ p·(|log p| + |log q|).

    A count that p lacks adds what q has to the second form.
    """
    log_p, log_q = torch.broadcast_tensors(p.log_pmf(k), q.log_pmf(k))  # type: ignore[no-untyped-call]
    none_p, none_q = log_p == -math.inf, log_q == -math.inf
    both = ~none_p & ~none_q
    inner_p, inner_q = torch.where(both, log_p, 0.0), torch.where(both, log_q, 0.0)
    value = torch.where(both, f(Sample(inner_p, inner_p, LogDensity(inner_q))), 0.0)
    if f is second_order:
        only_q = none_p & ~none_q
        value = value + torch.where(only_q, torch.exp(torch.where(only_q, log_q, 0.0)), 0.0)
    heights = inner_p.detach().abs() + inner_q.detach().abs()
    return value, (~none_p & none_q).any(-1), (torch.exp(inner_p.detach()) * heights).sum(-1)


def _with_tail(p: CountLaw, q: CountLaw, f: Callable[[Sample], Tensor], head: Expectation) -> Expectation:
    """The counts from 512 on: an integral, or an integral and the last 512."""
    start = torch.full_like(p.upper + q.upper, _HEAD - 0.5)
    long = p.upper.isinf()
    last = torch.where(long, 4.0 * _HEAD, p.upper)
    stop = (last - _HEAD + 0.5).maximum(start + 1)
    between = long | (last - _HEAD + 0.5 > start)
    if surely(long):
        chart: Log | Logit = Log(start, torch.maximum(p.marks[0][0] - start, p.marks[0][1]).detach())
    else:
        chart = Logit(start, stop, stop - start, torch.zeros_like(start))
    marks = [Mark(mean.detach(), width.detach()) for mean, width in p.marks]
    laws = [Law(chart, _density(side), start, stop, [], [], marks=marks) for side in (p, q)]
    frozen = not head.value.requires_grad
    body = integral_over(Pieces(laws[0], laws[1], laws[0], None, frozen), f)
    correction = _maclaurin(p, q, start, f) - torch.where(long.squeeze(-1), 0.0, _maclaurin(p, q, stop, f))
    # The first term left out, for a law whose deviation at 512 is 22, and no law there is narrower.
    body = body._replace(error=body.error + 1e-8 * correction.detach().abs())
    whole = torch.where(between.squeeze(-1), body.value + correction, 0.0)
    if not surely(long):
        k = last - torch.arange(_HEAD, dtype=last.dtype, device=last.device)
        ends = torch.where((k >= _HEAD) & ~long, _terms(p, q, k.clamp_min(0.0), f)[0], 0.0)
        whole = whole + ends.sum(-1)
        head = head._replace(size=head.size + ends.detach().abs().sum(-1))
    value = head.value + whole
    return head._replace(
        value=value, size=head.size + body.size, error=head.error + body.error, noise=head.noise + body.noise
    )


def _density(law: CountLaw) -> Callable[[Point], LogDensity]:
    """The log-probability between whole numbers, as a density."""

    def log_density(point: Point) -> LogDensity:
        zero = torch.zeros_like(law.upper)
        k, _ = point.standard(zero, zero + 1)
        return LogDensity(law.log_pmf(k.clamp_max(_FARTHEST)).clamp_min(_NOTHING))

    return log_density


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


_NOTHING, _FARTHEST = -1e30, 1e25
answer_generally(rule_for)
