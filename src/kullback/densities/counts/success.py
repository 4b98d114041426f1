"""The chance of success of a trial as logarithms of both outcomes; the count families call it."""

from __future__ import annotations

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
    return torch.log(probs), torch.log1p(-probs)


def bounded_log(log_p: Tensor) -> Tensor:
    """A logarithm that is a number; an impossible outcome is told apart by the support."""
    return log_p.clamp_min(-1e6)
