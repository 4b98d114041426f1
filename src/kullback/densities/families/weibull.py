"""The Weibull density for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Weibull

from kullback.densities.describe import Density, Point, above_zero, exponential, family, power, stable_exp


@family(Weibull, "scale", "concentration")
def weibull(scale: Tensor, concentration: Tensor) -> Density:
    """Log k + kt − e^(kt) − log x, t = log(x/scale)."""
    k, unit = concentration, torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        t = x.log_distance(0.0, unit)
        return torch.log(k) + k * t - torch.exp((k * t).clamp_max(690.0)) - (t + unit)

    return above_zero(unit, 1 / k, log_prob, power(k), exponential(k, stable_exp(-k * unit)))
