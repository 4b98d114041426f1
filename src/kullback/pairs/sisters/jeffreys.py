"""Jeffreys' divergence."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Distribution

from kullback.pairs.dispatch import kl_divergence


def jeffreys(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q) + KL(q ‖ p), both non-negative."""
    return kl_divergence(p, q) + kl_divergence(q, p)
