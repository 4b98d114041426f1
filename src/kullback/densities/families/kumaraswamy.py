"""Kumaraswamy for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Kumaraswamy

from kullback.densities import Density, Point, family, in_unit_interval, power


@family(Kumaraswamy, "concentration1", "concentration0")
def kumaraswamy(concentration1: Tensor, concentration0: Tensor) -> Density:
    """Log ab + (a − 1) log x + (b − 1) log(1 − x^a)."""
    a, b = concentration1, concentration0

    def log_prob(x: Point) -> Tensor:
        log_x, log_rest = x.log_distance(0.0), x.log_distance(1.0)
        upper = log_rest < -1
        rest = torch.exp(torch.where(upper, log_rest, -1.0))
        log_x = torch.where(upper, torch.log1p(-rest), log_x)
        t = a * log_x
        # 1 − x^a = a·(1 − x)·(1 + …) next to the upper end, where x^a is 1.
        close = (t > -1e-6) & (rest < 1e-6)
        # Beyond the end, where another density may ask, −expm1(t) is negative and its logarithm has no derivative.
        far = torch.log(-torch.expm1(torch.where(close | (t >= 0), -1.0, t)))
        log_power_rest = torch.where(close, torch.log(a) + log_rest + (rest + t) / 2, far)
        return torch.log(a) + torch.log(b) + t - log_x + (b - 1) * log_power_rest

    # The median, for which log(1 − x^a) = −log 2/b; its logit is log x − log(1 − x).
    drop = -math.log(2.0) / b
    steep = drop < -30
    log_x = torch.log1p(-torch.exp(torch.where(steep, -30.0, drop))) / a
    logit = torch.where(steep, torch.log(a) - drop, log_x - torch.log(-torch.expm1(log_x)))
    return in_unit_interval(logit, 0.25, log_prob, power(a), power(b))
