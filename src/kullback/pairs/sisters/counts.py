"""Two laws of counts as outcomes: every count that matters to either, with its log-ratio.

Where so many matter that they cannot be listed, or values cannot be looked at, sums are taken as for KL: the first
counts one by one, the rest by Euler and Maclaurin's formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Binomial, Distribution, Geometric, MixtureSameFamily, NegativeBinomial, Poisson

from kullback._core.numbers import as_tensor
from kullback.pairs.counting import sum_over
from kullback.pairs.densities.count_mixture import countable, describe_counts
from kullback.pairs.densities.counts import CountLaw
from kullback.pairs.densities.expectation import Sample
from kullback.pairs.densities.shares import log_shares
from kullback.pairs.outcomes import Chance, chance
from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.sisters.atoms import Atoms, difference, ratio_of
from kullback.pairs.sisters.term import Term, power_term
from kullback.pairs.visible import hidden, surely
from kullback.special import digamma, lgamma_bregman

# What is e^−90 of the largest leaves nothing; more numbers than this are not listed.
_NEGLIGIBLE, _MANY = 90.0, 2**22
_DOUBLINGS = 50
# A neighbourhood of so many counts is made an eighth as wide as often as it takes; beyond the last none is odd.
_AROUND, _ROUNDS, _WHOLE = 33, 18, 2.0**53


def both_countable(p: Distribution, q: Distribution) -> bool:
    """Whether this file answers."""
    return countable(p) and countable(q)


def counts_of(p: Distribution, q: Distribution, alpha: Tensor | float = 0.5) -> Atoms | None:
    """The counts that matter to p, q and p^α q^(1−α); None where they cannot be listed."""
    law_p, law_q = (describe_counts(side, _lift) for side in (p, q))
    k = _listed(law_p, law_q, alpha.unsqueeze(-1) if isinstance(alpha, Tensor) else alpha)
    if k is None:
        return None
    log_p, log_q = torch.broadcast_tensors(law_p.log_pmf(k), law_q.log_pmf(k))  # type: ignore[no-untyped-call]
    plain = difference(log_p, log_q)
    linear = _linear_ratio(p, q)
    if linear is None:
        return Atoms(log_p, log_q, plain)
    both = (log_p > -math.inf) & (log_q > -math.inf)
    return Atoms(log_p, log_q, torch.where(both, linear(k), plain))


def sum_of(p: Distribution, q: Distribution, term: Term) -> Tensor:
    """Σ (p + q)·g(r) without a list."""

    def from_p(sample: Sample) -> Tensor:
        return torch.exp(sample.log_weight) * term(sample.log_p - sample.log_q.total())

    def from_q(sample: Sample) -> Tensor:
        return torch.exp(sample.log_weight) * term(sample.log_q.total() - sample.log_p)

    return sum_over(p, q, from_p, alone=True) + sum_over(q, p, from_q, alone=True)


def renyi_without_list(p: Distribution, q: Distribution, alpha: float) -> Tensor:
    """log1p(aX)/a with a = α − 1; see `power_integral`."""
    if alpha < 0.5:
        return alpha / (1 - alpha) * _power_without_list(q, p, -alpha)
    return _power_without_list(p, q, alpha - 1)


def _power_without_list(p: Distribution, q: Distribution, a: float) -> Tensor:
    def from_p(sample: Sample) -> Tensor:
        return power_term(sample.log_weight, sample.log_p - sample.log_q.total(), a)

    def from_q(sample: Sample) -> Tensor:
        return power_term(sample.log_weight, sample.log_q.total() - sample.log_p, a)

    excess = sum_over(p, q, from_p, alone=True) + sum_over(q, p, from_q, alone=True)
    return torch.log1p((a * excess).clamp_min(-1.0)) / a


def extreme_without_list(p: Distribution, q: Distribution, alpha: float) -> Tensor | None:
    """The orders 0 and ∞: what q puts where p has nothing, and the largest log-ratio; None if p ends."""
    law_p, law_q = (describe_counts(side, _lift) for side in (p, q))
    if alpha == 0:
        endless = law_p.upper.isinf().squeeze(-1) & torch.ones_like(law_q.upper, dtype=torch.bool).squeeze(-1)
        return torch.zeros_like(endless, dtype=law_p.upper.dtype) if surely(endless) else None
    linear = _linear_ratio(p, q)

    def ratio(k: Tensor) -> Tensor:
        return difference(law_p.log_pmf(k), law_q.log_pmf(k)) if linear is None else linear(k)

    with torch.no_grad():
        k = torch.minimum(_doubling_from_means(law_p, law_q), law_p.upper.clamp_max(_WHOLE))
        best = ratio(k).argmax(-1, keepdim=True)
        k = k.expand(*best.shape[:-1], -1)
        at, last = k.gather(-1, best), k.shape[-1] - 1
        step = torch.maximum(k.gather(-1, (best + 1).clamp_max(last)) - at, at - k.gather(-1, (best - 1).clamp_min(0)))
        for _ in range(_ROUNDS):
            around = (at + step * torch.linspace(-1, 1, _AROUND, dtype=k.dtype, device=k.device)).round().clamp_min(0.0)
            around = torch.minimum(around, law_p.upper)
            at = around.gather(-1, ratio(around).argmax(-1, keepdim=True))
            step = step / (_AROUND // 4)
    return ratio(at).squeeze(-1).clamp_min(0.0)


def diverges(p: Distribution, q: Distribution, alpha: float) -> Tensor:
    """Whether Σ p^α q^(1−α) diverges for α > 1: q lacks a count of p, or its tail is too light.

    For α = ∞ whether p/q is unbounded.
    """
    law_p, law_q = (describe_counts(side, _lift) for side in (p, q))
    endless = law_p.upper.isinf() & law_q.upper.isinf()
    (rate_p, order_p, mean_p), (rate_q, order_q, mean_q) = _decay(p), _decay(q)
    lighter = rate_q.isinf() & rate_p.isfinite()
    inner_p, inner_q = (torch.where(rate.isinf(), 1.0, rate) for rate in (rate_p, rate_q))
    if alpha == math.inf:
        slow = (inner_p < inner_q) | ((inner_p == inner_q) & (order_p > order_q))
        poisson = rate_p.isinf() & rate_q.isinf() & (mean_p > mean_q)
    else:
        rate, order = (alpha * x - (alpha - 1) * y for x, y in ((inner_p, inner_q), (order_p, order_q)))
        slow, poisson = (rate < 0) | ((rate == 0) & (order >= -1)), torch.zeros_like(lighter)
    slow = (slow & rate_p.isfinite()) | lighter | poisson
    return (law_p.upper > law_q.upper).squeeze(-1) | (endless.squeeze(-1) & slow)


def _decay(law: Distribution) -> tuple[Tensor, Tensor, Tensor]:
    """Of a tail k^order·e^(−rate·k): its rate, infinite for a Poisson tail or none, its order, and Poisson's λ."""
    nothing = as_tensor(math.inf, torch.float64).expand(law.batch_shape)
    if isinstance(law, MixtureSameFamily):
        # Of the components that have weight the slowest, then the highest order, and the largest λ.
        present = log_shares(law) > -math.inf
        rate, order, mean = _decay(law.component_distribution)
        rate = torch.where(present, rate, math.inf)
        slowest = rate.amin(-1, keepdim=True)
        order = torch.where(present & (rate == slowest), order, -math.inf).amax(-1)
        return slowest.squeeze(-1), order, torch.where(present, mean, 0.0).amax(-1)
    if isinstance(law, NegativeBinomial):
        (count,) = read(law, "total_count")
        trial = chance(law)
        rate = torch.where((count == 0) | trial.certain()[0], math.inf, -trial.inner().log_success().detach())
        return rate, (count - 1).detach() + torch.zeros_like(rate), torch.zeros_like(rate)
    if isinstance(law, Geometric):
        trial = chance(law)
        rate = torch.where(trial.certain()[1], math.inf, -trial.inner().flip().log_success().detach())
        return rate, torch.zeros_like(rate), torch.zeros_like(rate)
    zero = torch.zeros_like(nothing)
    return nothing, zero, read(law, "rate")[0].detach() if isinstance(law, Poisson) else zero


