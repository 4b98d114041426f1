"""KL(Beta ‖ q). Expectations under Beta(a, b): E x = a/(a+b), E log x = ψ(a) − ψ(a+b)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Beta, ContinuousBernoulli, Exponential, Gamma, Normal, Uniform

from kullback._core.gauss_legendre import gauss_legendre
from kullback._core.special._double_double import (
    divided,
    minus,
    plus,
    root,
    two_product,
    two_sum,
)
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.dirichlet import cross_difference, dirichlet_kl
from kullback.pairs.moments import exact, kl_to_normal, known_to
from kullback.pairs.outcomes import chance
from kullback.pairs.parameters import read, working
from kullback.pairs.ratios import log_ratio, share, valued
from kullback.pairs.registry import register
from kullback.special import binet, binet_bregman, expm1mx, kl_div, log1mexp, log1pmx

# Exact to 1e-16 for the integrals below, whose integrands vary by a third.
_RULE = gauss_legendre(8)
# A logit beyond which an Exponential leaves less than 2 % outside [0, 1].
_STEEP = 4.0


@register(Beta, Beta, source="KL of two-dimensional Dirichlet laws", finished=True)
def klbeta_op(p: Beta, q: Beta) -> Tensor:
    """Beta(a, b) is the first coordinate of Dirichlet(a, b), and the second is determined by it."""
    return beta_op(p._dirichlet.concentration, q._dirichlet.concentration)


beta_op = PairOp("beta", dirichlet_kl, arguments=("alpha", "beta"), parts=2)


def _kl_beta_unit(p: Beta) -> Tensor:
    """KL to the uniform law on [0, 1], the negative entropy."""
    concentration = working(p._dirichlet.concentration)
    return beta_op(concentration, torch.ones_like(concentration))


@register(Beta, Uniform, source="KL(Beta ‖ Uniform(0, 1)) + log(high − low)")
def kl_beta_uniform(p: Beta, q: Uniform) -> Tensor:
    """The width is 1 + (high − 1) − low, each part non-negative where q contains the unit interval."""
    low, high = read(q, "low", "high")
    inside = (low <= 0) & (high >= 1)
    excess = torch.where(inside, (high - 1) - low, 0.0)
    return _kl_beta_unit(p) + torch.log1p(excess)


@register(Beta, ContinuousBernoulli, source="KL(Beta ‖ Uniform(0, 1)) + log((eᵗ − 1)/t) − t·a/(a+b), t the logit")
def kl_beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    """Around t = 0 the odd part t·(½ − E x) is taken out; elsewhere mirrored so that t ≥ 0, with 1 − E x beside it.

    For large |t| q is all but an Exponential, which Beta(1, b) approaches, too: there it is
    KL(Beta ‖ Gamma(1, |t|)) + log(1 − e^−|t|).
    """
    a, b = read(p, "concentration1", "concentration0")
    logit = chance(q).as_logits().given
    small = logit.abs() < 0.3
    # log(sinh(t/2)/(t/2)) = t²/24 − t⁴/2880 + t⁶/181440 − …
    inner = torch.where(small, logit, 0.0)
    s = inner * inner
    even = s * (1 / 24 - s * (1 / 2880 - s * (1 / 181440 - s * (1 / 9676800 - s / 479001600))))
    near = even + inner * ((b - a) / (a + b) / 2)
    size = torch.where(small, 1.0, logit.abs())
    steep = size > _STEEP
    rate = torch.where(steep, size, _STEEP)
    up = logit >= 0
    first, second = torch.where(up, b, a), torch.where(up, a, b)
    far = log1mexp(-size) - torch.log(size) + size * (first / (a + b))
    limit = _kl_beta_gamma(first, second, torch.ones_like(rate), rate) + log1mexp(-rate)
    return torch.where(steep, limit, _kl_beta_unit(p) + torch.where(small, near, far))


@register(
    Beta, Gamma, source="KL(Beta(a, b) ‖ Gamma(a, a+b)) + KL(Gamma(a, a+b) ‖ q) + (a − k)·(log c − ψ(c)), c = a+b"
)
def kl_beta_gamma(p: Beta, q: Gamma) -> Tensor:
    """Gamma(a, a+b) has the mean of p and is its limit for large b."""
    a, b = read(p, "concentration1", "concentration0")
    return _kl_beta_gamma(a, b, *read(q, "concentration", "rate"))


@register(Beta, Exponential, source="KL(Beta ‖ Gamma(1, rate))")
def kl_beta_exponential(p: Beta, q: Exponential) -> Tensor:
    """An exponential law is Gamma(1, rate)."""
    a, b = read(p, "concentration1", "concentration0")
    (rate,) = read(q, "rate")
    return _kl_beta_gamma(a, b, torch.ones_like(rate), rate)


def _kl_beta_gamma(a: Tensor, b: Tensor, shape: Tensor, rate: Tensor) -> Tensor:
    """Stirling's main parts of the three terms make up ½φ(log(kb/(ac))): at kb = ac q has the variance of p, too."""
    c = a + b
    # KL(Beta(a, b) ‖ Gamma(a, c)) = ½h(b/c) + ½a/(bc) + a·R'(c) + ∫(1−x)·R''(x)dx over [b, c].
    near = a < 0.3 * b
    short = torch.where(near, a, 0.0)
    integral = torch.zeros_like(c)
    for node, weight in zip(*_RULE, strict=True):
        x = b + node * short
        integral = integral + weight * short * (1 - x) * binet(x, 2)
    direct = _stirling_mean(c) - _stirling_mean(b) + (binet(c, 1) - binet(b, 1))
    limit = 0.5 * share(a, b) / b + torch.where(near, integral, direct)
    remainder = limit + binet_bregman(a, shape) + shape * binet(c, 1)
    return _kl_shapes(a, b, shape, rate) + 0.5 * expm1mx(_log_spread_ratio(a, b, shape)) + remainder


