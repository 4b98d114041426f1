"""The HalfNormal density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import HalfNormal

from kullback.densities.coordinate import Log, mark_above
from kullback.densities.density import Density
from kullback.densities.point import Point
from kullback.densities.registry import family
from kullback.densities.tails import exponential, power


@family(HalfNormal, "scale")
def half_normal(scale: Tensor) -> Density:
    """−z²/2 − log σ + ½ log(2/π)."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        z = x.z(0.0, log_scale).clamp_max(1e150)
        return -z * z / 2 - log_scale + math.log(2 / math.pi) / 2

    tails = power(1.0), exponential(2.0, 1 / (2 * scale * scale))
    return Density(0.0, math.inf, Log(0.0, log_scale), log_prob, (mark_above(0.0, log_scale, 1.0),), tails)
