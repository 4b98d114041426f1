"""KL(Gamma ‖ q), KL(Exponential ‖ q) and KL(InverseGamma ‖ q); a Chi2 is a Gamma. Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Exponential, Gamma, Gumbel, InverseGamma, Normal

from kullback.densities.parameters import read
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.closed.normal import kl_to_normal, phi_of_log_mean
from kullback.pairs.registry import register
from kullback.special import binet, binet_bregman, kl_div, log1pmx


@register(
    Gamma,
    Gamma,
    source="b·φ(log(aβ_q/(bβ_p))) + ½φ(log(b/a)) + D_R(a→b): Stirling's part and Binet's remainder R",
    finished=True,
)
def kl_gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    """See `_gamma_gamma`."""
    return gamma_op(p.concentration, p.rate, q.concentration, q.rate)


@register(Gamma, Exponential, source="Gamma ‖ Gamma with b = 1", finished=True)
def kl_gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    """An Exponential is a Gamma of concentration 1."""
    return gamma_op(p.concentration, p.rate, torch.ones_like(q.rate), q.rate)


def _gamma_gamma(a: Tensor, rate_p: Tensor, b: Tensor, rate_q: Tensor) -> Tensor:
    """Three non-negative terms; the textbook form's log-gammas cancel among each other at large concentration.

    The ratio of the means is 1 + y, y = u + v + uv with the relative differences u and v, exact near equality.
    """
    u, v = (a - b) / b, (rate_q - rate_p) / rate_p
    y = u + v * (1 + u)
    near = y.abs() < 0.5
    means = torch.where(
        near, -b * log1pmx(torch.where(near, y, 0.0)), kl_div(b, torch.where(near, b, a * (rate_q / rate_p)))
    )
    return means + kl_div(a, b) / a / 2 + binet_bregman(a, b)


gamma_op = PairOp("gamma", _gamma_gamma, arguments=("a", "rate_p", "b", "rate_q"))


@register(
    Gamma, Gumbel, source="J(a) + a(c − log(1+c)) − log(c√a) + ½log(e/2π) + φ(L), c = 1/(rate·scale), L = log E e^(−z)"
)
def kl_gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    """See `gamma_gumbel`."""
    return gamma_gumbel(*read(p, "concentration", "rate"), *read(q, "loc", "scale"))


def gamma_gumbel(a: Tensor, rate: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """KL(Gamma(a, rate) ‖ Gumbel(loc, scale)).

    With z = (x − loc)/scale, E z + E e^(−z) = φ(L) + 1 + (L + E z) and L + E z = a(c − log(1+c)) ≥ 0. Neither
    e^(loc/scale) nor (1+c)^(−a) is formed alone, since one overflows where the other underflows.
    """
    c = (rate * scale).reciprocal()
    value = phi_of_log_mean(loc / scale - a * torch.log1p(c)) + negentropy(a) - a * log1pmx(c)
    return value - torch.log(c * a.sqrt()) + (0.5 - 0.5 * math.log(2 * math.pi))


@register(Gamma, Normal, source="J(a) + KL(Normal of the same moments ‖ q)")
def kl_gamma_normal(p: Gamma, q: Normal) -> Tensor:
    """Mean a/rate, variance a/rate²."""
    a, rate = read(p, "concentration", "rate")
    return kl_to_normal(negentropy(a), a.sqrt() / rate, a / rate, *read(q, "loc", "scale"))


def negentropy(a: Tensor) -> Tensor:
    """J(a) = ½log(2πe·a) − H(Gamma(a, 1)), about 1/(3a) for large a; Stirling's main parts cancel exactly."""
    return (a - 1) * binet(a, 1) - binet(a) + a.reciprocal() / 2


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


@register(InverseGamma, InverseGamma, source="that of the Gammas: x → 1/x is a bijection", finished=True)
def kl_inverse_gamma_inverse_gamma(p: InverseGamma, q: InverseGamma) -> Tensor:
    """The Gammas of the reciprocals."""
    return gamma_op(p.concentration, p.rate, q.concentration, q.rate)
