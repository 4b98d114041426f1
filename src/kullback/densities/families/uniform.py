"""Uniform for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Uniform

from kullback.densities import Density, Logit, Point, family, mark_between, power


@family(Uniform, "low", "high")
def uniform(low: Tensor, high: Tensor) -> Density:
    """−log(high − low)."""
    log_width = torch.log(high - low)

    def log_prob(x: Point) -> Tensor:
        return -log_width + torch.zeros_like(x.offset)

    mark = mark_between(low, high, torch.zeros_like(low), 1.0)
    return Density(low, high, Logit(low, high, log_width), log_prob, (mark,), (power(1.0), power(1.0)))
