"""The Beta density for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Beta

from kullback.densities.describe import Density, Point, beta_core, family, in_unit_interval, power


@family(Beta, "concentration1", "concentration0")
def beta(concentration1: Tensor, concentration0: Tensor) -> Density:
    """The density of the logit about log(a/b), less log x(1 − x)."""
    a, b = concentration1, concentration0
    centre = torch.log(a / b)

    def log_prob(x: Point) -> Tensor:
        log_x, log_rest = x.log_distance(0.0), x.log_distance(1.0)
        return beta_core(a, b, log_x - log_rest - centre) - (log_x + log_rest)

    return in_unit_interval(centre, (1 / a + 1 / b).sqrt().clamp_max(1.0), log_prob, power(a), power(b))
