"""KL(Geometric ‖ q). The number of failures before the first success; probs = 1 is allowed: all mass at 0."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Geometric

from kullback.pairs.outcomes import chance, kl_per_success
from kullback.pairs.registry import register


@register(Geometric, Geometric, source="KL(Bernoulli(p) ‖ Bernoulli(q)) / p, by the chain rule", decides_support=True)
def kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    """1/p trials are expected, each of which contributes the divergence of one trial."""
    return kl_per_success(chance(p), chance(q))
