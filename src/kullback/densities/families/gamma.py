"""The Gamma density, and with it Chi2's and Exponential's, for integrals; `registry` finds them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Chi2, Exponential, Gamma

from kullback.densities.describe import LOG_2PI, Density, Point, above_zero, binet, exponential, family, power


@family(Gamma, "concentration", "rate")
def gamma(concentration: Tensor, rate: Tensor) -> Density:
    """a·(t − e^t + 1) + ½ log(a/2π) − binet(a) − log x, t = log(x·rate/a): flat at the mean."""
    a = concentration
    log_mean = torch.log(a) - torch.log(rate)
    constant = (torch.log(a) - LOG_2PI) / 2 - binet(a)

    def log_prob(x: Point) -> Tensor:
        t = x.log_distance(0.0, log_mean)
        return a * (t - torch.expm1(t.clamp_max(690.0))) + constant - (t + log_mean)

    return above_zero(log_mean, a.rsqrt().clamp_max(1.0), log_prob, power(a), exponential(1.0, rate))


@family(Chi2, "df")
def chi2(df: Tensor) -> Density:
    """Gamma(df/2, ½)."""
    return gamma(df / 2, torch.full_like(df, 0.5))


@family(Exponential, "rate")
def exponential_density(rate: Tensor) -> Density:
    """Gamma(1, rate)."""
    return gamma(torch.ones_like(rate), rate)
