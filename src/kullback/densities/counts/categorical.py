"""Categorical on 0 … classes − 1 for sums; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Categorical

from kullback.densities import Density, Integers, Point, centred, family, log_classes


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
