"""KL(Beta ‖ q). Expectations under Beta(a, b): E x = a/(a+b), E log x = ψ(a) − ψ(a+b). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Beta, ContinuousBernoulli, Exponential, Gamma, Normal, Uniform

from kullback.kernels.pair_ops import PairOp
from kullback.pairs.closed.continuous_bernoulli import minus_mean_log_density
from kullback.pairs.dirichlet import dirichlet_kl
from kullback.pairs.moments import kl_to_normal
from kullback.pairs.parameters import read, working
from kullback.pairs.registry import register
from kullback.special import binet, binet_bregman, kl_div, log1pmx


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


@register(Beta, Uniform, source="KL(Beta ‖ Uniform(0, 1)) + log(high − low)", decides_support=True)
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


@register(Beta, Normal, source="negentropy of Beta + KL of the Normal with Beta's moments to q")
def kl_beta_normal(p: Beta, q: Normal) -> Tensor:
    """As log q is quadratic, KL(p ‖ q) = KL(p ‖ r) + KL(r ‖ q), r the Normal with the moments of p."""
    a, b = _shapes(p)
    c = a + b
    sd = torch.sqrt(a / c * (b / c) / (c + 1))
    return kl_to_normal(_negentropy(a, b), sd, a / c, *read(q, "loc", "scale"))


def _negentropy(a: Tensor, b: Tensor) -> Tensor:
    """KL(Beta(a, b) ‖ Normal with its mean and variance).

    With Stirling's formula for log B, ψ(a), ψ(b), ψ(c), c = a+b, everything of order log cancels and the terms in 1/x
    combine to a square; Q(x) = R(x) − x·R'(x) − 1/(6x) = −1/(90x³) + …
    """
    c = a + b
    square = (a - b) / c * ((a - b) / a) / b / 3
    all_three = torch.stack([a, b, c])
    slopes = binet(all_three, 1)
    first = slopes + _cubic(all_three, slopes)
    return square - log1pmx(c.reciprocal()) / 2 - first[0] - first[1] + (first[2] + slopes[2])


def _cubic(x: Tensor, slope: Tensor) -> Tensor:
    """Q(x) = R(x) − x·R'(x) − 1/(6x), given R'(x)."""
    inverse = x.clamp_min(1.0).reciprocal()
    s = inverse * inverse
    series = -inverse * s * (1 / 90 - s * (1 / 210 - s * (1 / 210 - s * (5 / 594 - s * 691 / 30030))))
    return torch.where(x > 40, series, binet(x) - x * slope - x.reciprocal() / 6)
