"""The Beta density for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Beta

from kullback.densities.coordinate import Logit, mark_between
from kullback.densities.density import Density
from kullback.densities.point import Point
from kullback.densities.registry import family
from kullback.densities.stirling import beta_core
from kullback.densities.tails import power


@family(Beta, "concentration1", "concentration0")
def beta(concentration1: Tensor, concentration0: Tensor) -> Density:
    """The density of the logit about log(a/b), less log x(1 − x)."""
    a, b = concentration1, concentration0
    centre = torch.log(a / b)

    def log_prob(x: Point) -> Tensor:
        log_x, log_rest = x.log_distance(0.0), x.log_distance(1.0)
        return beta_core(a, b, log_x - log_rest - centre) - (log_x + log_rest)

    mark = mark_between(0.0, 1.0, centre, (1 / a + 1 / b).sqrt().clamp_max(1.0))
    return Density(0.0, 1.0, Logit(0.0, 1.0, torch.zeros_like(a)), log_prob, (mark,), (power(a), power(b)))
