"""The Normal and HalfNormal densities for integrals; `registry` finds them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import HalfNormal, Normal

from kullback.densities.describe import LOG_2PI, Density, Point, above_zero, exponential, family, on_line, power

# The square of a larger z is no number.
_LARGEST_Z = 1e150


@family(Normal, "loc", "scale")
def normal(loc: Tensor, scale: Tensor) -> Density:
    """−z²/2 − log σ − ½ log 2π, z = (x − μ)/σ."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        z = x.z(loc, log_scale).clamp(-_LARGEST_Z, _LARGEST_Z)
        return -z * z / 2 - log_scale - LOG_2PI / 2

    tail = exponential(2.0, 1 / (2 * scale * scale))
    return on_line(loc, log_scale, log_prob, tail, tail)


@family(HalfNormal, "scale")
def half_normal(scale: Tensor) -> Density:
    """−z²/2 − log σ − ½ log(π/2), z = x/σ."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        z = x.z(0.0, log_scale).clamp_max(_LARGEST_Z)
        return -z * z / 2 - log_scale - (LOG_2PI / 2 - math.log(2.0))

    return above_zero(log_scale, 1.0, log_prob, power(1.0), exponential(2.0, 1 / (2 * scale * scale)))
