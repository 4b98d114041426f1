"""KL(HalfCauchy ‖ q). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import HalfCauchy

from kullback.pairs.closed.cauchy import cauchy_op
from kullback.pairs.moments import LogMoments, register_moments
from kullback.pairs.parameters import read
from kullback.pairs.registry import register

_SHAPE = 0.5 - 0.5 * math.log(2 * math.pi)


@register(
    HalfCauchy, HalfCauchy, source="that of the Cauchys: both are symmetric, and |x| keeps the rest", finished=True
)
def kl_half_cauchy_half_cauchy(p: HalfCauchy, q: HalfCauchy) -> Tensor:
    """The Cauchys centred at 0."""
    return cauchy_op(torch.zeros_like(p.scale), p.scale, torch.zeros_like(q.scale), q.scale)


def half_cauchy_moments(p: HalfCauchy) -> LogMoments:
    """A(c) = −log cos(πc/2); infinite for |c| ≥ 1."""
    (scale,) = read(p, "scale")

    def jensen(c: Tensor) -> tuple[Tensor, Tensor]:
        infinite = c.abs() >= 1
        half = torch.sin(torch.where(infinite, 0.5, c) * (math.pi / 4))
        return -torch.log1p(-2 * half * half), infinite

    return LogMoments(torch.log(scale), torch.ones_like(scale), _SHAPE, jensen)


register_moments(HalfCauchy, half_cauchy_moments, "E xᶜ = γᶜ/cos(πc/2), κ = 1, N = ½log(e/2π)", [d.Weibull])
