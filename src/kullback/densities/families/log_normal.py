"""The LogNormal density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import LogNormal

from kullback.densities.coordinate import Log, mark_above
from kullback.densities.density import Density
from kullback.densities.point import Point
from kullback.densities.registry import family
from kullback.densities.stirling import LOG_2PI
from kullback.densities.tails import log_normal as log_normal_tail


@family(LogNormal, "loc", "scale")
def log_normal(loc: Tensor, scale: Tensor) -> Density:
    """The normal density of log x, less log x."""

    def log_prob(x: Point) -> Tensor:
        t = x.log_distance(0.0, loc)
        return -((t / scale) ** 2) / 2 - torch.log(scale) - LOG_2PI / 2 - (t + loc)

    tail = log_normal_tail(0.5 / scale / scale)
    return Density(0.0, math.inf, Log(0.0, loc), log_prob, (mark_above(0.0, loc, scale),), (tail, tail))
