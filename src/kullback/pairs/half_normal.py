"""KL(HalfNormal ‖ q)."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import HalfNormal

from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.special import expm1mx


@register(
    HalfNormal, HalfNormal, source="½φ(2·log(σ_p/σ_q)), that of the Normals: |x| keeps all about laws symmetric in 0"
)
def kl_half_normal_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    """The Normals centred at 0."""
    return expm1mx(2 * log_ratio(*read(p, "scale"), *read(q, "scale"))) / 2
