"""Binomial, and with it Bernoulli, for sums; `registry` finds them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Binomial

from kullback.densities import (
    Density,
    Point,
    bounded_log,
    centred,
    deviance,
    family,
    log_factorial_rest,
    log_outcomes,
    on_integers,
    read,
)


@family(Binomial, read=lambda p: (*read(p, "total_count"), *log_outcomes(p)), lattice=True)
def binomial(total_count: Tensor, log_p: Tensor, log_failure: Tensor) -> Density:
    """Stirling's form about k = n·p; a certain outcome leaves one count."""
    n = total_count
    p, rest = torch.exp(log_p), torch.exp(log_failure)
    low, high = torch.where(log_failure == -math.inf, n, 0.0), torch.where(log_p == -math.inf, 0.0, n)
    log_n = torch.log(n.clamp_min(1e-300))
    log_p, log_rest = bounded_log(log_p), bounded_log(log_failure)

    def log_prob(x: Point) -> Tensor:
        k = x.offset.clamp_min(0.0)
        others = (n - k).clamp_min(0.0)
        rests = log_factorial_rest(n) - log_factorial_rest(k) - log_factorial_rest(others)
        return rests - deviance(k, n * p, log_n + log_p) - deviance(others, n * rest, log_n + log_rest)

    return on_integers(low, high, centred(n * p, torch.log((n * p * rest).sqrt() + 1)), log_prob)


@family(Bernoulli, read=log_outcomes, lattice=True)
def bernoulli(log_p: Tensor, log_failure: Tensor) -> Density:
    """Binomial of one trial."""
    return binomial(torch.ones_like(log_p), log_p, log_failure)
