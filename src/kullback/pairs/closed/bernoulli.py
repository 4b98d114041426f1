"""KL of Bernoulli, Geometric and Binomial, by `success_parameter`. Called by `pairs.dispatch`."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Binomial, Geometric, Poisson

from kullback.divergences.kl import integral
from kullback.kernels.levels import is_traced
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.parameters import gives_logits, read, working
from kullback.pairs.registry import register
from kullback.pairs.success_parameter import SuccessParameter, kl_per_success, kl_per_trial, success_parameter
from kullback.special import kl_div


def _ops(name: str, formula: Callable[[SuccessParameter, SuccessParameter], Tensor]) -> dict[tuple[bool, bool], PairOp]:
    """The operation for p and q given by logits (True) or by probabilities (False)."""

    def op(logits_p: bool, logits_q: bool) -> PairOp:
        def of_given(given_p: Tensor, given_q: Tensor) -> Tensor:
            return formula(SuccessParameter(given_p, logits_p), SuccessParameter(given_q, logits_q))

        sides = ["logits" if logits else "probs" for logits in (logits_p, logits_q)]
        return PairOp(f"{name}_{'_'.join(sides)}", of_given, arguments=("given_p", "given_q"))

    return {(of_p, of_q): op(of_p, of_q) for of_p in (False, True) for of_q in (False, True)}


BERNOULLI_OPS, GEOMETRIC_OPS = _ops("bernoulli", kl_per_trial), _ops("geometric", kl_per_success)


@register(
    Bernoulli,
    Bernoulli,
    source="log(1+x) − x + p₁φ(δ), x = p₁(e^δ − 1), δ the difference of the log-odds, φ(x) = eˣ − 1 − x",
    finished=True,
)
def kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    """See `success_parameter`."""
    logits_p, logits_q = gives_logits(p), gives_logits(q)
    return BERNOULLI_OPS[logits_p, logits_q](p.logits if logits_p else p.probs, q.logits if logits_q else q.probs)


@register(Geometric, Geometric, source="KL(Bernoulli(p) ‖ Bernoulli(q)) / p, by the chain rule", finished=True)
def kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    """1/p trials are expected, each of which contributes the divergence of one trial; probs = 1 is allowed."""
    logits_p, logits_q = gives_logits(p), gives_logits(q)
    return GEOMETRIC_OPS[logits_p, logits_q](p.logits if logits_p else p.probs, q.logits if logits_q else q.probs)


@register(Bernoulli, Poisson, source="[p log(p/λ) − p + λ] + [(1−p) log(1−p) + p]", decides_support=True)
def kl_bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    """A Poisson gives 0 and 1 the weights e^−λ and λ e^−λ; both brackets are non-negative."""
    parameter, (rate,) = success_parameter(p), read(q, "rate")
    success, failure = parameter.probabilities()
    value = kl_div(success, rate) + kl_div(failure, torch.ones_like(failure))
    if not parameter.is_logits:
        return value
    # A success that is merely too rare for a number (logits of -800) is still outside the support of a rate of 0.
    return value.masked_fill((rate == 0) & ~parameter.never(), math.inf)


@register(
    Binomial,
    Binomial,
    method="series",
    source="n KL(Bernoulli ‖ Bernoulli) for equal counts, else Σ p·(log p − log q) on panels of integers",
    decides_support=True,
)
def kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor | tuple[Tensor, Tensor]:
    """More trials than q has are infinitely surprising, unless p never succeeds."""
    n = p.total_count
    if is_traced() or not bool((n == q.total_count).all()):
        return integral(p, q)
    logits_p, logits_q = gives_logits(p), gives_logits(q)
    op = BERNOULLI_OPS[logits_p, logits_q]
    per_trial = op(working(p.logits if logits_p else p.probs), working(q.logits if logits_q else q.probs))
    return torch.where(n == 0, 0.0, n * per_trial)
