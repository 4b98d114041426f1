"""The InverseGamma density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import InverseGamma

from kullback.densities.coordinate import Log, mark_above
from kullback.densities.density import Density
from kullback.densities.point import Point
from kullback.densities.registry import family
from kullback.densities.stirling import LOG_2PI, binet
from kullback.densities.tails import exponential, power


@family(InverseGamma, "concentration", "rate")
def inverse_gamma(concentration: Tensor, rate: Tensor) -> Density:
    """Gamma's with t = log(x·a/rate) the other way round."""
    a = concentration
    unit = torch.log(rate) - torch.log(a)
    constant = (torch.log(a) - LOG_2PI) / 2 - binet(a)

    def log_prob(x: Point) -> Tensor:
        t = x.log_distance(0.0, unit)
        return -a * (t + torch.expm1((-t).clamp_max(690.0))) + constant - (t + unit)

    spread = a.rsqrt().clamp_max(1.0)
    tails = exponential(1.0, rate), power(a)
    return Density(0.0, math.inf, Log(0.0, unit), log_prob, (mark_above(0.0, unit, spread),), tails)
