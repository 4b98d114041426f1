"""The Gumbel density for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Gumbel

from kullback.densities.describe import Density, Point, double_exponential, exponential, family, on_line


@family(Gumbel, "loc", "scale")
def gumbel(loc: Tensor, scale: Tensor) -> Density:
    """−z − e^(−z) − log β, z = (x − μ)/β."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        z = x.z(loc, log_scale).clamp_min(-690.0)
        return -z - torch.exp(-z) - log_scale

    return on_line(loc, log_scale, log_prob, double_exponential(1 / scale), exponential(1.0, 1 / scale))
