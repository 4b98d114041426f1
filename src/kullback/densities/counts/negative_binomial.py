"""NegativeBinomial and Geometric for sums; `registry` finds them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Geometric, NegativeBinomial

from kullback.densities import (
    Density,
    Point,
    bounded_log,
    centred,
    deviance,
    exponential,
    family,
    log_factorial_rest,
    log_outcomes,
    on_integers,
    read,
)


@family(NegativeBinomial, read=lambda p: (*read(p, "total_count"), *log_outcomes(p)), lattice=True)
def negative_binomial(total_count: Tensor, log_p: Tensor, log_failure: Tensor) -> Density:
    """Successes k before r failures: Stirling's form about k = n·p, r = n·(1 − p), n = r + k."""
    r = total_count.clamp_min(1e-300)
    high = torch.where((log_p == -math.inf) | (total_count == 0), 0.0, math.inf).to(log_p.dtype)
    log_p, log_rest = bounded_log(log_p), bounded_log(log_failure)
    p, rest = torch.exp(log_p), torch.exp(log_rest).clamp_min(1e-300)

    def log_prob(x: Point) -> Tensor:
        k = x.offset
        n = r + k
        log_n = torch.log(n)
        by_deviance = -deviance(k, n * p, log_n + log_p) - deviance(r, n * rest, log_n + log_rest)
        return torch.log(r / n) + by_deviance + log_factorial_rest(n) - log_factorial_rest(k) - log_factorial_rest(r)

    mark = centred(r * p / rest, torch.log((r * p).sqrt() / rest + 1))
    return on_integers(0.0, high, mark, log_prob, exponential(1.0, -log_p))


@family(Geometric, read=log_outcomes, lattice=True)
def geometric(log_p: Tensor, log_failure: Tensor) -> Density:
    """Log p + k log(1 − p); a certain success leaves the count 0."""
    log_rest = bounded_log(log_failure)
    high = torch.where(log_failure == -math.inf, 0.0, math.inf).to(log_p.dtype)
    mark, upper = centred(0.0, -bounded_log(log_p)), exponential(1.0, -log_rest)
    return on_integers(0.0, high, mark, lambda x: log_p + x.offset * log_rest, upper)
