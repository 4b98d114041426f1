"""The logistic density, which is that of LogitRelaxedBernoulli, for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback.densities.coordinate import Sinh, softplus
from kullback.densities.counts.success import log_odds
from kullback.densities.density import Density
from kullback.densities.parameters import read
from kullback.densities.point import Point, centred
from kullback.densities.registry import family
from kullback.densities.tails import exponential


def logistic(loc: Tensor, scale: Tensor) -> Density:
    """Log σ(z) + log σ(−z) − log s, z = (x − μ)/s."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        z = x.z(loc, log_scale)
        return -softplus(z) - softplus(-z) - log_scale

    tail = exponential(1.0, 1 / scale)
    return Density(-math.inf, math.inf, Sinh(loc, log_scale), log_prob, (centred(loc, log_scale),), (tail, tail))


def _loc_and_scale(distribution: Distribution) -> tuple[Tensor, ...]:
    (temperature,) = read(distribution, "temperature")
    return log_odds(distribution) / temperature, 1 / temperature


family(LogitRelaxedBernoulli, read=_loc_and_scale)(logistic)
