"""KL(Beta ‖ q). Expectations under Beta(a, b): E x = a/(a+b), E log x = ψ(a) − ψ(a+b). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Beta, ContinuousBernoulli, Exponential, Gamma, Normal, Uniform

from kullback.densities.parameters import read, working
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.closed.continuous_bernoulli import minus_mean_log_density
from kullback.pairs.closed.gamma import negentropy
from kullback.pairs.closed.normal import kl_to_normal
from kullback.pairs.dirichlet import dirichlet_kl
from kullback.pairs.registry import register
from kullback.special import binet, binet_bregman, kl_div


@register(Beta, Beta, source="KL of two-dimensional Dirichlet distributions", finished=True)
def kl_beta_beta(p: Beta, q: Beta) -> Tensor:
    """Beta(a, b) is the first coordinate of Dirichlet(a, b), and the second is determined by it."""
    return beta_op(p._dirichlet.concentration, q._dirichlet.concentration)


beta_op = PairOp("beta", dirichlet_kl, arguments=("alpha", "beta"), parts=2)


def _shapes(p: Beta) -> list[Tensor]:
    """Both concentrations, each in memory of its own: the native functions are slower on every second number."""
    return [side.contiguous() for side in working(p._dirichlet.concentration).unbind(-1)]


def _kl_beta_unit(p: Beta) -> Tensor:
    """KL to the uniform distribution on [0, 1], the negative entropy."""
    concentration = working(p._dirichlet.concentration)
    return beta_op(concentration, torch.ones_like(concentration))


@register(Beta, Uniform, source="KL(Beta ‖ Uniform(0, 1)) + log(high − low)")
def kl_beta_uniform(p: Beta, q: Uniform) -> Tensor:
    """The width is 1 + (high − 1) − low, each part non-negative where q contains the unit interval."""
    low, high = read(q, "low", "high")
    outside = (low > 0) | (high < 1)
    excess = torch.where(outside, 0.0, (high - 1) - low)
    return torch.where(outside, math.inf, _kl_beta_unit(p) + torch.log1p(excess))


@register(Beta, ContinuousBernoulli, source="KL(Beta ‖ Uniform(0, 1)) + log((eᵗ − 1)/t) − t·a/(a+b), t the logit")
def kl_beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    """See `minus_mean_log_density`."""
    a, b = _shapes(p)
    c = a + b
    return _kl_beta_unit(p) + minus_mean_log_density(q, a / c, b / c)


@register(
    Beta,
    Gamma,
    source="k·φ(log(rate·E x/k)) + ½φ(log(k/a)) + D_R(a→k) + ½log(1 + a/b) + a/2bc − k/2c + k·R′(c) − D_R(c→b) "
    "+ (b−1)(R′(b) − R′(c)), c = a+b",
)
def kl_beta_gamma(p: Beta, q: Gamma) -> Tensor:
    """See `_kl_beta_gamma`."""
    return _kl_beta_gamma(p, *read(q, "concentration", "rate"))


@register(Beta, Exponential, source="KL(Beta ‖ Gamma(1, rate))")
def kl_beta_exponential(p: Beta, q: Exponential) -> Tensor:
    """An Exponential is a Gamma of concentration 1."""
    (rate,) = read(q, "rate")
    return _kl_beta_gamma(p, torch.ones_like(rate), rate)


def _kl_beta_gamma(p: Beta, k: Tensor, rate: Tensor) -> Tensor:
    """By Stirling's formula with Binet's remainder R. For large b, where p is nearly a Gamma, all terms are small."""
    a, b = _shapes(p)
    c = a + b
    means = kl_div(k, rate * (a / c)) + kl_div(a, k) / a / 2 + binet_bregman(a, k)
    limit = (torch.log1p(a / b) + a / b / c - k / c) / 2 - binet_bregman(c, b)
    slope_c = binet(c, 1)
    return means + limit + (b - 1) * (binet(b, 1) - slope_c) + k * slope_c


@register(Beta, Normal, source="J(a) + J(b) − J(a+b) + …, the negentropy, + KL(Normal of the same moments ‖ q)")
def kl_beta_normal(p: Beta, q: Normal) -> Tensor:
    """As a Beta is made of two Gammas, its negentropy follows from their J by Stirling's formula for log B(a, b)."""
    a, b = _shapes(p)
    c = a + b
    own = negentropy(a) + negentropy(b) - negentropy(c) + binet(c, 1) - (torch.log1p(1 / c) + 1 / c) / 2
    sd = torch.sqrt(a / c * (b / c) / (c + 1))
    return kl_to_normal(own, sd, a / c, *read(q, "loc", "scale"))
