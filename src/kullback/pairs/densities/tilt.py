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
from kullback.pairs.visible import hidden
from kullback.special import expm1mx, log1pmx

# Beyond this eᵘ is near overflow, and log(1 + s·eᵘ) grows like u.
_HIGH = 700.0


def log_normaliser(a: Tensor, b: Tensor) -> Tensor:
    """½·log(ab/2πn) − R(a) − R(b) + R(n)."""
    larger, smaller = torch.maximum(a, b), torch.minimum(a, b)
    product = torch.log(smaller) - torch.log1p(smaller / larger)
    return (product - math.log(2 * math.pi)) / 2 - stirling_rest(a) - stirling_rest(b) + stirling_rest(a + b)


def tilt(a: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """n·D(t).

    D(t) for the share a/n is D(−t) for b/n, so that the smaller share s is taken: log(1 + s·(eᵘ − 1)) and s·u are then
    both small where D is. Near 0 their first orders are left out on either side.
    """
    n = a + b
    # Of equal shares one is chosen, as for u: a minimum has half of either's slope there.
    share = torch.where(a > b, b, a) / n
    u = t * torch.where(a > b, -1.0, 1.0)
    risen = share * torch.expm1(u.clamp_max(_HIGH))
    apart = torch.log1p(risen) - share * u + (u - _HIGH).clamp_min(0.0)
    if hidden():
        return n * apart
    near = u.abs() < 1
    inner = torch.where(near, u, 0.0)
    close = log1pmx(torch.where(near, risen, 0.0)) + share * expm1mx(inner)
    return n * torch.where(near, close, apart)
