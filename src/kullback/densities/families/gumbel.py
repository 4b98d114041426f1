"""Gumbel for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Gumbel

from kullback.densities import Density, double_exponential, exponential, family, of_z


@family(Gumbel, "loc", "scale")
def gumbel(loc: Tensor, scale: Tensor) -> Density:
    """−z − e^(−z) − log β, z = (x − μ)/β."""

    def core(z: Tensor) -> Tensor:
        z = z.clamp_min(-690.0)
        return -z - torch.exp(-z)

    return of_z(loc, scale, core, double_exponential(1 / scale), exponential(1.0, 1 / scale))
