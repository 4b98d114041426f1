"""Binomial, Bernoulli, Categorical, Poisson, NegativeBinomial and Geometric for sums; `registry` finds them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Binomial, Categorical, Geometric, NegativeBinomial, Poisson

from kullback.densities import (
    Density,
    Integers,
    Point,
    bounded_log,
    centred,
    deviance,
    exponential,
    family,
    log_classes,
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


@family(Categorical, read=lambda distribution: log_classes(distribution).unbind(-1), lattice=True)
def categorical(*log_probs: Tensor) -> Density:
    """The logarithm of the class's probability; classes at either end that are impossible do not belong to it."""
    classes = len(log_probs)
    table = torch.cat(log_probs, -1)
    possible = table.detach() > -math.inf
    numbers = torch.arange(classes, dtype=table.dtype, device=table.device)
    low = torch.where(possible, numbers, math.inf).amin(-1, keepdim=True)
    high = torch.where(possible, numbers, -1.0).amax(-1, keepdim=True)

    zero = torch.zeros_like(low)

    def log_prob(x: Point) -> Tensor:
        k = (x.offset + zero).detach().round().long().clamp(0, classes - 1)
        return table.expand(*k.shape[:-1], classes).gather(-1, k)

    mark = centred(zero, torch.full_like(low, math.log(classes)))
    return Density(low, high, Integers(zero), log_prob, (mark,), lattice=True, integers_only=True, num_integers=classes)


@family(Poisson, "rate", lattice=True)
def poisson(rate: Tensor) -> Density:
    """−[k log(k/λ) − k + λ] − [lgamma(k + 1) − (k log k − k)]; a rate of 0 leaves the count 0."""
    mean = rate.clamp_min(1e-300)

    def log_prob(x: Point) -> Tensor:
        k = x.offset
        return -deviance(k, mean, torch.log(mean)) - log_factorial_rest(k)

    high = torch.where(rate == 0, 0.0, math.inf).to(rate.dtype)
    mark = centred(mean, torch.log(mean.clamp_min(1.0)) / 2)
    return on_integers(0.0, high, mark, log_prob, exponential(1.0, math.inf))  # k log k is more than any multiple of k


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
