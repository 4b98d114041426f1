"""KL(ContinuousBernoulli ‖ q): the density on [0, 1] is proportional to e^(ηx), η the log-odds. See `pairs.dispatch`.

It is an exponential family with log-normaliser η/2 + B(η), B(η) = log(sinh(η/2)/(η/2)) even and convex, so the
divergence from another member is the Bregman divergence of B. The restriction of an Exponential to [0, 1] is the member
with η = −rate, the Uniform the one with η = 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import ContinuousBernoulli, Exponential, Normal, Uniform

from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._precision import horner
from kullback.pairs.log_sinhc import log_sinhc, log_sinhc_bregman, log_sinhc_slopes, mean_distance
from kullback.pairs.outcomes import Chance, chance, difference_of_log_odds
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.special import log1mexp

# sinh(k)/k − 1 in powers of k².
_SINHC = [1 / math.factorial(2 * j + 1) for j in range(1, 10)]


def minus_mean_log_density(q: ContinuousBernoulli, centre: Tensor, to_low: Tensor, to_high: Tensor) -> Tensor:
    """−E log q(x) = log((e^η − 1)/η) − η·E x for x on [0, 1], given ½ − E x, E x and 1 − E x; infinite at infinite η.

    For small |η| it is log(sinh(η/2)/(η/2)) + η·(½ − E x); else the mean is measured from the end where q is high.
    """
    eta = chance(q).as_logits().given
    infinite = eta.isinf()
    eta = torch.where(infinite, 1.0, eta)
    small = eta.abs() < 1
    near = torch.where(small, eta, 0.0)
    square = near * near / 4
    by_centre = torch.log1p(square * horner(square, _SINHC)) + near * centre
    size = torch.where(small, 1.0, torch.where(eta < 0, -eta, eta))
    by_end = size * torch.where(eta < 0, to_low, to_high) - torch.log(size) + log1mexp(-size)
    return torch.where(infinite, math.inf, torch.where(small, by_centre, by_end))


def _members(p: Chance, q: Chance) -> tuple[Tensor, Tensor, Tensor]:
    """Both η, differentiable, and their difference, which near equality is known better than they are."""
    return p.as_logits().given, q.as_logits().given, difference_of_log_odds(q, p).detach()


def _divergence(eta_p: Tensor, eta_q: Tensor, difference: Tensor) -> Tensor:
    """The Bregman divergence of B with its derivatives −(η_q−η_p) B″(η_p) and B′(η_q) − B′(η_p)."""
    (a, a_step), (b, b_step) = split_point(eta_p), split_point(eta_q)
    value, rise = log_sinhc_bregman(a, b, difference)
    _, bend_a, third_a = log_sinhc_slopes(a)
    _, bend_b, _ = log_sinhc_slopes(b)
    first = (-difference * bend_a, rise)
    return attach(value, [a_step, b_step], first, (bend_a - difference * third_a, -bend_a, bend_b))


@register(ContinuousBernoulli, ContinuousBernoulli, source="Bregman divergence of log(sinh(η/2)/(η/2))")
def kl_continuous_bernoulli_continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    """See the module's formula."""
    return _divergence(*_members(chance(p), chance(q)))


def _from_uniform(p: ContinuousBernoulli) -> Tensor:
    """KL(p ‖ Uniform(0, 1)), the negative entropy."""
    eta = chance(p).as_logits().given
    return _divergence(eta, torch.zeros_like(eta), -eta.detach())


@register(ContinuousBernoulli, Uniform, source="KL(p ‖ Uniform(0, 1)) + log(high − low)", decides_support=True)
def kl_continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    """The interval contains [0, 1], so both terms are non-negative; elements where it does not carry no gradient."""
    low, high = read(q, "low", "high")
    outside = (low > 0) | (high < 1)
    excess = torch.where(outside, 0.0, (high - 1) - low)
    return torch.where(outside, math.inf, _from_uniform(p) + torch.log1p(excess))


@register(ContinuousBernoulli, Exponential, source="KL(p ‖ q restricted to [0, 1]) − log q([0, 1])")
def kl_continuous_bernoulli_exponential(p: ContinuousBernoulli, q: Exponential) -> Tensor:
    """Both terms are non-negative."""
    (rate,), eta = read(q, "rate"), chance(p).as_logits().given
    return _divergence(eta, -rate, -rate.detach() - eta.detach()) - log1mexp(-rate)


@register(ContinuousBernoulli, Normal, source="KL(p ‖ Uniform(0, 1)) + log(σ√2π) + (Var x + (E x − μ)²)/2σ²")
def kl_continuous_bernoulli_normal(p: ContinuousBernoulli, q: Normal) -> Tensor:
    """The mean is measured from the end of [0, 1] at which the density is high."""
    (loc, scale), eta = read(q, "loc", "scale"), chance(p).as_logits().given
    (a, step) = split_point(eta)
    _, bend, third = log_sinhc_slopes(a)
    up = a > 0
    distance = attach(mean_distance(a), [step], [torch.where(up, -bend, bend)], [torch.where(up, -third, third)])
    offset = torch.where(up, (1 - loc) - distance, distance - loc) / scale
    variance = attach(bend, [step], [third], [log_sinhc(a, order=4)])
    spread = variance / scale / scale
    return _from_uniform(p) + torch.log(scale) + math.log(2 * math.pi) / 2 + (spread + offset**2) / 2
