"""Logarithms of the weights of a mixture; `gaussian_components` calls it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import MixtureSameFamily

from kullback.pairs.parameters import gives_logits, read


def log_shares(mixture: MixtureSameFamily) -> Tensor:
    """Logarithms of the weights, components last, in the batch shape of the mixture."""
    weights = mixture.mixture_distribution
    if gives_logits(weights):
        (logs,) = read(weights, "logits")
    else:
        (probs,) = read(weights, "probs")
        some = probs > 0
        logs = torch.where(some, torch.log(torch.where(some, probs, 1.0)), -math.inf)
    # log1p of the others' sum: against a weight of 1e-12 the share of the largest is 1 to twelve digits.
    top, place = logs.max(-1, keepdim=True)
    here = torch.arange(logs.shape[-1], device=logs.device) == place
    others = torch.exp(torch.where(here, -math.inf, logs - top)).sum(-1, keepdim=True)
    shares = logs - top - torch.log1p(others)
    return shares.expand(*mixture.batch_shape, shares.shape[-1])
