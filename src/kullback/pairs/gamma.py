"""KL(Gamma ‖ q); a Chi2 is a Gamma. The Exponential, which is one too, uses these with concentration 1."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Exponential, Gamma, Gumbel, Normal

from kullback._core.special._double_double import divided, minus, root
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.moments import exact, kl_to_normal, known_to
from kullback.pairs.parameters import read
from kullback.pairs.products import corrected, log_quotient, mean_term, settled, sum_of_products
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.special import binet, binet_bregman, expm1mx, log1pmx


@register(
    Gamma,
    Gamma,
    source="b·φ(log(aβ_q/(bβ_p))) + ½φ(log(b/a)) + D_R(a→b): Stirling's part and Binet's remainder R",
    finished=True,
)
def kl_gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    """See `gamma_gamma`."""
    return gamma_gamma(p.concentration, p.rate, q.concentration, q.rate)


@register(Gamma, Exponential, source="Gamma ‖ Gamma with b = 1", finished=True)
def kl_gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    """An Exponential is a Gamma of concentration 1."""
    return gamma_gamma(p.concentration, p.rate, torch.ones_like(q.rate), q.rate)


@register(
    Gamma, Gumbel, source="J(a) + a(c − log(1+c)) − log(c√a) + ½log(e/2π) + φ(L), c = 1/(rate·scale), L = log E e^(−z)"
)
def kl_gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    """In logarithms throughout; see `gamma_gumbel`."""
    return gamma_gumbel(*read(p, "concentration", "rate"), *read(q, "loc", "scale"))


@register(Gamma, Normal, source="J(a) + KL(Normal of the same moments ‖ q)")
def kl_gamma_normal(p: Gamma, q: Normal) -> Tensor:
    """The Gamma's negentropy, and its first two moments against q's."""
    a, rate = read(p, "concentration", "rate")
    return gamma_normal(a, rate, q)


def _gamma_gamma(a: Tensor, rate_p: Tensor, b: Tensor, rate_q: Tensor) -> Tensor:
    """Three non-negative terms; the textbook form's log-gammas cancel among each other at large concentration."""
    means = mean_term(b, a * (rate_q / rate_p), log_quotient(a, rate_q, b, rate_p))
    return means + expm1mx(log_ratio(b, a)) / 2 + binet_bregman(a, b)


gamma_gamma = PairOp("gamma", _gamma_gamma, arguments=("a", "rate_p", "b", "rate_q"))


def negentropy(a: Tensor) -> Tensor:
    """J(a) = ½log(2πe·a) − H(Gamma(a, 1)), about 1/(3a) for large a; Stirling's main parts cancel exactly."""
    slope = binet(a, 1)
    return 0.5 / a - binet(a) - slope + a * slope


def gamma_normal(a: Tensor, rate: Tensor, q: Normal) -> Tensor:
    """KL(Gamma(a, rate) ‖ q)."""
    (loc,) = read(q, "loc")
    at, at_rate, at_loc = (exact(x.detach()) for x in (a, rate, loc))
    offset = known_to(a / rate - loc, minus(divided(at, at_rate), at_loc))
    return kl_to_normal(negentropy(a), known_to(a.sqrt() / rate, divided(root(at), at_rate)), offset, q)


def gamma_gumbel(a: Tensor, rate: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """KL(Gamma(a, rate) ‖ Gumbel(loc, scale)).

    With z = (x − loc)/scale, E z + E e^(−z) = φ(L) + 1 + (L + E z) and L + E z = a(c − log(1+c)) ≥ 0. Neither
    e^(loc/scale) nor (1+c)^(−a) is formed alone, since one overflows where the other underflows.
    """
    c = 1 / (rate * scale)
    jensen = -a * log1pmx(c)
    # Below c = 1 the difference of the means is what must be exact; above, a·log(1+c) is the smaller number.
    exact = sum_of_products((loc, rate), (-a, torch.ones_like(a))) / rate / scale
    by_mean = corrected(loc / scale - a * c, exact) + jensen
    log_mgf = torch.where(c < 1, by_mean, loc / scale - a * torch.log1p(c))
    constant = 0.5 - 0.5 * math.log(2 * math.pi)
    return settled(expm1mx(log_mgf) + negentropy(a) + (jensen - torch.log(c * a.sqrt()) + constant))
