"""Both outcomes of a trial as logarithms; `describe` hands them to count families and relaxations."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.densities.coordinate import softplus
from kullback.densities.parameters import gives_logits, read


def log_outcomes(distribution: Distribution) -> tuple[Tensor, Tensor]:
    """Log p and log(1 − p), each with all its digits, from whichever of `probs` and `logits` was given."""
    if gives_logits(distribution):
        (logits,) = read(distribution, "logits")
        return -softplus(-logits), -softplus(logits)
    (probs,) = read(distribution, "probs")
    # The logarithm of 0 has no derivative: −inf is a constant.
    never, always = probs == 0, probs == 1
    log_p = torch.where(never, -math.inf, torch.log(torch.where(never, 1.0, probs)))
    return log_p, torch.where(always, -math.inf, torch.log1p(-torch.where(always, 0.0, probs)))


def log_odds(distribution: Distribution) -> Tensor:
    """The log-odds of success, infinite where a probability is 0 or 1."""
    if gives_logits(distribution):
        return read(distribution, "logits")[0]
    log_p, log_failure = log_outcomes(distribution)
    return log_p - log_failure


def bounded_log(log_p: Tensor) -> Tensor:
    """A logarithm that is a number; an impossible outcome is told apart by the support."""
    return log_p.clamp_min(-1e6)
