"""KL(Weibull ‖ q). −log of a Weibull(λ, k) is a Gumbel(−log λ, 1/k)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Gamma, Weibull

from kullback.pairs.gumbel import gumbel_gumbel
from kullback.pairs.lgamma_near_one import EULER, bregman_from_one, lgamma_above
from kullback.pairs.parameters import read
from kullback.pairs.products import log_quotient, mean_term, settled
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.special import binet, binet_bregman, expm1mx


@register(Weibull, Weibull, source="that of the Gumbels of −log x: φ(L) + log Γ(r) + γ(r−1), r = k_q/k_p")
def kl_weibull_weibull(p: Weibull, q: Weibull) -> Tensor:
    """The scales of the Gumbels are 1/k, their locations −log λ."""
    scale_p, k_p = read(p, "scale", "concentration")
    scale_q, k_q = read(q, "scale", "concentration")
    return gumbel_gumbel(k_q / k_p, (k_q - k_p) / k_p, k_q * log_ratio(scale_p, scale_q))


@register(Weibull, Gamma, source="b·φ(log(rate·E x/b)) + min over the rate; Bauckhage, arXiv 1401.6853, (28)")
def kl_weibull_gamma(p: Weibull, q: Gamma) -> Tensor:
    """The part of the means, and the divergence that is left when they agree.

    With κ = 1/k the second is F = [log Γ(b) − b·log b + b] + b·D(1+κ) − log κ − γ − 1, D(x) = log Γ(x) + γ(x−1). It
    vanishes to second order at b = κ = 1, where both laws are exponential, and is expanded there.
    """
    scale, k = read(p, "scale", "concentration")
    b, rate = read(q, "concentration", "rate")
    kappa, kappa_less_one = 1 / k, (1 - k) / k
    log_gamma = lgamma_above(kappa, kappa_less_one)
    log_means = log_quotient(rate, scale, b, torch.ones_like(b)) + log_gamma
    # Γ(1+κ) in two factors: it may overflow where the mean does not.
    fits = log_gamma < 1400
    root = torch.exp(torch.where(fits, log_gamma, 0.0) / 2)
    means = mean_term(b, torch.where(fits, rate * scale * root * root, torch.inf), log_means)
    cross = (b - 1) * (log_gamma + EULER * kappa_less_one)
    shapes = expm1mx(torch.log(b)) / 2 + binet_bregman(1.0, b) + bregman_from_one(kappa, kappa_less_one)
    constant = 0.5 * math.log(2 * math.pi) - EULER - 1
    otherwise = b * bregman_from_one(1 + kappa, kappa) - torch.log(kappa * b.sqrt()) + binet(b) + constant
    near = (b < 1.5) & (b > 0.5) & (kappa_less_one.abs() < 0.5)
    return settled(means + torch.where(near, shapes + cross, otherwise))
