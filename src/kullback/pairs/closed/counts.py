"""KL of Bernoulli, Geometric, Binomial and Poisson. Called by `pairs.dispatch`.

Of one trial, with a = log(p₁/p₀) the log-odds of p, δ those of q less those of p and φ(x) = eˣ − 1 − x,

    KL = log(p₀ + p₁e^δ) − p₁δ = [log(1+x) − x] + p₁φ(δ),    x = p₁(e^δ − 1),

in which nothing cancels for p₁ ≤ ½; for p₁ > ½ the outcomes change places. δ is as accurate as the parameters allow:
of two probabilities it follows from their difference, which is exact near equality.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Binomial, Distribution, Geometric, Poisson
from torch.nn.functional import logsigmoid

from kullback.densities.parameters import gives_logits, log_outcomes, read, working
from kullback.divergences.kl import integral
from kullback.kernels.levels import is_traced
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.registry import register
from kullback.special import expm1mx, kl_div, log1pmx

OfTrials = Bernoulli | Binomial | Geometric

# e to this is a number.
_LARGEST_EXPONENT = 700.0


class SuccessParameter(NamedTuple):
    """The probability of success as the user gave it.

    Attributes:
        given: The parameter, in working precision.
        is_logits: Whether it is a log-odds, not a probability.
    """

    given: Tensor
    is_logits: bool

    def never(self) -> Tensor:
        """Where success is impossible: by the parameter, not by underflow."""
        return self.given == (-math.inf if self.is_logits else 0.0)

    def always(self) -> Tensor:
        """Where success is certain."""
        return self.given == (math.inf if self.is_logits else 1.0)

    def even_at(self, mask: Tensor) -> SuccessParameter:
        """The same parameter, and even odds without gradient at some elements."""
        return self._replace(given=torch.where(mask, 0.0 if self.is_logits else 0.5, self.given))

    def log_odds(self) -> Tensor:
        """log(p₁/p₀), about p = ½ from the difference 2p − 1, which is exact there; for outcomes that are possible."""
        if self.is_logits:
            return self.given
        middle = (self.given - 0.5).abs() < 0.25
        near, far = torch.where(middle, self.given, 0.5), torch.where(middle, 0.25, self.given)
        return torch.where(middle, torch.log1p((2 * near - 1) / (1 - near)), torch.log(far) - torch.log1p(-far))


def success_parameter(distribution: Distribution) -> SuccessParameter:
    """That of a distribution that has `probs` or `logits`."""
    is_logits = gives_logits(distribution)
    return SuccessParameter(read(distribution, "logits" if is_logits else "probs")[0], is_logits)


def log_odds_difference(p: SuccessParameter, q: SuccessParameter) -> Tensor:
    """The log-odds of q less those of p; for outcomes that are possible."""
    if p.is_logits or q.is_logits:
        return q.log_odds() - p.log_odds()
    gap = q.given - p.given
    return _log_ratio(p.given, q.given, gap) - _log_ratio(1 - p.given, 1 - q.given, -gap)


def _log_ratio(x: Tensor, y: Tensor, gap: Tensor) -> Tensor:
    """log(y/x) for a difference y − x that is known better than x and y themselves."""
    near = gap.abs() <= 0.5 * x
    return torch.where(near, torch.log1p(torch.where(near, gap, 0.0) / x), torch.log(y) - torch.log(x))


def _per_trial(p: SuccessParameter, q: SuccessParameter) -> Tensor:
    """KL of one trial. To a probability of p that is exactly 0 or 1 the gradient is 0, where its limit is infinite."""
    infinite = (q.never() & ~p.never()) | (q.always() & ~p.always())
    never, always = p.never() & ~infinite, p.always() & ~infinite
    certain = never | always | infinite
    inner_p, inner_q = p.even_at(certain), q.even_at(certain)
    value = _by_log_odds(inner_p.log_odds(), inner_q.log_odds(), log_odds_difference(inner_p, inner_q))
    if q.is_logits:
        x = torch.where(never | always, q.given, 0.0)
        at_certain = 0.0 - logsigmoid(torch.where(never, -x, x))
    else:
        at_certain = 0.0 - torch.log1p(-torch.where(never, q.given, 0.0)) - torch.log(torch.where(always, q.given, 1.0))
    return torch.where(infinite, math.inf, torch.where(certain, at_certain, value))


def _by_log_odds(a: Tensor, b: Tensor, delta: Tensor) -> Tensor:
    """KL of one trial of log-odds a from one of log-odds b = a + δ."""
    swapped = a > 0
    a, b, delta = (torch.where(swapped, -t, t) for t in torch.broadcast_tensors(a, b, delta))  # type: ignore[no-untyped-call]
    near = delta.abs() < 1
    close, far, b = torch.where(near, delta, 0.0), torch.where(near, 0.0, delta), torch.where(near, 0.0, b)
    p1 = torch.sigmoid(a)
    value = log1pmx(p1 * torch.expm1(close)) + p1 * expm1mx(close)
    return torch.where(near, value, logsigmoid(-a) - logsigmoid(-b) - p1 * far)


def _per_success(p: SuccessParameter, q: SuccessParameter) -> Tensor:
    """KL of one trial over p₁: that of repeating trials until the first success, infinite if there is none."""
    never, certain = p.never(), p.never() | p.always()
    # Not divided by the sigmoid, whose derivative torch finds from its distance to 1.
    log_trials = -logsigmoid(p.even_at(certain).log_odds()).clamp_min(-_LARGEST_EXPONENT)
    value = _per_trial(p, q) * torch.where(certain, 1.0, torch.exp(log_trials))
    return torch.where(never & ~q.never(), math.inf, value)


def _ops(name: str, formula: Callable[[SuccessParameter, SuccessParameter], Tensor]) -> dict[tuple[bool, bool], PairOp]:
    """The operation for p and q given by logits (True) or by probabilities (False)."""

    def op(logits_p: bool, logits_q: bool) -> PairOp:
        def of_given(given_p: Tensor, given_q: Tensor) -> Tensor:
            return formula(SuccessParameter(given_p, logits_p), SuccessParameter(given_q, logits_q))

        sides = ["logits" if logits else "probs" for logits in (logits_p, logits_q)]
        return PairOp(f"{name}_{'_'.join(sides)}", of_given, arguments=("given_p", "given_q"))

    return {(of_p, of_q): op(of_p, of_q) for of_p in (False, True) for of_q in (False, True)}


BERNOULLI_OPS, GEOMETRIC_OPS = _ops("bernoulli", _per_trial), _ops("geometric", _per_success)


def _of_given(ops: dict[tuple[bool, bool], PairOp], p: OfTrials, q: OfTrials) -> Tensor:
    logits_p, logits_q = gives_logits(p), gives_logits(q)
    return ops[logits_p, logits_q](p.logits if logits_p else p.probs, q.logits if logits_q else q.probs)


@register(
    Bernoulli,
    Bernoulli,
    source="log(1+x) − x + p₁φ(δ), x = p₁(e^δ − 1), δ the difference of the log-odds, φ(x) = eˣ − 1 − x",
    finished=True,
)
def kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    """See the head of this file."""
    return _of_given(BERNOULLI_OPS, p, q)


@register(Geometric, Geometric, source="KL(Bernoulli(p) ‖ Bernoulli(q)) / p, by the chain rule", finished=True)
def kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    """1/p trials are expected, each of which contributes the divergence of one trial; probs = 1 is allowed."""
    return _of_given(GEOMETRIC_OPS, p, q)


@register(Bernoulli, Poisson, source="[p log(p/λ) − p + λ] + [(1−p) log(1−p) + p]")
def kl_bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    """A Poisson gives 0 and 1 the weights e^−λ and λ e^−λ; both brackets are non-negative."""
    is_logits, (rate,) = gives_logits(p), read(q, "rate")
    (given,) = read(p, "logits" if is_logits else "probs")
    success, failure = (torch.sigmoid(given), torch.sigmoid(-given)) if is_logits else (given, 1 - given)
    value = kl_div(success, rate) + kl_div(failure, torch.ones_like(failure))
    if not is_logits:
        return value
    # A success that is merely too rare for a number (logits of -800) is still outside the support of a rate of 0.
    return value.masked_fill((rate == 0) & (given > -math.inf), math.inf)


@register(
    Binomial,
    Binomial,
    method="series",
    source="n KL(Bernoulli ‖ Bernoulli) for equal counts, else Σ p·(log p − log q) on panels of integers",
)
def kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor | tuple[Tensor, Tensor]:
    """More trials than q has are infinitely surprising, unless p never succeeds."""
    n = p.total_count
    if is_traced() or not bool((n == q.total_count).all()):
        return integral(p, q)
    per_trial = working(_of_given(BERNOULLI_OPS, p, q))
    return torch.where(n == 0, 0.0, n * per_trial)


@register(Poisson, Poisson, source="λ_p log(λ_p/λ_q) − λ_p + λ_q", finished=True)
def kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    """The generalised divergence of the rates."""
    return poisson_op(p.rate, q.rate)


poisson_op = PairOp("poisson", kl_div, arguments=("rate_p", "rate_q"))


@register(Poisson, Bernoulli, source="−log q(0) at rate 0, else infinite")
@register(Poisson, Binomial, source="−log q(0) at rate 0, else infinite")
def kl_poisson_binomial(p: Poisson, q: Bernoulli | Binomial) -> Tensor:
    """Unless its rate is 0, a Poisson exceeds any count with positive probability."""
    (rate,), log_failure = read(p, "rate"), log_outcomes(q)[1]
    if isinstance(q, Binomial):
        (count,) = read(q, "total_count")
        log_failure = torch.where(count == 0, 0.0, count * torch.where(count == 0, 0.0, log_failure))
    return torch.where(rate == 0, -log_failure, math.inf)
