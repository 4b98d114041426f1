"""KL(p ‖ q) from a few moments of p, for q whose −log density is a sum of them; called by the files in `closed/`.

The closest member of q's family, or of its scales, is explicit, and the divergence splits into the distance to it and
from it to q. Nothing of the size of a shape parameter cancels: with φ(x) = eˣ − 1 − x, y = log x under p,

    ‖ Normal(μ, σ):             J + ½φ(2·log(s/σ)) + ½((m − μ)/σ)²,   s and m the deviation and mean of p;
    ‖ ρ·x^c ~ Gamma(b, 1):      b·φ(log(M/b)) + ½φ(log 2bA) + ½log(2Aκ/c²) + R(b) + N,   M = E ρx^c;
    ‖ Laplace(μ, b):            φ(log(t/b)) + 1 + log 2t − H(p),   t = E|x − μ|,

where J = ½log(2πe·s²) − H(p) is the negentropy, A(c) = log E x^c − c·E y ≥ 0 is Jensen's gap, R is Binet's remainder
of Stirling's formula, and the entropy of y is ½log(2πe/κ) − N.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

from kullback._core.special.exp_log import log_ratio
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.special import binet, expm1mx, kl_div, log1mexp

EULER = 0.5772156649015329
# Squares of numbers above e^this overflow, and their logarithms' exponentials with them.
_LARGEST_LOG_OF_SQUARE, _LARGEST_LOG = 354.0, 709.0
_OVERFLOWING_LOG = 709.7828  # the exponential of a little less is the largest double


def kl_to_normal(negentropy: Tensor | float, sd: Tensor, mean: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """KL(p ‖ Normal(loc, scale)) of a p with this negentropy, standard deviation and mean."""
    wider = (sd - scale) / scale
    offset = (mean - loc) / scale
    return negentropy + kl_div(scale, sd) / scale + (wider * wider + offset * offset) / 2


def phi_of_log_mean(log_mean: Tensor) -> Tensor:
    """φ of the logarithm of an expectation; infinite, without a slope, where the expectation overflows."""
    return expm1mx(log_mean.clamp_max(_OVERFLOWING_LOG))


def kl_to_laplace(absolute: Tensor, entropy: Tensor, scale: Tensor) -> Tensor:
    """KL(p ‖ Laplace(μ, scale)) of a p with this E|x − μ| and entropy."""
    return kl_div(scale, absolute) / scale + torch.log(absolute) + (1 + math.log(2) - entropy)


class LogMoments(NamedTuple):
    """What is known of y = log x under p.

    Attributes:
        mean: E y.
        precision: κ.
        shape: N; small where log x is nearly normal.
        jensen: A(c) for a power c, and where E x^c is infinite (None: nowhere).
    """

    mean: Tensor
    precision: Tensor
    shape: Tensor | float
    jensen: Callable[[Tensor], tuple[Tensor, Tensor | None]]


def to_normal(p: LogMoments, q: Distribution) -> Tensor:
    """The mean is e^(E y + A(1)), the squared coefficient of variation e^(A(2) − 2A(1)) − 1."""
    loc, scale = read(q, "loc", "scale")
    one = torch.ones_like(loc)
    first, _ = p.jensen(one)
    second, infinite = p.jensen(2 * one)
    spread, log_mean = second - 2 * first, p.mean + first
    over = log_mean + spread / 2 > _LARGEST_LOG_OF_SQUARE
    over = over if infinite is None else over | infinite
    spread, log_mean, first = (torch.where(over, 1.0, x) for x in (spread, log_mean, first))
    log_variation = spread + log1mexp(-spread)
    narrow = spread < 1
    near = torch.log(torch.expm1(torch.where(narrow, spread, 1.0)) * p.precision)
    log_width = torch.where(narrow, near, log_variation + torch.log(p.precision))
    negentropy = log_width / 2 + first + p.shape
    log_wider = log_mean + log_variation / 2 - torch.log(scale)
    offset = (torch.exp(log_mean) - loc) / scale
    return torch.where(over, math.inf, negentropy + (expm1mx(2 * log_wider) + offset * offset) / 2)


def _to_power_of_gamma(p: LogMoments, b: Tensor, power: Tensor, log_rate: Tensor) -> Tensor:
    """Against x with b·e^log_rate·x^power ~ Gamma(b, 1)."""
    gap, infinite = p.jensen(power)
    log_mean = log_rate + power * p.mean + gap
    over = log_mean > _LARGEST_LOG
    over = over if infinite is None else over | infinite
    log_mean, gap = torch.where(over, 0.0, log_mean), torch.where(over, 1.0, gap)
    shapes = kl_div(torch.ones_like(gap), 2 * b * gap) + torch.log(2 * gap * p.precision / (power * power))
    return torch.where(over, math.inf, b * expm1mx(log_mean) + shapes / 2 + binet(b) + p.shape)


def to_gamma(p: LogMoments, q: Distribution) -> Tensor:
    """The power 1."""
    b, rate = read(q, "concentration", "rate")
    return _to_power_of_gamma(p, b, torch.ones_like(b), log_ratio(rate, b))


def to_exponential(p: LogMoments, q: Distribution) -> Tensor:
    """A Gamma of concentration 1."""
    (rate,) = read(q, "rate")
    one = torch.ones_like(rate)
    return _to_power_of_gamma(p, one, one, torch.log(rate))


def to_inverse_gamma(p: LogMoments, q: Distribution) -> Tensor:
    """The power −1."""
    b, rate = read(q, "concentration", "rate")
    return _to_power_of_gamma(p, b, -torch.ones_like(b), log_ratio(rate, b))


def to_half_normal(p: LogMoments, q: Distribution) -> Tensor:
    """x²/2σ² is a Gamma of concentration ½."""
    (scale,) = read(q, "scale")
    half = torch.full_like(scale, 0.5)
    return _to_power_of_gamma(p, half, 4 * half, -2 * torch.log(scale))


def to_weibull(p: LogMoments, q: Distribution) -> Tensor:
    """(x/λ)^k is an Exponential."""
    scale, k = read(q, "scale", "concentration")
    return _to_power_of_gamma(p, torch.ones_like(k), k, -k * torch.log(scale))


_TARGETS: dict[type[Distribution], tuple[Callable[[LogMoments, Distribution], Tensor], str]] = {
    d.Exponential: (to_exponential, "φ(log(rate·E x)) + ½φ(log 2A(1)) + ½log(2A(1)κ) + R(1) + N"),
    d.Gamma: (to_gamma, "b·φ(log(rate·E x/b)) + ½φ(log 2bA(1)) + ½log(2A(1)κ) + R(b) + N"),
    d.HalfNormal: (to_half_normal, "½φ(log(E x²/σ²)) + ½φ(log A(2)) + ½log(A(2)κ/2) + R(½) + N"),
    d.InverseGamma: (to_inverse_gamma, "b·φ(log(rate·E x⁻¹/b)) + ½φ(log 2bA(−1)) + ½log(2A(−1)κ) + R(b) + N"),
    d.Normal: (to_normal, "J(x) + KL(Normal of the moments of x ‖ q)"),
    d.Weibull: (to_weibull, "φ(log E(x/λ)ᵏ) + ½φ(log 2A(k)) + ½log(2A(k)κ/k²) + R(1) + N"),
}


def register_moments(
    family: type[Distribution], moments: Callable[[Any], LogMoments], source: str, targets: list[type[Distribution]]
) -> None:
    """Register KL(family ‖ q) for these q by the moments of log x."""
    for q in targets:
        target, formula = _TARGETS[q]
        register(family, q, source=f"{formula}; {source}")(_kl_by_moments(moments, target))


def _kl_by_moments(
    moments: Callable[[Any], LogMoments], target: Callable[[LogMoments, Distribution], Tensor]
) -> Callable[[Distribution, Distribution], Tensor]:
    def kl_by_moments(p: Distribution, q: Distribution) -> Tensor:
        return target(moments(p), q)

    # Where to look for what is particular to this p.
    kl_by_moments.__module__, kl_by_moments.__qualname__ = moments.__module__, moments.__qualname__
    return kl_by_moments