def _lift(tensor: Tensor) -> Tensor:
    return tensor.unsqueeze(-1)


def _listed(p: CountLaw, q: CountLaw, alpha: Tensor | float) -> Tensor | None:
    """Counts from the first that matters to the last, in the last dimension."""
    if p.size is not None and q.size is not None:
        return torch.arange(max(p.size, q.size), dtype=p.upper.dtype, device=p.upper.device)
    if hidden():
        return None
    with torch.no_grad():
        tops = [law.upper for law in (p, q)]
        k = _doubling_from_means(p, q)
        log_p, log_q = p.log_pmf(k), q.log_pmf(k)
        both = (log_p > -math.inf) & (log_q > -math.inf)
        power = torch.where(both, alpha * log_p + (1 - alpha) * torch.where(both, log_q, 0.0), -math.inf)
        found = [_range(k, size) for size in torch.broadcast_tensors(log_p, log_q, power)]  # type: ignore[no-untyped-call]
        low = torch.stack([low for low, _ in found]).amin(0)
        high = torch.minimum(torch.stack([high for _, high in found]).amax(0), torch.maximum(tops[0], tops[1]))
        count = int((high - low).nan_to_num(0.0).max()) + 1 if low.numel() else 1
        if count * max(low.numel(), 1) > _MANY:
            return None
        return low + torch.arange(count, dtype=k.dtype, device=k.device)


