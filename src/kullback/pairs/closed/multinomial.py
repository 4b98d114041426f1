"""KL(Multinomial ‖ q)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, Multinomial, OneHotCategorical

from kullback.pairs.closed.categorical import kl_categorical_categorical
from kullback.pairs.parameters import made
from kullback.pairs.registry import Reduced, register


@register(Multinomial, Multinomial, source="n KL(Categorical ‖ Categorical) for equal counts, else infinite")
def kl_multinomial_multinomial(p: Multinomial, q: Multinomial) -> Tensor:
    """Outcomes sum to the count, so laws of different counts share none. No trials: one outcome, no divergence."""
    per_trial = kl_categorical_categorical(p._categorical, q._categorical)
    if p.total_count != q.total_count or p.total_count == 0:
        constant = 0.0 if p.total_count == q.total_count else math.inf
        return torch.where(torch.zeros_like(per_trial, dtype=torch.bool), per_trial, constant)
    return p.total_count * per_trial


@register(
    Multinomial, OneHotCategorical, method="structure", source="a OneHotCategorical is a Multinomial of one trial"
)
def kl_multinomial_one_hot_categorical(p: Multinomial, q: OneHotCategorical) -> Reduced:
    """Infinite unless p has one trial."""
    return Reduced(p, _of_one_trial(q))


@register(
    OneHotCategorical, Multinomial, method="structure", source="a OneHotCategorical is a Multinomial of one trial"
)
def kl_one_hot_categorical_multinomial(p: OneHotCategorical, q: Multinomial) -> Reduced:
    """Infinite unless q has one trial."""
    return Reduced(_of_one_trial(p), q)


def _of_one_trial(law: OneHotCategorical) -> Distribution:
    """The same distribution as a Multinomial, with the very same parameters."""
    state = {"total_count": 1, "_categorical": law._categorical, "_event_shape": law.event_shape}
    return made(Multinomial, state, law.batch_shape)
