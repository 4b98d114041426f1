"""The LogNormal density for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import LogNormal

from kullback.densities.describe import LOG_2PI, Density, Point, above_zero, family, log_normal


@family(LogNormal, "loc", "scale")
def log_normal_density(loc: Tensor, scale: Tensor) -> Density:
    """The normal density of log x, less log x."""

    def log_prob(x: Point) -> Tensor:
        t = x.log_distance(0.0, loc)
        return -((t / scale) ** 2) / 2 - torch.log(scale) - LOG_2PI / 2 - (t + loc)

    tail = log_normal(0.5 / scale / scale)
    return above_zero(loc, scale, log_prob, tail, tail)
