"""KL(Kumaraswamy ‖ InverseGamma): x^a is a Beta(1, b). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Kumaraswamy

from kullback.pairs.moments import EULER, LogMoments, register_moments
from kullback.pairs.parameters import read
from kullback.special import digamma, lgamma_bregman

_HALF_LOG_2_PI_E = 0.5 * math.log(2 * math.pi * math.e)


def kumaraswamy_moments(p: Kumaraswamy) -> LogMoments:
    """−log x is (E₁ + …)/a: A(c) = B(1, 1 + c/a) − B(b+1, b+1 + c/a), B the Bregman divergence of log Γ."""
    a, b = read(p, "concentration1", "concentration0")
    harmonic = digamma(b + 1) + EULER

    def jensen(c: Tensor) -> tuple[Tensor, Tensor]:
        infinite = c <= -a
        step = torch.where(infinite, 1.0, c) / a
        one, start, step = torch.broadcast_tensors(torch.ones_like(a), b + 1, step)  # type: ignore[no-untyped-call]
        return lgamma_bregman(one, one + step) - lgamma_bregman(start, start + step), infinite

    shape = _HALF_LOG_2_PI_E - (1 - 1 / b + harmonic)
    return LogMoments(-harmonic / a, (a * b) ** 2, shape, jensen)


register_moments(
    Kumaraswamy,
    kumaraswamy_moments,
    "E xᶜ = b·B(1+c/a, b), κ = (ab)², N = ½log(2πe) − 1 + 1/b − H_b",
    [d.InverseGamma],
)
