"""The normal density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Normal

from kullback.densities.coordinate import Sinh
from kullback.densities.density import Density
from kullback.densities.point import Point, centred
from kullback.densities.registry import family
from kullback.densities.stirling import LOG_2PI
from kullback.densities.tails import exponential


@family(Normal, "loc", "scale")
def normal(loc: Tensor, scale: Tensor) -> Density:
    """−z²/2 − log σ − ½ log 2π, z = (x − μ)/σ."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        # The square of a larger z is no number.
        z = x.z(loc, log_scale).clamp(-1e150, 1e150)
        return -z * z / 2 - log_scale - LOG_2PI / 2

    tail = exponential(2.0, 1 / (2 * scale * scale))
    return Density(-math.inf, math.inf, Sinh(loc, log_scale), log_prob, (centred(loc, log_scale),), (tail, tail))
