"""The Cauchy density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Cauchy

from kullback.densities.coordinate import Sinh, softplus
from kullback.densities.density import Density
from kullback.densities.point import Point, centred
from kullback.densities.registry import family
from kullback.densities.tails import power


@family(Cauchy, "loc", "scale")
def cauchy(loc: Tensor, scale: Tensor) -> Density:
    """−log(1 + z²) − log πγ."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        return -softplus(2 * x.log_distance(loc, log_scale)) - log_scale - math.log(math.pi)

    tail = power(1.0)
    return Density(-math.inf, math.inf, Sinh(loc, log_scale), log_prob, (centred(loc, log_scale),), (tail, tail))
