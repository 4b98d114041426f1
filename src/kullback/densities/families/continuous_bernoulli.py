"""ContinuousBernoulli for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import ContinuousBernoulli

from kullback.densities import Density, Point, family, in_unit_interval, log_odds, log_sinhc, power


@family(ContinuousBernoulli, read=lambda distribution: (log_odds(distribution),))
def continuous_bernoulli(logits: Tensor) -> Density:
    """η(x − ½) − log(sinh(η/2)/(η/2))."""
    half = torch.full_like(logits, 0.5)

    def log_prob(x: Point) -> Tensor:
        return logits * x.z(half, torch.zeros_like(logits)) - log_sinhc(logits / 2)

    return in_unit_interval(logits.sign() * torch.log1p(logits.abs()), 1.0, log_prob, power(1.0), power(1.0))
