"""One trial with two outcomes: its KL per trial and per success; `closed/` and the continuous Bernoulli call it.

With a = log(p₁/p₀) the log-odds of p, δ those of q less those of p and φ(x) = eˣ − 1 − x,

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
from torch.distributions import Distribution
from torch.nn.functional import logsigmoid

from kullback.pairs.parameters import gives_logits, read
from kullback.special import expm1mx, log1pmx

# Below these log-odds log(1 + eˣ) is eˣ to rounding, and its logarithm x.
_TINY_LOG_ODDS = -37.0
_LARGEST_EXPONENT = 709.0


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

    def probabilities(self) -> tuple[Tensor, Tensor]:
        """p₁ and p₀."""
        x = self.given
        return (torch.sigmoid(x), torch.sigmoid(-x)) if self.is_logits else (x, 1 - x)

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


def kl_per_trial(p: SuccessParameter, q: SuccessParameter) -> Tensor:
    """KL of one trial. To a probability of p that is exactly 0 or 1 the gradient is 0, where its limit is infinite."""
    return _with_certain_outcomes(p, q, _lacks_an_outcome(p, q), kl_by_log_odds)


def kl_per_success(p: SuccessParameter, q: SuccessParameter) -> Tensor:
    """KL of one trial over p₁: that of repeating trials until the first success, infinite if there is none."""
    return _with_certain_outcomes(p, q, _lacks_an_outcome(p, q) | (p.never() & ~q.never()), _per_success)


def _lacks_an_outcome(p: SuccessParameter, q: SuccessParameter) -> Tensor:
    return (q.never() & ~p.never()) | (q.always() & ~p.always())


def _with_certain_outcomes(
    p: SuccessParameter, q: SuccessParameter, infinite: Tensor, formula: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> Tensor:
    """The formula of a and δ; where p is certain of an outcome −log q of it, and infinity where that is asked for."""
    never, always = p.never() & ~infinite, p.always() & ~infinite
    certain = p.never() | p.always() | infinite
    inner_p, inner_q = p.even_at(certain), q.even_at(certain)
    value = formula(inner_p.log_odds(), inner_q.log_odds(), log_odds_difference(inner_p, inner_q))
    if q.is_logits:
        x = torch.where(never | always, q.given, 0.0)
        at_certain = 0.0 - logsigmoid(torch.where(never, -x, x))
    else:
        at_certain = 0.0 - torch.log1p(-torch.where(never, q.given, 0.0)) - torch.log(torch.where(always, q.given, 1.0))
    return torch.where(infinite, math.inf, torch.where(certain, at_certain, value))


def kl_by_log_odds(a: Tensor, b: Tensor, delta: Tensor) -> Tensor:
    """KL of one trial of log-odds a from one of log-odds b = a + δ."""
    swapped = a > 0
    a, b, delta = (torch.where(swapped, -t, t) for t in torch.broadcast_tensors(a, b, delta))  # type: ignore[no-untyped-call]
    near = delta.abs() < 1
    close, far, b = torch.where(near, delta, 0.0), torch.where(near, 0.0, delta), torch.where(near, 0.0, b)
    p1 = torch.sigmoid(a)
    value = log1pmx(p1 * torch.expm1(close)) + p1 * expm1mx(close)
    return torch.where(near, value, logsigmoid(-a) - logsigmoid(-b) - p1 * far)


def _per_success(a: Tensor, b: Tensor, delta: Tensor) -> Tensor:
    """For p₁ ≤ ½ [log(1+e^b) − log(1+e^a)]/p₁ − δ; where p₁ underflows φ(δ) is left of it."""
    low = a <= 0
    likely = [torch.where(low, 0.0, t) for t in (a, b, delta)]
    # Not divided by the sigmoid, whose derivative torch finds from its distance to 1.
    of_likely = kl_by_log_odds(*likely) * torch.exp(-logsigmoid(likely[0]))
    a, delta = torch.where(low, a, 0.0), torch.where(low, delta, 0.0)
    near = delta.abs() < 1
    close, far, b = torch.where(near, delta, 0.0), torch.where(near, 0.0, delta), torch.where(near | ~low, 0.0, b)
    p1 = torch.sigmoid(a)
    value = log1pmx(p1 * torch.expm1(close)) / p1.clamp_min(1e-300) + expm1mx(close)
    log_p1, log_rise = logsigmoid(a), _log_softplus(b)
    infinite = log_rise - log_p1 > _LARGEST_EXPONENT
    rise = torch.exp(torch.where(infinite, 0.0, log_rise - log_p1)) - torch.exp(_log_softplus(a) - log_p1)
    apart = torch.where(infinite, math.inf, rise - far)
    return torch.where(low, torch.where(near, value, apart), of_likely)


def _log_softplus(x: Tensor) -> Tensor:
    """Log log(1 + eˣ)."""
    tiny = x < _TINY_LOG_ODDS
    return torch.where(tiny, x, torch.log(-logsigmoid(torch.where(tiny, 0.0, -x))))
