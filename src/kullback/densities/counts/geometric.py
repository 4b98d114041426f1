"""The Geometric mass function for sums; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Geometric

from kullback.densities.describe import (
    Density,
    Point,
    bounded_log,
    centred,
    exponential,
    family,
    log_outcomes,
    on_integers,
)


@family(Geometric, read=log_outcomes, lattice=True)
def geometric(log_p: Tensor, log_failure: Tensor) -> Density:
    """Log p + k log(1 − p); a certain success leaves the count 0."""
    log_rest = bounded_log(log_failure)

    def log_prob(x: Point) -> Tensor:
        return log_p + x.offset * log_rest

    high = torch.where(log_failure == -math.inf, 0.0, math.inf).to(log_p.dtype)
    return on_integers(0.0, high, centred(0.0, -bounded_log(log_p)), log_prob, exponential(1.0, -log_rest))
