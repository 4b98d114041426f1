"""The ContinuousBernoulli density for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import ContinuousBernoulli, Distribution

from kullback.densities.coordinate import Logit, mark_between
from kullback.densities.density import Density
from kullback.densities.parameters import gives_logits, read
from kullback.densities.point import Point
from kullback.densities.registry import family
from kullback.densities.stirling import log_sinhc
from kullback.densities.tails import power


def _logits(distribution: Distribution) -> tuple[Tensor, ...]:
    if gives_logits(distribution):
        return read(distribution, "logits")
    (probs,) = read(distribution, "probs")
    return (torch.log(probs) - torch.log1p(-probs),)


@family(ContinuousBernoulli, read=_logits)
def continuous_bernoulli(logits: Tensor) -> Density:
    """η(x − ½) − log(sinh(η/2)/(η/2))."""
    zero = torch.zeros_like(logits)
    half = torch.full_like(logits, 0.5)

    def log_prob(x: Point) -> Tensor:
        return logits * x.z(half, zero) - log_sinhc(logits / 2)

    mark = mark_between(0.0, 1.0, logits.sign() * torch.log1p(logits.abs()), 1.0)
    return Density(0.0, 1.0, Logit(0.0, 1.0, zero), log_prob, (mark,), (power(1.0), power(1.0)))
