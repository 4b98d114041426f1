"""KL(LogNormal ‖ q): E xᶜ = e^(cμ + c²σ²/2). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Laplace, LogNormal

from kullback.pairs.closed.normal import normal_op
from kullback.pairs.moments import LogMoments, kl_to_laplace, register_moments
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.special import log_ndtr_diff


@register(LogNormal, LogNormal, source="that of the Normals: the exponential is a bijection", finished=True)
def kl_log_normal_log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    """The Normals of the logarithms."""
    return normal_op(p.loc, p.scale, q.loc, q.scale)


def log_normal_moments(p: LogNormal) -> LogMoments:
    """A(c) = c²σ²/2; log x is normal, so that N = 0."""
    loc, scale = read(p, "loc", "scale")
    variance = scale * scale
    return LogMoments(loc, variance, 0.0, 1 / variance, 0.0, lambda c: (c * c * variance / 2, None))


register_moments(
    LogNormal,
    log_normal_moments,
    "E xᶜ = e^(cμ + c²σ²/2), κ = 1/σ², N = 0",
    [d.Exponential, d.Gamma, d.HalfNormal, d.InverseGamma, d.Normal, d.Weibull],
)


@register(
    LogNormal,
    Laplace,
    source="φ(log(t/b)) + 1 + log 2t − H(p), t = (μ − E x)(2Φ(z) − 1) + 2·E x·(Φ(z) − Φ(z−σ)), z = (log μ − loc)/σ",
)
def kl_log_normal_laplace(p: LogNormal, q: Laplace) -> Tensor:
    """E|x − μ| is E x − μ for μ ≤ 0."""
    (loc, sigma), (m, scale) = read(p, "loc", "scale"), read(q, "loc", "scale")
    log_mean = loc + sigma * sigma / 2
    over = log_mean > 700
    loc, sigma, log_mean = (torch.where(over, fill, x) for fill, x in ((0.0, loc), (1.0, sigma), (0.5, log_mean)))
    mean = torch.exp(log_mean)
    z = (torch.log(torch.where(m > 0, m, 1.0)) - loc) / sigma
    # Written with μ/E x − 1 = e^(σz − σ²/2) − 1, which does not cancel where the two are close.
    beyond = mean * torch.expm1((sigma * z - sigma * sigma / 2).clamp_max(700.0))
    inside = beyond * torch.erf(z * math.sqrt(0.5)) + 2 * mean * torch.exp(log_ndtr_diff(z - sigma, z))
    absolute = torch.where(m > 0, inside, mean - m)
    entropy = loc + torch.log(sigma) + (1 + math.log(2 * math.pi)) / 2
    return torch.where(over, math.inf, kl_to_laplace(absolute, entropy, scale))
