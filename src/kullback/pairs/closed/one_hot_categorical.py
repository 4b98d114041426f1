"""KL(OneHotCategorical ‖ q), the straight-through variant included."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import OneHotCategorical

from kullback.pairs.closed.categorical import kl_categorical_categorical
from kullback.pairs.registry import register


@register(
    OneHotCategorical,
    OneHotCategorical,
    source="KL(Categorical ‖ Categorical): the outcome names the class",
    finished=True,
)
def kl_one_hot_categorical_one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    """The same law, written as a unit vector."""
    return kl_categorical_categorical(p._categorical, q._categorical)
