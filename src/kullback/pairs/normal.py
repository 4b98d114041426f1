"""KL(Normal ‖ q). Expectations under a Gaussian."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Normal

from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.special import expm1mx


@register(Normal, Normal, source="½[φ(2s) + (Δμ/σ_q)²], s = log(σ_p/σ_q), φ(x) = eˣ − 1 − x")
def kl_normal_normal(p: Normal, q: Normal) -> Tensor:
    """Both terms are non-negative; the logarithm of the ratio is taken so that no σ² over- or underflows."""
    loc_p, scale_p = read(p, "loc", "scale")
    loc_q, scale_q = read(q, "loc", "scale")
    return (expm1mx(2 * log_ratio(scale_p, scale_q)) + ((loc_p - loc_q) / scale_q) ** 2) / 2
