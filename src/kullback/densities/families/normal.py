"""Normal, HalfNormal and LogNormal for integrals; `registry` finds them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import HalfNormal, LogNormal, Normal

from kullback.densities import LOG_2PI, Density, above_zero, exponential, family, log_normal, of_log, of_z, power

# The square of a larger z is no number.
_LARGEST_Z = 1e150


@family(Normal, "loc", "scale")
def normal(loc: Tensor, scale: Tensor) -> Density:
    """−z²/2 − log σ − ½ log 2π, z = (x − μ)/σ."""
    tail = exponential(2.0, 1 / (2 * scale * scale))
    return of_z(loc, scale, lambda z: -(z.clamp(-_LARGEST_Z, _LARGEST_Z) ** 2) / 2 - LOG_2PI / 2, tail, tail)


@family(HalfNormal, "scale")
def half_normal(scale: Tensor) -> Density:
    """−z²/2 − log σ − ½ log(π/2), z = x/σ."""
    log_scale = torch.log(scale)
    constant = math.log(2.0) - LOG_2PI / 2 - log_scale
    upper = exponential(2.0, 1 / (2 * scale * scale))
    return above_zero(
        log_scale, 1.0, lambda x: constant - x.z(0.0, log_scale).clamp_max(_LARGEST_Z) ** 2 / 2, power(1.0), upper
    )


@family(LogNormal, "loc", "scale")
def log_normal_density(loc: Tensor, scale: Tensor) -> Density:
    """The normal density of log x, less log x."""
    tail = log_normal(0.5 / scale / scale)
    return of_log(loc, scale, lambda t: -((t / scale) ** 2) / 2 - torch.log(scale) - LOG_2PI / 2, tail, tail)
