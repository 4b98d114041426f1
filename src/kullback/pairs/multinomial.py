"""KL(Multinomial ‖ q)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Multinomial

from kullback.pairs.categorical import kl_categorical_categorical
from kullback.pairs.registry import register


@register(Multinomial, Multinomial, source="n KL(Categorical ‖ Categorical) for equal counts, else infinite")
def kl_multinomial_multinomial(p: Multinomial, q: Multinomial) -> Tensor:
    """Outcomes sum to the count, so laws of different counts share none. No trials: one outcome, no divergence."""
    per_trial = kl_categorical_categorical(p._categorical, q._categorical)
    if p.total_count != q.total_count or p.total_count == 0:
        constant = 0.0 if p.total_count == q.total_count else math.inf
        return torch.where(torch.zeros_like(per_trial, dtype=torch.bool), per_trial, constant)
    return p.total_count * per_trial
