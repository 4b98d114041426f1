"""LogitRelaxedBernoulli, a logistic density, and RelaxedBernoulli, for integrals; `registry` finds them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, RelaxedBernoulli
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback.densities.describe import (
    Density,
    Point,
    exponential,
    family,
    in_unit_interval,
    log_odds,
    on_line,
    power,
    read,
    softplus,
)


def _parameters(distribution: Distribution) -> tuple[Tensor, ...]:
    return *read(distribution, "temperature"), log_odds(distribution)


@family(LogitRelaxedBernoulli, read=_parameters)
def logistic(temperature: Tensor, logits: Tensor) -> Density:
    """Log σ(z) + log σ(−z) − log s, z = (x − μ)/s, s = 1/temperature."""
    loc, log_scale = logits / temperature, -torch.log(temperature)

    def log_prob(x: Point) -> Tensor:
        z = x.z(loc, log_scale)
        return -softplus(z) - softplus(-z) - log_scale

    tail = exponential(1.0, temperature)
    return on_line(loc, log_scale, log_prob, tail, tail)


@family(RelaxedBernoulli, read=_parameters)
def relaxed_bernoulli(temperature: Tensor, logits: Tensor) -> Density:
    """A logistic density of the logit, less log x(1 − x)."""
    centre = logits / temperature

    def log_prob(x: Point) -> Tensor:
        log_x, log_rest = x.log_distance(0.0), x.log_distance(1.0)
        t = temperature * (log_x - log_rest - centre)
        return torch.log(temperature) - softplus(t) - softplus(-t) - (log_x + log_rest)

    return in_unit_interval(centre, 1 / temperature, log_prob, power(temperature), power(temperature))
