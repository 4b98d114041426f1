"""Poisson for sums; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Poisson

from kullback.densities import Density, Point, centred, deviance, exponential, family, log_factorial_rest, on_integers


@family(Poisson, "rate", lattice=True)
def poisson(rate: Tensor) -> Density:
    """−[k log(k/λ) − k + λ] − [lgamma(k + 1) − (k log k − k)]; a rate of 0 leaves the count 0."""
    mean = rate.clamp_min(1e-300)

    def log_prob(x: Point) -> Tensor:
        k = x.offset
        return -deviance(k, mean, torch.log(mean)) - log_factorial_rest(k)

    high = torch.where(rate == 0, 0.0, math.inf).to(rate.dtype)
    mark = centred(mean, torch.log(mean.clamp_min(1.0)) / 2)
    return on_integers(0.0, high, mark, log_prob, exponential(1.0, math.inf))  # k log k is more than any multiple of k
