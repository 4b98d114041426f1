"""The Pareto density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Pareto

from kullback.densities.describe import Density, Log, Point, family, mark_above, power, softplus


@family(Pareto, "scale", "alpha")
def pareto(scale: Tensor, alpha: Tensor) -> Density:
    """Log α − log s − (α + 1) log(x/s), x/s by its distance from 1."""
    log_scale = torch.log(scale)
    unit = log_scale - torch.log(alpha)

    def log_prob(x: Point) -> Tensor:
        return torch.log(alpha) - log_scale - (alpha + 1) * softplus(x.log_distance(scale, log_scale))

    mark, tails = mark_above(scale, unit, 1.0), (power(1.0), power(alpha))
    return Density(scale, math.inf, Log(scale, unit), log_prob, (mark,), tails)
