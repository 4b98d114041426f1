"""The RelaxedBernoulli density for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, RelaxedBernoulli

from kullback.densities.coordinate import Logit, mark_between, softplus
from kullback.densities.counts.success import log_odds
from kullback.densities.density import Density
from kullback.densities.parameters import read
from kullback.densities.point import Point
from kullback.densities.registry import family
from kullback.densities.tails import power


def _parameters(distribution: Distribution) -> tuple[Tensor, ...]:
    return *read(distribution, "temperature"), log_odds(distribution)


@family(RelaxedBernoulli, read=_parameters)
def relaxed_bernoulli(temperature: Tensor, logits: Tensor) -> Density:
    """A logistic density of the logit, less log x(1 − x)."""
    centre = logits / temperature

    def log_prob(x: Point) -> Tensor:
        log_x, log_rest = x.log_distance(0.0), x.log_distance(1.0)
        t = temperature * (log_x - log_rest - centre)
        return torch.log(temperature) - softplus(t) - softplus(-t) - (log_x + log_rest)

    mark = mark_between(0.0, 1.0, centre, 1 / temperature)
    tails = power(temperature), power(temperature)
    return Density(0.0, 1.0, Logit(0.0, 1.0, torch.zeros_like(centre)), log_prob, (mark,), tails)
