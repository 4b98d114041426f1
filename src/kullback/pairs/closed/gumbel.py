"""KL(Gumbel ‖ q) and KL(Weibull ‖ q): −log of a Weibull(λ, k) is a Gumbel(−log λ, 1/k). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Gumbel, Normal, Weibull

from kullback._core.special.exp_log import log_ratio
from kullback.densities.parameters import read
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.closed.normal import kl_to_normal
from kullback.pairs.registry import register
from kullback.special import digamma, expm1mx, lgamma_bregman

EULER = 0.5772156649015329
_NEGENTROPY = 0.5 * math.log(2 * math.pi * math.e * math.pi**2 / 6) - EULER - 1


@register(Gumbel, Gumbel, source="φ(log Γ(1+r) − Δμ/β_q) + log Γ(r) + γ(r−1), r = β_p/β_q", finished=True)
def kl_gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    """See `gumbel_by_ratio`."""
    return gumbel_op(p.loc, p.scale, q.loc, q.scale)


def _gumbel_gumbel(loc_p: Tensor, scale_p: Tensor, loc_q: Tensor, scale_q: Tensor) -> Tensor:
    return gumbel_by_ratio(scale_p / scale_q, (scale_p - scale_q) / scale_q, (loc_q - loc_p) / scale_q)


def gumbel_by_ratio(r: Tensor, r_less_one: Tensor, shift: Tensor) -> Tensor:
    """KL by the ratio of the scales, its distance from 1, and (μ_q − μ_p)/β_q.

    E e^(−z) = e^L with L = shift + log Γ(1+r); φ(L) and the Bregman divergence log Γ(r) + γ(r−1) are not negative. Near
    1 the ratio has lost digits that its distance from 1 has: they are added with the slope ψ(r) + γ.
    """
    lost = torch.where(r_less_one.abs() < 0.5, r_less_one - (r - 1), 0.0)
    bregman = lgamma_bregman(torch.ones_like(r), r) + ((digamma(r) + EULER) * lost).detach()
    log_mgf = shift + (bregman - EULER * r_less_one + torch.log(r))
    over = log_mgf > 709
    return torch.where(over, math.inf, expm1mx(torch.where(over, 0.0, log_mgf)) + bregman)


gumbel_op = PairOp("gumbel", _gumbel_gumbel, arguments=("loc_p", "scale_p", "loc_q", "scale_q"))


@register(Gumbel, Normal, source="½log(π³/3) − ½ − γ + KL(Normal of the same moments ‖ q)")
def kl_gumbel_normal(p: Gumbel, q: Normal) -> Tensor:
    """Mean μ + γβ, variance (πβ)²/6."""
    loc, scale = read(p, "loc", "scale")
    sd = math.pi / math.sqrt(6) * scale
    return kl_to_normal(_NEGENTROPY, sd, loc + EULER * scale, *read(q, "loc", "scale"))


@register(
    Weibull, Weibull, source="that of the Gumbels of −log x: φ(L) + log Γ(r) + γ(r−1), r = k_q/k_p", finished=True
)
def kl_weibull_weibull(p: Weibull, q: Weibull) -> Tensor:
    """See `_weibull_weibull`."""
    return weibull_op(p.scale, p.concentration, q.scale, q.concentration)


def _weibull_weibull(scale_p: Tensor, k_p: Tensor, scale_q: Tensor, k_q: Tensor) -> Tensor:
    """The scales of the Gumbels are 1/k, their locations −log λ."""
    return gumbel_by_ratio(k_q / k_p, (k_q - k_p) / k_p, k_q * log_ratio(scale_p, scale_q))


weibull_op = PairOp("weibull", _weibull_weibull, arguments=("scale_p", "k_p", "scale_q", "k_q"))
