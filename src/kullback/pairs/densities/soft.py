"""log(1 + eˣ) and eˣ − 1 − x, cheaply: these are evaluated at every node."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus as _softplus

from kullback.pairs.visible import hidden
from kullback.special import expm1mx

_EXP_REST = [1 / math.factorial(k) for k in range(2, 15)]


def softplus(x: Tensor) -> Tensor:
    """log(1 + eˣ); torch's own rounds to x from x = 20 on, where the rest is still 2e-9."""
    return _softplus(x, threshold=40.0)


def exp_rest(x: Tensor) -> Tensor:
    """eˣ − 1 − x; to a few roundings where the native `expm1mx` cannot be called, whose pure form takes long."""
    if not hidden():
        return expm1mx(x)
    near = x.abs() < 0.5
    small = torch.where(near, x, 0.0)
    series = torch.full_like(small, _EXP_REST[-1])
    for coefficient in reversed(_EXP_REST[:-1]):
        series = series * small + coefficient
    return torch.where(near, small * small * series, torch.expm1(x) - x)
