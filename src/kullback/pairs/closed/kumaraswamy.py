"""KL(Kumaraswamy ‖ q): x^a is a Beta(1, b). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Kumaraswamy, Uniform

from kullback.pairs.moments import EULER, LogMoments, register_moments
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.special import digamma, kl_div, lgamma_bregman, trigamma

_HALF_LOG_2_PI_E = 0.5 * math.log(2 * math.pi * math.e)


@register(
    Kumaraswamy,
    Uniform,
    source="φ(−log b) + φ(−log a) + (1 − 1/a)·(ψ(2) − ψ(b+1)) + log(high − low)",
    decides_support=True,
)
def kl_kumaraswamy_uniform(p: Kumaraswamy, q: Uniform) -> Tensor:
    """The negative entropy, and the width that q has beyond [0, 1]."""
    (a, b), (low, high) = read(p, "concentration1", "concentration0"), read(q, "low", "high")
    outside = (low > 0) | (high < 1)
    excess = torch.where(outside, 0.0, (high - 1) - low)
    scales = kl_div(b, torch.ones_like(b)) / b + kl_div(a, torch.ones_like(a)) / a
    value = scales + (a - 1) / a * (1 - EULER - digamma(b + 1)) + torch.log1p(excess)
    return torch.where(outside, math.inf, value)


def kumaraswamy_moments(p: Kumaraswamy) -> LogMoments:
    """−log x is (E₁ + …)/a: A(c) = B(1, 1 + c/a) − B(b+1, b+1 + c/a), B the Bregman divergence of log Γ."""
    a, b = read(p, "concentration1", "concentration0")
    harmonic = digamma(b + 1) + EULER

    def jensen(c: Tensor) -> tuple[Tensor, Tensor]:
        infinite = c <= -a
        step = torch.where(infinite, 1.0, c) / a
        one, start, step = torch.broadcast_tensors(torch.ones_like(a), b + 1, step)  # type: ignore[no-untyped-call]
        return lgamma_bregman(one, one + step) - lgamma_bregman(start, start + step), infinite

    variance = math.pi**2 / 6 - trigamma(b + 1)
    shape = _HALF_LOG_2_PI_E - (1 - 1 / b + harmonic)
    log_width = torch.log(variance * b * b)
    return LogMoments(-harmonic / a, variance / a**2, log_width, (a * b) ** 2, shape, jensen)


register_moments(
    Kumaraswamy,
    kumaraswamy_moments,
    "E xᶜ = b·B(1+c/a, b), κ = (ab)², N = ½log(2πe) − 1 + 1/b − H_b",
    [d.HalfNormal, d.InverseGamma, d.LogNormal, d.Normal],
)