def _log_spread_ratio(a: Tensor, b: Tensor, shape: Tensor) -> Tensor:
    """log(kb/(a(a+b))), from the exact difference of the products where they are nearly equal."""
    c, low = two_sum(a, b)
    x = cross_difference(shape, b, torch.zeros_like(b), a, c, low) / a / c
    near = x.abs() < 0.5
    apart = log_ratio(shape, a) + torch.log(share(b, a))
    return valued(torch.where(near, torch.log1p(torch.where(near, x, 0.0)), apart), apart)


def _kl_shapes(a: Tensor, b: Tensor, shape: Tensor, rate: Tensor) -> Tensor:
    """k·log(k/m) − k + m for m = λ·a/(a+b), from the exact difference m − k = (λa − k(a+b))/(a+b)."""
    c, low = two_sum(a, b)
    exact = cross_difference(rate, a, torch.zeros_like(a), shape, c, low) / c / shape
    near = exact.abs() < 0.5
    mean = share(a, b) * rate
    x = valued(torch.where(near, exact, 0.0), torch.where(near, mean / shape, 0.0))
    return torch.where(near, -shape * log1pmx(x), kl_div(shape, mean))


def _stirling_mean(x: Tensor) -> Tensor:
    """R(x) − x·R'(x)."""
    return binet(x) - x * binet(x, 1)


@register(Beta, Normal, source="negentropy of Beta + KL of the Normal with Beta's moments to q")
def kl_beta_normal(p: Beta, q: Normal) -> Tensor:
    """As log q is quadratic, KL(p ‖ q) = KL(p ‖ r) + KL(r ‖ q), r the Normal with the moments of p."""
    a, b = read(p, "concentration1", "concentration0")
    (loc,) = read(q, "loc")
    at_a, at_b = a.detach(), b.detach()
    total = two_sum(at_a, at_b)
    mean = divided(exact(at_a), total)
    spread = divided(root(divided(two_product(at_a, at_b), plus(total, exact(torch.ones_like(total[0]))))), total)
    offset = known_to(share(a, b) - loc, minus(mean, exact(loc.detach())))
    deviation = torch.sqrt(share(a, b) * share(b, a) / (a + b + 1))
    return kl_to_normal(_negentropy(a, b), known_to(deviation, spread), offset, q)


def _negentropy(a: Tensor, b: Tensor) -> Tensor:
    """KL(Beta(a, b) ‖ Normal with its mean and variance).

    With Stirling's formula for log B, ψ(a), ψ(b), ψ(c), c = a+b, everything of order log cancels and the terms in 1/x
    combine to a square; Q(x) = R(x) − x·R'(x) − 1/(6x) = −1/(90x³) + …
    """
    c = a + b
    square = (a - b) / c * ((a - b) / a) / b / 3
    second = -0.5 * log1pmx(1 / c) - binet(a, 1) - binet(b, 1) + 2 * binet(c, 1)
    return square + second - _cubic(a) - _cubic(b) + _cubic(c)


def _cubic(x: Tensor) -> Tensor:
    large = x > 40
    inverse = 1 / torch.where(large, x, 40.0)
    s = inverse * inverse
    series = -inverse * s * (1 / 90 - s * (1 / 210 - s * (1 / 210 - s * (5 / 594 - s * 691 / 30030))))
    small = torch.where(large, 1.0, x)
    return torch.where(large, series, _stirling_mean(small) - 1 / (6 * small))
