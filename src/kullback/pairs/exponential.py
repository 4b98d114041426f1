"""KL(Exponential ‖ q): a Gamma of concentration 1."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Exponential, Gamma, Gumbel, Normal

from kullback.pairs.gamma import gamma_gamma, gamma_gumbel, gamma_normal
from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.special import expm1mx


@register(Exponential, Exponential, source="φ(log(rate_q/rate_p)), φ(x) = eˣ − 1 − x")
def kl_exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    """Non-negative as it stands, and relatively accurate through the logarithm of the ratio."""
    return expm1mx(log_ratio(*read(q, "rate"), *read(p, "rate")))


@register(Exponential, Gamma, source="Gamma ‖ Gamma with a = 1")
def kl_exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    """Zero where q is the same Exponential."""
    (rate,) = read(p, "rate")
    return gamma_gamma(torch.ones_like(rate), rate, *read(q, "concentration", "rate"))


@register(Exponential, Gumbel, source="Gamma ‖ Gumbel with a = 1")
def kl_exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    """See `gamma_gumbel`."""
    (rate,) = read(p, "rate")
    return gamma_gumbel(torch.ones_like(rate), rate, *read(q, "loc", "scale"))


@register(Exponential, Normal, source="½log(2π/e) + KL(Normal of the same moments ‖ q)")
def kl_exponential_normal(p: Exponential, q: Normal) -> Tensor:
    """The mean 1/rate, the same standard deviation, against q's."""
    (rate,) = read(p, "rate")
    return gamma_normal(torch.ones_like(rate), rate, q)
