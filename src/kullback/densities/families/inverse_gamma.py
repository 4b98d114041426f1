"""The InverseGamma density for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import InverseGamma

from kullback.densities.describe import LOG_2PI, Density, Point, above_zero, binet, exponential, family, power


@family(InverseGamma, "concentration", "rate")
def inverse_gamma(concentration: Tensor, rate: Tensor) -> Density:
    """Gamma's with t = log(x·a/rate) the other way round."""
    a = concentration
    unit = torch.log(rate) - torch.log(a)
    constant = (torch.log(a) - LOG_2PI) / 2 - binet(a)

    def log_prob(x: Point) -> Tensor:
        t = x.log_distance(0.0, unit)
        return -a * (t + torch.expm1((-t).clamp_max(690.0))) + constant - (t + unit)

    return above_zero(unit, a.rsqrt().clamp_max(1.0), log_prob, exponential(1.0, rate), power(a))
