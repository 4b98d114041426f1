"""The HalfCauchy density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import HalfCauchy

from kullback.densities.coordinate import Log, mark_above, softplus
from kullback.densities.density import Density
from kullback.densities.point import Point
from kullback.densities.registry import family
from kullback.densities.tails import power


@family(HalfCauchy, "scale")
def half_cauchy(scale: Tensor) -> Density:
    """−log(1 + z²) − log(πγ/2)."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        return math.log(2 / math.pi) - log_scale - softplus(2 * x.log_distance(0.0, log_scale))

    tails = power(1.0), power(1.0)
    return Density(0.0, math.inf, Log(0.0, log_scale), log_prob, (mark_above(0.0, log_scale, 1.0),), tails)
