"""The remainder of Stirling's series for log Γ, and deviances, at every node of an integral.

Natively these are single operations. Where values cannot be seen their pure forms, which own accurate derivatives, take
long; a series to 1e-15 absolutely is what a log-density needs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.kernels.pointwise import Pointwise
from kullback.pairs.visible import hidden
from kullback.special import binet, kl_div

_LOG_TAU = math.log(2 * math.pi)
# R(x) = Σ B₂ₖ/(2k(2k−1)x^(2k−1)); from 15 on seven terms reach 1e-17.
_STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156]


def stirling_rest(x: Tensor) -> Tensor:
    """R(x) for x > 0; the caller keeps 0 away."""
    if not hidden():
        return binet(x)
    large = x >= 15
    inverse = 1 / torch.where(large, x, 15.0)
    square, series = inverse * inverse, torch.zeros_like(inverse)
    for coefficient in reversed(_STIRLING):
        series = series * square + coefficient
    small = torch.where(large, 1.0, x)
    direct = torch.lgamma(small) - ((small - 0.5) * torch.log(small) - small + _LOG_TAU / 2)
    return torch.where(large, series * inverse, direct)


def deviance(x: Tensor, mean: Tensor, gap: Tensor | None = None) -> Tensor:
    """x·log(x/m) − x + m ≥ 0 for positive x and m, to a few roundings of itself (Loader's series near x = m).

    Args:
        x: The number.
        mean: What it is compared with.
        gap: x − m where that is known better than the difference of the two, which keeps no more digits than differ.
    """
    if gap is None:
        if not hidden():
            return kl_div(x, mean)
        gap = x - mean
    return _deviance_of_gap(x, mean, gap)


@Pointwise
def _deviance_of_gap(x: Tensor, mean: Tensor, gap: Tensor) -> Tensor:
    total = x + mean
    near = gap.abs() < 0.1 * total
    v = torch.where(near, gap / total, 0.0)
    square, series = v * v, torch.zeros_like(v)
    for k in range(9, 0, -1):
        series = series * square + 1 / (2 * k + 1)
    close = gap * v + 2 * x * v * square * series
    ratio = torch.where(near, 1.0, x / mean)
    return torch.where(near, close, x * torch.log(ratio) - gap)
