"""The Cauchy and HalfCauchy densities for integrals; `registry` finds them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Cauchy, HalfCauchy

from kullback.densities.describe import Density, Point, above_zero, family, on_line, power, softplus


@family(Cauchy, "loc", "scale")
def cauchy(loc: Tensor, scale: Tensor) -> Density:
    """−log(1 + z²) − log πγ, z = (x − μ)/γ."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        return -softplus(2 * x.log_distance(loc, log_scale)) - log_scale - math.log(math.pi)

    return on_line(loc, log_scale, log_prob, power(1.0), power(1.0))


@family(HalfCauchy, "scale")
def half_cauchy(scale: Tensor) -> Density:
    """−log(1 + z²) − log(πγ/2), z = x/γ."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        return -softplus(2 * x.log_distance(0.0, log_scale)) - log_scale - math.log(math.pi / 2)

    return above_zero(log_scale, 1.0, log_prob, power(1.0), power(1.0))
