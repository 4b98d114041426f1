"""KL(ContinuousBernoulli ‖ q): a density on [0, 1] like e^(ηx), η the log-odds. Called by `pairs.dispatch`.

It is an exponential family with log-normaliser η/2 + B(η), B(η) = log(sinh(η/2)/(η/2)) even and convex, so the
divergence from another member is the Bregman divergence of B. The restriction of an Exponential to [0, 1] is the member
with η = −rate, the Uniform the one with η = 0.

|x| ≤ 1 goes by B(x) = Σ (−1)^(k+1) ζ(2k)/k · (x/2π)²ᵏ; beyond it B(x) = |x|/2 − log|x| + log(1 − e^−|x|).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import ContinuousBernoulli, Exponential, Normal, Uniform

from kullback._core.gauss_legendre import gauss_legendre
from kullback._core.special._precision import horner
from kullback.densities.parameters import read
from kullback.kernels.levels import known_true
from kullback.pairs.closed.counts import log_odds_difference, success_parameter
from kullback.pairs.registry import register
from kullback.special import log1mexp

_ZETA = torch.special.zeta(2.0 * torch.arange(1, 13, dtype=torch.float64, device="cpu"), 1.0).tolist()
_SERIES = [0.0] + [(-1) ** (k + 1) * z / k / (2 * math.pi) ** (2 * k) for k, z in enumerate(_ZETA, 1)]
_SERIES_SLOPE = [2 * k * c for k, c in enumerate(_SERIES)][1:]  # of B′(x)/x
_SERIES_CURVATURE = [(2 * k + 1) * c for k, c in enumerate(_SERIES_SLOPE)]  # of B″(x)
# Up to this difference, or |a|/2, 14 of Gauss's nodes are exact to rounding: the nearest poles of B″ are at ±2πi, and
# far from 0, where B″ is 1/x², at 0.
_SHORT = 4.0
_RULE = gauss_legendre(14)


def _inner_and_outer(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where the series holds, its argument, and the size of the others."""
    inner = x.abs() <= 1
    return inner, torch.where(inner, x, 0.0), torch.where(inner, 4.0, torch.where(x < 0, -x, x))


def _b_less_half(x: Tensor) -> Tensor:
    """B(x) − x/2 = log((1 − e^−x)/x)."""
    inner, near, size = _inner_and_outer(x)
    far = log1mexp(-size) - torch.log(size)
    return torch.where(inner, horner(near * near, _SERIES) - near / 2, torch.where(x < 0, size + far, far))


def _slope(x: Tensor) -> Tensor:
    """B′(x), the mean less ½."""
    inner, near, size = _inner_and_outer(x)
    far = 0.5 - 1 / size - torch.exp(-size) / torch.expm1(-size)
    return torch.where(inner, near * horner(near * near, _SERIES_SLOPE), torch.where(x < 0, -far, far))


def _curvature(x: Tensor) -> Tensor:
    """B″(x), the variance."""
    inner, near, size = _inner_and_outer(x)
    far = 1 / (size * size) - torch.exp(-size) / torch.expm1(-size).square()
    return torch.where(inner, horner(near * near, _SERIES_CURVATURE), far)


def _divergence(a: Tensor, b: Tensor, difference: Tensor) -> Tensor:
    """The Bregman divergence of B from a to b, whose difference is known better than they are near equality."""
    short = difference.abs() <= torch.maximum(a.detach().abs() / 2, torch.full_like(a, _SHORT))
    step = torch.where(short, difference, 0.0).unsqueeze(-1)
    t, weights = (torch.tensor(numbers, dtype=step.dtype, device=step.device) for numbers in _RULE)
    value = (weights * (1 - t) * step * step * _curvature(a.unsqueeze(-1) + t * step)).sum(-1)
    if known_true(short):
        return value
    # |x|/2 contributes |b| across 0, and nothing else: what is left of B and of its slope is small.
    a, b = torch.where(short, 0.0, a), torch.where(short, 8.0, b)
    turned = a < 0  # B is even
    a, b = torch.where(turned, -a, a), torch.where(turned, -b, b)
    far = _b_less_half(b) - _b_less_half(a) + (b - a) * (0.5 - _slope(a))
    return torch.where(short, value, far)


def minus_mean_log_density(q: ContinuousBernoulli, to_low: Tensor, to_high: Tensor) -> Tensor:
    """−E log q(x) = log((e^η − 1)/η) − η·E x for x on [0, 1], given E x and 1 − E x; infinite at infinite η."""
    eta = success_parameter(q).log_odds()
    infinite = eta.isinf()
    eta = torch.where(infinite, 1.0, eta)
    size = torch.where(eta < 0, -eta, eta)
    return torch.where(infinite, math.inf, size * torch.where(eta < 0, to_low, to_high) + _b_less_half(size))


@register(ContinuousBernoulli, ContinuousBernoulli, source="Bregman divergence of log(sinh(η/2)/(η/2))")
def kl_continuous_bernoulli_continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    """See the module's formula."""
    own, other = success_parameter(p), success_parameter(q)
    return _divergence(own.log_odds(), other.log_odds(), log_odds_difference(own, other))


def _from_uniform(eta: Tensor) -> Tensor:
    """KL(p ‖ Uniform(0, 1)), the negative entropy."""
    return _divergence(eta, torch.zeros_like(eta), -eta)


@register(ContinuousBernoulli, Uniform, source="KL(p ‖ Uniform(0, 1)) + log(high − low)")
def kl_continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    """The interval contains [0, 1], so both terms are non-negative; elements where it does not carry no gradient."""
    low, high = read(q, "low", "high")
    outside = (low > 0) | (high < 1)
    excess = torch.where(outside, 0.0, (high - 1) - low)
    return torch.where(outside, math.inf, _from_uniform(success_parameter(p).log_odds()) + torch.log1p(excess))


@register(ContinuousBernoulli, Exponential, source="KL(p ‖ q restricted to [0, 1]) − log q([0, 1])")
def kl_continuous_bernoulli_exponential(p: ContinuousBernoulli, q: Exponential) -> Tensor:
    """Both terms are non-negative."""
    (rate,), eta = read(q, "rate"), success_parameter(p).log_odds()
    return _divergence(eta, -rate, -rate - eta) - log1mexp(-rate)


@register(ContinuousBernoulli, Normal, source="KL(p ‖ Uniform(0, 1)) + log(σ√2π) + (Var x + (E x − μ)²)/2σ²")
def kl_continuous_bernoulli_normal(p: ContinuousBernoulli, q: Normal) -> Tensor:
    """E x = ½ + B′(η), Var x = B″(η)."""
    (loc, scale), eta = read(q, "loc", "scale"), success_parameter(p).log_odds()
    offset = ((0.5 - loc) + _slope(eta)) / scale
    spread = _curvature(eta) / scale / scale
    return _from_uniform(eta) + torch.log(scale) + math.log(2 * math.pi) / 2 + (spread + offset**2) / 2
