"""KL of Bernoulli and Geometric, trials with two outcomes (see `outcomes`). Called by `pairs.dispatch`."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Geometric, Poisson

from kullback.kernels.pair_ops import PairOp
from kullback.pairs.outcomes import Chance, chance, kl_per_success, kl_per_trial
from kullback.pairs.parameters import gives_logits, read
from kullback.pairs.registry import register
from kullback.special import kl_div


def _ops(name: str, formula: Callable[[Chance, Chance], Tensor]) -> dict[tuple[bool, bool], PairOp]:
    """The operation for each way of giving p and q: by logits (True) or by probabilities (False)."""

    def op(logits_p: bool, logits_q: bool) -> PairOp:
        def of_given(given_p: Tensor, given_q: Tensor) -> Tensor:
            return formula(Chance(given_p, logits_p), Chance(given_q, logits_q))

        sides = ["logits" if logits else "probs" for logits in (logits_p, logits_q)]
        return PairOp(f"{name}_{'_'.join(sides)}", of_given, arguments=("given_p", "given_q"))

    return {(of_p, of_q): op(of_p, of_q) for of_p in (False, True) for of_q in (False, True)}


BERNOULLI_OPS, GEOMETRIC_OPS = _ops("bernoulli", kl_per_trial), _ops("geometric", kl_per_success)


@register(
    Bernoulli,
    Bernoulli,
    source="p₁ φ(log q₁/p₁) + p₀ φ(log q₀/p₀), φ(x) = eˣ − 1 − x",
    finished=True,
)
def kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    """Both terms are non-negative; see `outcomes`."""
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
    chance_p = chance(p)
    (rate,) = read(q, "rate")
    success, failure = chance_p.both()
    value = kl_div(success, rate) + kl_div(failure, torch.ones_like(failure))
    # A success that is merely too rare for a number (logits of -800) is still outside the support of a rate of 0.
    return value.masked_fill((rate == 0) & (chance_p.given != chance_p.never), math.inf)
