"""KL(LogNormal ‖ q) through the Normal of log x; other q are integrals of the engine. Called by `pairs.dispatch`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import LogNormal, Normal, Weibull

from kullback.pairs.closed.normal import normal_gumbel, normal_op
from kullback.pairs.moments import LogMoments, register_moments
from kullback.pairs.parameters import read
from kullback.pairs.registry import register


@register(LogNormal, LogNormal, source="that of the Normals: the exponential is a bijection", finished=True)
def kl_log_normal_log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    """The Normals of the logarithms."""
    return normal_op(p.loc, p.scale, q.loc, q.scale)


@register(LogNormal, Weibull, source="Normal(−μ, σ) ‖ Gumbel(−log λ, 1/k), the distributions of −log x")
def kl_log_normal_weibull(p: LogNormal, q: Weibull) -> Tensor:
    """The divergence grows as e^(k²σ²/2), beyond what the nodes of an integral reach."""
    (loc, sigma), (scale, k) = read(p, "loc", "scale"), read(q, "scale", "concentration")
    return normal_gumbel(-loc, sigma, -torch.log(scale), k.reciprocal())


def log_normal_moments(p: LogNormal) -> LogMoments:
    """A(c) = c²σ²/2; log x is normal, so that N = 0.

    An integral has the second moment that the value needs, but for σ > 4 not the first, which q's location needs.
    """
    loc, scale = read(p, "loc", "scale")
    variance = scale * scale
    return LogMoments(loc, 1 / variance, 0.0, lambda c: (c * c * variance / 2, None))


register_moments(LogNormal, log_normal_moments, "E xᶜ = e^(cμ + c²σ²/2), κ = 1/σ², N = 0", [Normal])
