"""The Weibull density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Weibull

from kullback.densities.coordinate import Log, mark_above
from kullback.densities.density import Density
from kullback.densities.point import Point, stable_exp
from kullback.densities.registry import family
from kullback.densities.tails import exponential, power


@family(Weibull, "scale", "concentration")
def weibull(scale: Tensor, concentration: Tensor) -> Density:
    """Log k + kt − e^(kt) − log x, t = log(x/scale)."""
    k, unit = concentration, torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        t = x.log_distance(0.0, unit)
        return torch.log(k) + k * t - torch.exp((k * t).clamp_max(690.0)) - (t + unit)

    tails = power(k), exponential(k, stable_exp(-k * unit))
    return Density(0.0, math.inf, Log(0.0, unit), log_prob, (mark_above(0.0, unit, 1 / k),), tails)
