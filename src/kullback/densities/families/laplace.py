"""Laplace for integrals; `registry` finds it."""

from __future__ import annotations

import math

from torch import Tensor
from torch.distributions import Laplace

from kullback.densities import Density, exponential, family, of_z


@family(Laplace, "loc", "scale")
def laplace(loc: Tensor, scale: Tensor) -> Density:
    """−|x − μ|/b − log 2b; the mark is also its kink."""
    tail = exponential(1.0, 1 / scale)
    return of_z(loc, scale, lambda z: -z.abs() - math.log(2.0), tail, tail)
