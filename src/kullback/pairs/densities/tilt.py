"""The density of log-odds under a Beta law, without the cancellation of large log Γ.

With n = a + b and t the log-odds measured from log(a/b),

    a·log σ + b·log(1 − σ) − log B(a, b) = ½·log(ab/2πn) − R(a) − R(b) + R(n) − n·D(t),
    D(t) = log(1 + (a/n)·(eᵗ − 1)) − (a/n)·t ≥ 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.pairs.densities.stirling import stirling_rest


def log_normaliser(a: Tensor, b: Tensor) -> Tensor:
    """½·log(ab/2πn) − R(a) − R(b) + R(n)."""
    larger, smaller = torch.maximum(a, b), torch.minimum(a, b)
    product = torch.log(smaller) - torch.log1p(smaller / larger)
    return (product - math.log(2 * math.pi)) / 2 - stirling_rest(a) - stirling_rest(b) + stirling_rest(a + b)


def tilt(a: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """n·D(t)."""
    n = a + b
    share, rest = a / n, b / n
    size = t.abs()
    near = size < 1
    inner = torch.where(near, t, 0.0)
    close = torch.log1p(share * torch.expm1(inner)) - share * inner
    up = t > 0
    # With the larger of the two exponentials taken out the logarithm is of a sum of two positive parts.
    ahead, behind = torch.where(up, share, rest), torch.where(up, rest, share)
    apart = behind * size + torch.log(ahead + behind * torch.exp(-size))
    return n * torch.where(near, close, apart)
