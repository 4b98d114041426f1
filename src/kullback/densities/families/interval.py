"""Uniform, ContinuousBernoulli, Kumaraswamy and VonMises, on intervals, for integrals; `registry` finds them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import ContinuousBernoulli, Kumaraswamy, Uniform, VonMises

from kullback.densities import (
    LOG_2PI,
    Density,
    Logit,
    Point,
    centred,
    family,
    in_unit_interval,
    log_odds,
    log_sinhc,
    mark_between,
    power,
)


@family(Uniform, "low", "high")
def uniform(low: Tensor, high: Tensor) -> Density:
    """−log(high − low)."""
    log_width = torch.log(high - low)

    def log_prob(x: Point) -> Tensor:
        return -log_width + torch.zeros_like(x.offset)

    mark = mark_between(low, high, torch.zeros_like(low), 1.0)
    return Density(low, high, Logit(low, high, log_width), log_prob, (mark,), (power(1.0), power(1.0)))


@family(ContinuousBernoulli, read=lambda distribution: (log_odds(distribution),))
def continuous_bernoulli(logits: Tensor) -> Density:
    """η(x − ½) − log(sinh(η/2)/(η/2))."""
    half = torch.full_like(logits, 0.5)

    def log_prob(x: Point) -> Tensor:
        return logits * x.z(half, torch.zeros_like(logits)) - log_sinhc(logits / 2)

    return in_unit_interval(logits.sign() * torch.log1p(logits.abs()), 1.0, log_prob, power(1.0), power(1.0))


@family(Kumaraswamy, "concentration1", "concentration0")
def kumaraswamy(concentration1: Tensor, concentration0: Tensor) -> Density:
    """Log ab + (a − 1) log x + (b − 1) log(1 − x^a)."""
    a, b = concentration1, concentration0

    def log_prob(x: Point) -> Tensor:
        log_x, log_rest = x.log_distance(0.0), x.log_distance(1.0)
        upper = log_rest < -1
        rest = torch.exp(torch.where(upper, log_rest, -1.0))
        log_x = torch.where(upper, torch.log1p(-rest), log_x)
        t = a * log_x
        # 1 − x^a = a·(1 − x)·(1 + …) next to the upper end, where x^a is 1.
        close = (t > -1e-6) & (rest < 1e-6)
        # Beyond the end, where another density may ask, −expm1(t) is negative and its logarithm has no derivative.
        far = torch.log(-torch.expm1(torch.where(close | (t >= 0), -1.0, t)))
        log_power_rest = torch.where(close, torch.log(a) + log_rest + (rest + t) / 2, far)
        return torch.log(a) + torch.log(b) + t - log_x + (b - 1) * log_power_rest

    # The median, for which log(1 − x^a) = −log 2/b; its logit is log x − log(1 − x).
    drop = -math.log(2.0) / b
    steep = drop < -30
    log_x = torch.log1p(-torch.exp(torch.where(steep, -30.0, drop))) / a
    logit = torch.where(steep, torch.log(a) - drop, log_x - torch.log(-torch.expm1(log_x)))
    return in_unit_interval(logit, 0.25, log_prob, power(a), power(b))


@family(VonMises, "loc", "concentration")
def von_mises(loc: Tensor, concentration: Tensor) -> Density:
    """−2κ sin²((x − μ)/2) − log 2π I₀(κ)e^(−κ); the mark of the nearest period beyond an end counts, too."""
    k = concentration
    constant = -LOG_2PI - torch.log(torch.special.i0e(k))
    log_width = -torch.log(k.clamp_min(1.0)) / 2
    inner = loc - 2 * math.pi * torch.round(loc.detach() / (2 * math.pi))
    beyond = torch.where(inner > 0, inner - 2 * math.pi, inner + 2 * math.pi)
    zero = torch.zeros_like(k)

    def log_prob(x: Point) -> Tensor:
        return constant - 2 * k * torch.sin(x.z(inner, zero) / 2) ** 2

    coordinate = Logit(-math.pi, math.pi, torch.full_like(k, math.log(2 * math.pi)))
    # A mark on an end has no coordinate, and one that moves beside it moves fast, which costs the gradient digits.
    width = torch.exp(log_width.detach())
    most = math.pi - width / 8
    mode = torch.maximum(torch.minimum(inner.detach(), most), -most)
    marks = centred(mode, log_width), centred(beyond, log_width)
    return Density(-math.pi, math.pi, coordinate, log_prob, marks, (power(1.0), power(1.0)))
