"""log[Γ(x+½)/(Γ(x)·√x)] and its derivative: the normaliser of a Student-t, x = ν/2.

The asymptotic series is −2·Σ_k (1 − 4^(−k))·B_2k/(2k(2k−1))/x^(2k−1) (DLMF 5.11.8 with 24.4.27); below 12 the argument
is raised by recurrence. The derivative's recurrence has positive terms only: it is relatively accurate everywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kullback._core.gauss_legendre import gauss_legendre
from kullback._core.special._precision import horner
from kullback._core.special.polygamma import BINET_SERIES
from kullback.kernels.pointwise import Pointwise

_RAISE = 12
SERIES = [-2 * (1 - 4.0**-k) * c for k, c in enumerate(BINET_SERIES, start=1)]
_SLOPE_SERIES = [-(2 * k + 1) * c for k, c in enumerate(SERIES)]

# Exact to rounding for arguments within a quarter of each other.
_RULE = gauss_legendre(8)


@Pointwise
def log_half_step(x: Tensor) -> Tensor:
    """log[Γ(x+½)/(Γ(x)·√x)], about −1/(8x)."""
    low = x < _RAISE
    inverse = 1 / torch.where(low, x + _RAISE, x)
    base = torch.where(low, x, 1.0)
    product = torch.sqrt((base + _RAISE) / base)
    for k in range(_RAISE):
        product = product * ((base + k) / (base + (k + 0.5)))
    series = inverse * horner(inverse * inverse, SERIES)
    return series + torch.where(low, torch.log(product), 0.0)


@Pointwise
def half_step_slope(x: Tensor) -> Tensor:
    """ψ(x+½) − ψ(x) − 1/(2x) > 0, about 1/(8x²)."""
    inverse = 1 / (x + _RAISE)
    square = inverse * inverse
    total = square * horner(square, _SLOPE_SERIES)
    for k in reversed(range(_RAISE)):
        total = total + 0.25 / ((x + k) * (x + (k + 0.5)) * (x + (k + 1)))
    return total


def half_step_difference(x: Tensor, y: Tensor) -> Tensor:
    """log_half_step(y) − log_half_step(x), relatively accurate for close arguments."""
    gap = y - x
    near = gap.abs() < 0.25 * x
    close_gap = torch.where(near, gap, 0.0).unsqueeze(-1)
    nodes = torch.tensor(_RULE.nodes, dtype=x.dtype, device=x.device)
    weights = torch.tensor(_RULE.weights, dtype=x.dtype, device=x.device)
    close = (half_step_slope(x.unsqueeze(-1) + close_gap * nodes) * weights * close_gap).sum(-1)
    return torch.where(near, close, log_half_step(y) - log_half_step(x))
