"""The Geometric mass function for sums; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Geometric

from kullback.densities.coordinate import Integers
from kullback.densities.counts.success import bounded_log, log_outcomes
from kullback.densities.density import Density
from kullback.densities.point import Point, centred
from kullback.densities.registry import family
from kullback.densities.tails import exponential, power


@family(Geometric, read=log_outcomes, lattice=True)
def geometric(log_p: Tensor, log_failure: Tensor) -> Density:
    """Log p + k log(1 − p); a certain success leaves the count 0."""
    rest = bounded_log(log_failure)

    def log_prob(x: Point) -> Tensor:
        return log_p + x.offset * rest

    high = torch.where(log_failure == -math.inf, 0.0, math.inf).to(log_p.dtype)
    tails = power(1.0), exponential(1.0, -rest)
    mark = centred(0.0, -bounded_log(log_p))
    return Density(0.0, high, Integers(torch.zeros_like(log_p)), log_prob, (mark,), tails, lattice=True)
