"""The Gumbel density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Gumbel

from kullback.densities.coordinate import Sinh
from kullback.densities.density import Density
from kullback.densities.point import Point, centred
from kullback.densities.registry import family
from kullback.densities.tails import double_exponential, exponential


@family(Gumbel, "loc", "scale")
def gumbel(loc: Tensor, scale: Tensor) -> Density:
    """−z − e^(−z) − log β, z = (x − μ)/β."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        z = x.z(loc, log_scale).clamp_min(-690.0)
        return -z - torch.exp(-z) - log_scale

    tails = double_exponential(1 / scale), exponential(1.0, 1 / scale)
    return Density(-math.inf, math.inf, Sinh(loc, log_scale), log_prob, (centred(loc, log_scale),), tails)
