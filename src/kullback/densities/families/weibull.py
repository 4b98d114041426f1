"""Weibull for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Weibull

from kullback.densities import Density, exponential, family, of_log, power, stable_exp


@family(Weibull, "scale", "concentration")
def weibull(scale: Tensor, concentration: Tensor) -> Density:
    """Log k + kt − e^(kt) − log x, t = log(x/scale)."""
    k, unit = concentration, torch.log(scale)
    upper = exponential(k, stable_exp(-k * unit))
    return of_log(unit, 1 / k, lambda t: torch.log(k) + k * t - torch.exp((k * t).clamp_max(690.0)), power(k), upper)
