"""B(x) = log(sinh(x/2)/(x/2)), its derivatives and its Bregman divergence, for every real x; no derivatives of these.

|x| ≤ 2 goes by the series Σ B₂ₖ x²ᵏ/(2k (2k)!), whose radius is 2π; beyond it
B(x) = |x|/2 − log|x| + log(1 − e^−|x|).
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from kullback._core.gauss_legendre import gauss_legendre
from kullback.special import log1mexp, log1pmx

_TERMS = 20
# Up to this difference Gauss–Legendre in 14 nodes is exact to rounding: the nearest poles of B″ are at ±2πi.
_SHORT = 4.0


def _bernoulli() -> list[Fraction]:
    found = [Fraction(1)]
    for m in range(1, 2 * _TERMS + 1):
        found.append(-sum((math.comb(m + 1, k) * found[k] for k in range(m)), Fraction()) / (m + 1))
    return found


def _series(order: int, bernoulli: list[Fraction]) -> list[float]:
    """Coefficients of the order-th derivative of B, by powers x⁰ or x¹, then every second."""
    powers = [(k, 2 * k - order) for k in range(1, _TERMS + 1) if 2 * k >= order]
    return [float(bernoulli[2 * k] / (2 * k * math.factorial(power))) for k, power in powers]


# Made on import: Dynamo, which follows the functions below, must not follow these.
_SERIES = [_series(order, _bernoulli()) for order in range(5)]
_RULE = gauss_legendre(14)


def log_sinhc(x: Tensor, order: int) -> Tensor:
    """B or one of its first four derivatives."""
    small = x.abs() <= 2
    near = _horner(torch.where(small, x, 0.0), order)
    size = torch.where(small, 2.0, x.abs())
    e = torch.exp(-size)
    rest = -torch.expm1(-size)
    if order == 0:
        far = size / 2 - torch.log(size) + log1mexp(-size)
    elif order == 1:
        far = 0.5 - 1 / size + e / rest
    elif order == 2:
        far = 1 / size**2 - e / rest**2
    elif order == 3:
        far = -2 / size**3 + e * (1 + e) / rest**3
    else:
        far = 6 / size**4 - e * (1 + 4 * e + e * e) / rest**4
    return torch.where(small, near, far * torch.sign(x) if order % 2 else far)


def _horner(x: Tensor, order: int) -> Tensor:
    square, total = x * x, torch.zeros_like(x)
    for coefficient in reversed(_SERIES[order]):
        total = total * square + coefficient
    return total * (x if order % 2 else (square if order == 0 else 1.0))


def log_sinhc_slopes(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """B′, B″ and B‴."""
    return log_sinhc(x, 1), log_sinhc(x, 2), log_sinhc(x, 3)


def mean_distance(x: Tensor) -> Tensor:
    """½ − B′(|x|): how far the mean of the density e^(xu) on [0, 1] is from the end where it is high."""
    size = torch.where(x.abs() <= 2, 2.0, x.abs())
    return torch.where(x.abs() <= 2, 0.5 - log_sinhc(x, 1).abs(), 1 / size - torch.exp(-size) / -torch.expm1(-size))


def log_sinhc_bregman(a: Tensor, b: Tensor, difference: Tensor) -> tuple[Tensor, Tensor]:
    """B(b) − B(a) − (b − a) B′(a) and B′(b) − B′(a), where the difference b − a is known better than b and a."""
    short = difference.abs() <= _SHORT
    step = torch.where(short, difference, 0.0)
    at, weights = (torch.tensor(numbers, dtype=step.dtype, device=step.device) for numbers in _RULE)
    bend = weights * log_sinhc(a.unsqueeze(-1) + at * step.unsqueeze(-1), 2)
    remainder, rise = ((1 - at) * bend).sum(-1), bend.sum(-1)
    value = torch.where(short, step * step * remainder, _far(a, b, difference))
    return value, torch.where(short, step * rise, log_sinhc(b, 1) - log_sinhc(a, 1))


def _far(a: Tensor, b: Tensor, difference: Tensor) -> Tensor:
    """The Bregman divergence where |b − a| > 4.

    For |a| > 2 the linear parts of B leave |b| where the signs differ and nothing where they agree, and the logarithms
    leave b/a − 1 − log(b/a); the exponentials are small. For |a| ≤ 2 nothing cancels.
    """
    direct = log_sinhc(b, 0) - log_sinhc(a, 0) - difference * log_sinhc(a, 1)
    outer = a.abs() > 2
    safe = torch.where(outer, a, 4.0)
    size_a, size_b = safe.abs(), b.abs()
    e = torch.exp(-size_a)
    decay = -log1mexp(-size_a) - difference * torch.sign(safe) * e / -torch.expm1(-size_a)
    agree = (torch.sign(safe) == torch.sign(b)) & (size_b > 2)
    ratio = torch.where(agree, difference / safe, 0.0)
    beside = -log1pmx(ratio) + log1mexp(-torch.where(agree, size_b, 2.0))
    linear = torch.where(torch.sign(safe) == torch.sign(b), 0.0, size_b)
    # log((1 − e^−|b|)/|b|) = B(b) − |b|/2
    across = linear + b / safe - 1 + torch.log(size_a) + (log_sinhc(b, 0) - size_b / 2)
    return torch.where(outer, torch.where(agree, beside, across) + decay, direct)