def _doubling_from_means(p: CountLaw, q: CountLaw) -> Tensor:
    """Counts at distances that double from every place where there is mass, in order."""
    doublings = 2.0 ** torch.arange(_DOUBLINGS, dtype=p.upper.dtype, device=p.upper.device)
    steps = torch.cat([-doublings.flip(0), torch.zeros_like(doublings[:1]), doublings])
    means = [mean.floor() for law in (p, q) for mean, _ in law.marks] or [torch.zeros_like(p.upper)]
    k = torch.cat(torch.broadcast_tensors(*[m + steps for m in means]), dim=-1)  # type: ignore[no-untyped-call]
    return k.clamp_min(0.0).sort(dim=-1).values


def _range(k: Tensor, log_size: Tensor) -> tuple[Tensor, Tensor]:
    """The neighbours of the counts that are not negligible."""
    keep = (log_size >= log_size.amax(-1, keepdim=True) - _NEGLIGIBLE) & (log_size > -math.inf)
    index = torch.arange(k.shape[-1], device=k.device)
    last = k.shape[-1] - 1
    first = torch.where(keep, index, last).amin(-1, keepdim=True)
    final = torch.where(keep, index, 0).amax(-1, keepdim=True)
    k = k.expand(log_size.shape)
    return k.gather(-1, (first - 1).clamp_min(0)), k.gather(-1, (final + 1).clamp_max(last))


def _linear_ratio(p: Distribution, q: Distribution) -> Callable[[Tensor], Tensor] | None:
    """Log p − log q of two members of one family, linear in the count, from differences of parameters."""
    if isinstance(p, Poisson) and isinstance(q, Poisson):
        (rate_p,), (rate_q,) = read(p, "rate"), read(q, "rate")
        some = (rate_p > 0) & (rate_q > 0)
        slope = log_ratio(torch.where(some, rate_p, 1.0), torch.where(some, rate_q, 1.0))
        start = rate_q - rate_p
        return lambda k: k * _lift(slope) + _lift(start)
    for family in (Geometric, Binomial, NegativeBinomial):
        if isinstance(p, family) and isinstance(q, family):
            return _repeated_trials(p, q)
    return None


def _other_count(
    p: Chance, counts: tuple[Tensor, Tensor], success: Tensor, failure: Tensor
) -> Callable[[Tensor], Tensor]:
    """The log-ratio of negative binomial laws with the counts n and m, accurate where these are close.

    With B(a, b) = log Γ(b) − log Γ(a) − (b − a)·ψ(a) it is k·s + m·f + (n − m)·(log p₀ + ψ(k+m) − ψ(m)) + B(k+m, k+n) −
    B(m, n), s and f being the log-ratios of a success and of a failure.
    """
    n, m = (_lift(count) for count in counts)
    start = _lift(p.inner().flip().log_success()) - digamma(m)
    rest = lgamma_bregman(m, n)

    def ratio(k: Tensor) -> Tensor:
        grown = (n - m) * (start + digamma(k + m)) + (lgamma_bregman(k + m, k + n) - rest)
        return k * success + m * failure + grown

    return ratio


def _repeated_trials(p: Distribution, q: Distribution) -> Callable[[Tensor], Tensor] | None:
    """Successes and failures have the ratios of one trial each."""
    success = _lift(ratio_of(chance(p), chance(q)))
    failure = _lift(ratio_of(chance(p).flip(), chance(q).flip()))
    if isinstance(p, Geometric):
        return lambda k: k * failure + success
    (n,), (m,) = read(p, "total_count"), read(q, "total_count")
    if not surely(n == m):
        whole = isinstance(p, NegativeBinomial) and surely((n > 0) & (m > 0))
        return _other_count(chance(p), (n, m), success, failure) if whole else None
    n = _lift(n)
    if isinstance(p, Binomial):
        return lambda k: k * success + (n - k) * failure
    return lambda k: k * success + n * failure
