"""Laplace, Gumbel and LogitRelaxedBernoulli, with exponential tails, and RelaxedBernoulli; `registry` finds them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, Gumbel, Laplace, RelaxedBernoulli
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback.densities import (
    Density,
    double_exponential,
    exponential,
    family,
    log_odds,
    of_logit,
    of_z,
    power,
    read,
    softplus,
)


@family(Laplace, "loc", "scale")
def laplace(loc: Tensor, scale: Tensor) -> Density:
    """−|x − μ|/b − log 2b; the mark is also its kink."""
    tail = exponential(1.0, 1 / scale)
    return of_z(loc, scale, lambda z: -z.abs() - math.log(2.0), tail, tail)


@family(Gumbel, "loc", "scale")
def gumbel(loc: Tensor, scale: Tensor) -> Density:
    """−z − e^(−z) − log β, z = (x − μ)/β."""

    def core(z: Tensor) -> Tensor:
        z = z.clamp_min(-690.0)
        return -z - torch.exp(-z)

    return of_z(loc, scale, core, double_exponential(1 / scale), exponential(1.0, 1 / scale))


def _parameters(distribution: Distribution) -> tuple[Tensor, ...]:
    return *read(distribution, "temperature"), log_odds(distribution)


@family(LogitRelaxedBernoulli, read=_parameters)
def logistic(temperature: Tensor, logits: Tensor) -> Density:
    """Log σ(z) + log σ(−z) − log s, z = (x − μ)/s, s = 1/temperature."""
    tail = exponential(1.0, temperature)
    return of_z(logits / temperature, 1 / temperature, lambda z: -softplus(z) - softplus(-z), tail, tail)


@family(RelaxedBernoulli, read=_parameters)
def relaxed_bernoulli(temperature: Tensor, logits: Tensor) -> Density:
    """A logistic density of the logit, less log x(1 − x)."""

    def core(t: Tensor) -> Tensor:
        return torch.log(temperature) - softplus(temperature * t) - softplus(-temperature * t)

    return of_logit(logits / temperature, 1 / temperature, core, power(temperature), power(temperature))
