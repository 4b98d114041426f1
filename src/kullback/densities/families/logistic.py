"""LogitRelaxedBernoulli, a logistic density, and RelaxedBernoulli, for integrals; `registry` finds them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, RelaxedBernoulli
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback.densities import Density, exponential, family, log_odds, of_logit, of_z, power, read, softplus


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
