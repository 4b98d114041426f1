"""KL(Binomial ‖ q) of equal counts; unequal ones are a series of the engine. Called by `pairs.dispatch`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Binomial

from kullback.divergences.kl import integral
from kullback.kernels.levels import is_traced
from kullback.pairs.outcomes import chance, kl_per_trial
from kullback.pairs.parameters import read
from kullback.pairs.registry import register


@register(
    Binomial,
    Binomial,
    method="series",
    source="n KL(Bernoulli ‖ Bernoulli) for equal counts, else Σ p·(log p − log q) on panels of integers",
    decides_support=True,
)
def kl_binomial_binomial(p: Binomial, q: Binomial) -> tuple[Tensor, Tensor]:
    """More trials than q has are infinitely surprising, unless p never succeeds."""
    (n,), (big,) = read(p, "total_count"), read(q, "total_count")
    if is_traced() or not bool((n == big).all()):
        return integral(p, q)
    value = n * kl_per_trial(chance(p), chance(q))
    value = torch.where(n == 0, 0.0, value)
    return value, torch.zeros_like(value.detach())
