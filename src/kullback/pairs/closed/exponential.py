"""KL(Exponential ‖ q): a Gamma of concentration 1. Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Exponential, Gamma, Gumbel, Normal

from kullback.kernels.pair_ops import PairOp
from kullback.pairs.closed.gamma import gamma_op
from kullback.pairs.moments import kl_to_normal, phi_of_log_mean
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.special import kl_div, log1pmx


@register(Exponential, Exponential, source="φ(log(rate_q/rate_p)), φ(x) = eˣ − 1 − x", finished=True)
def kl_exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    """Not negative as it stands, and relatively accurate."""
    return exponential_op(p.rate, q.rate)


def _exponential_exponential(rate_p: Tensor, rate_q: Tensor) -> Tensor:
    return kl_div(rate_p, rate_q) / rate_p


exponential_op = PairOp("exponential", _exponential_exponential, arguments=("rate_p", "rate_q"))


@register(Exponential, Gamma, source="Gamma ‖ Gamma with a = 1", finished=True)
def kl_exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    """Zero where q is the same Exponential."""
    return gamma_op(torch.ones_like(p.rate), p.rate, q.concentration, q.rate)


@register(Exponential, Gumbel, source="c − log(1+c) − log c + φ(L), c = 1/(rate·scale), L = loc/scale − log(1+c)")
def kl_exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    """See `gamma_gumbel`, here for a = 1."""
    (rate,), (loc, scale) = read(p, "rate"), read(q, "loc", "scale")
    per_scale = rate * scale
    c = per_scale.reciprocal()
    return phi_of_log_mean(loc / scale - torch.log1p(c)) - log1pmx(c) + torch.log(per_scale)


@register(Exponential, Normal, source="½log(2π/e) + KL(Normal of the same moments ‖ q)")
def kl_exponential_normal(p: Exponential, q: Normal) -> Tensor:
    """Mean and standard deviation are 1/rate."""
    mean = read(p, "rate")[0].reciprocal()
    return kl_to_normal(0.5 * math.log(2 * math.pi) - 0.5, mean, mean, *read(q, "loc", "scale"))
