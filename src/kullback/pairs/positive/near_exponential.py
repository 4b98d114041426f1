"""Gamma ‖ Weibull and Weibull ‖ Exponential where both are nearly exponential, and what is left of them is not.

In the terms of `targets`, x^c has the shape κ relative to a Gamma(a, 1), and b = 1. With δ = a − 1, ε = κ − 1,
D(x → y) the Bregman divergence of log Γ and M the mean of x^c in units of q's,

    KL = φ(log M) + D(a → a+ε) + D(a → 1) + log1p(δ/κ) − δ,    log M = log(units) + log1p(δ+ε) + εψ(a) + D(a → a+ε),

in which every term vanishes at δ = ε = 0 and depends on δ and ε themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.pairs.parameters import read
from kullback.pairs.positive.law import LogLaw, lgamma_excess
from kullback.pairs.positive.targets import to_exponential, to_weibull
from kullback.pairs.products import log_quotient
from kullback.pairs.roundings import Answer, rounded
from kullback.special import digamma, expm1mx, log1pmx

_NEAR = 0.5


class _Shapes(NamedTuple):
    """Both shapes and their distances from 1, which are known better."""

    a: Tensor
    delta: Tensor
    kappa: Tensor
    epsilon: Tensor


def gamma_weibull(p: Distribution, law: LogLaw, q: Distribution) -> Answer:
    """The units differ by (rate·scale)^(−k)."""
    (a, rate), (scale, k) = read(p, "concentration", "rate"), read(q, "scale", "concentration")
    one = torch.ones_like(k)
    units = -k * log_quotient(rate, scale, one, one)
    return _joined(_Shapes(a, a - 1, k, k - 1), units, to_weibull(law, q))


def exponential_weibull(p: Distribution, law: LogLaw, q: Distribution) -> Answer:
    """A Gamma of concentration 1."""
    (rate,), (scale, k) = read(p, "rate"), read(q, "scale", "concentration")
    one = torch.ones_like(k)
    units = -k * log_quotient(rate, scale, one, one)
    return _joined(_Shapes(one, torch.zeros_like(k), k, k - 1), units, to_weibull(law, q))


def weibull_exponential(p: Distribution, law: LogLaw, q: Distribution) -> Answer:
    """A Weibull is the power κ = 1/k of an Exponential."""
    (scale, k), (rate,) = read(p, "scale", "concentration"), read(q, "rate")
    one = torch.ones_like(k)
    units = log_quotient(rate, scale, one, one)
    return _joined(_Shapes(one, torch.zeros_like(k), 1 / k, (1 - k) / k), units, to_exponential(law, q))


def _joined(shapes: _Shapes, units: Tensor, otherwise: Answer) -> Answer:
    near = (shapes.delta.abs() < _NEAR) & (shapes.epsilon.abs() < _NEAR)
    a, kappa = torch.where(near, shapes.a, 1.0), torch.where(near, shapes.kappa, 1.0)
    delta, epsilon = torch.where(near, shapes.delta, 0.0), torch.where(near, shapes.epsilon, 0.0)
    by_power = _divergence(a, epsilon)
    log_mean = torch.where(near, units, 0.0) + torch.log1p(delta + epsilon) + epsilon * digamma(a) + by_power
    by_shape, beside = _divergence(a, -delta), log1pmx(delta / kappa) - delta * epsilon / kappa
    terms = [expm1mx(log_mean), by_power, by_shape, beside]
    by_mean = torch.expm1(log_mean).abs() * (torch.where(near, units, 0.0).abs() + delta.abs() + epsilon.abs())
    close, close_error = rounded(terms[0] + terms[1] + terms[2] + terms[3], sum(map(torch.abs, terms), by_mean))
    return torch.where(near, close, otherwise[0]), torch.where(near, close_error, otherwise[1])


def _divergence(a: Tensor, step: Tensor) -> Tensor:
    """D(a → a + step)."""
    return step * step / a * lgamma_excess(a, step).ratio / 2
