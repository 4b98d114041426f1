"""How heavy the upper tail of importance ratios is: Pareto k̂, and the effective sample size."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def pareto_k(log_ratios: Tensor) -> float:
    """Shape of a generalised Pareto distribution fitted to the largest ratios (Zhang and Stephens 2009).

    Below 0.5 the ratios have a variance, above 0.7 means of them say nothing. -inf if the tail is constant.

    Args:
        log_ratios: Logarithms of the ratios, one dimension.

    Example:
        >>> u = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
        >>> 0.55 < pareto_k(-0.6 * u.log()) < 0.65
        True
    """
    finite = log_ratios[log_ratios.isfinite()].double()
    if len(finite) < 25:
        return math.nan
    size = int(min(0.2 * len(finite), 3 * math.sqrt(len(finite))))
    top = finite.topk(size + 1).values.flip(0)
    tail = torch.exp(top[1:] - top[-1]) - torch.exp(top[0] - top[-1])
    tail = tail[tail > 0]
    n = len(tail)
    if n < 5:
        return -math.inf
    guesses = 30 + int(math.sqrt(n))
    steps = 1 - torch.sqrt(guesses / (torch.arange(1, guesses + 1, dtype=torch.float64) - 0.5))
    theta = 1 / tail[-1] + steps / (3 * tail[max(n // 4 - 1, 0)])
    shape = torch.log1p(-theta.unsqueeze(1) * tail).mean(1)
    log_likelihood = n * ((-theta / shape).log() - shape - 1)
    weight = torch.softmax(log_likelihood.nan_to_num(nan=-math.inf), 0)
    best = (weight * theta).sum()
    k = float(torch.log1p(-best * tail).mean())
    return (k * n + 5) / (n + 10)


def effective_size(log_ratios: Tensor) -> float:
    """(Σ r)²/Σ r²."""
    if not bool((log_ratios > -math.inf).any()):
        return 0.0
    return float(torch.exp(2 * torch.logsumexp(log_ratios, 0) - torch.logsumexp(2 * log_ratios, 0)))
