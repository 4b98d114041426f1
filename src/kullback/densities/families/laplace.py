"""The Laplace density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Laplace

from kullback.densities.describe import Density, Point, exponential, family, on_line


@family(Laplace, "loc", "scale")
def laplace(loc: Tensor, scale: Tensor) -> Density:
    """−|x − μ|/b − log 2b; the mark is also its kink."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        return -x.z(loc, log_scale).abs() - log_scale - math.log(2.0)

    tail = exponential(1.0, 1 / scale)
    return on_line(loc, log_scale, log_prob, tail, tail)
