"""Digamma and trigamma with their own derivatives; torch's polygamma(1, x) is accurate to 5e-10 only.

Positive arguments are raised to 12 by the recurrence ψ⁽ⁿ⁾(x) = ψ⁽ⁿ⁾(x+1) - (-1)ⁿ n!/xⁿ⁺¹, whose terms have one sign
for n ≥ 1, and then expanded asymptotically (DLMF 5.11, 5.15). Negative arguments are reflected (DLMF 5.5.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._double_double import quotient, two_sum
from kullback._core.special._precision import horner, horner_of_columns, widen
from kullback._core.special._reflection import reflect

RAISE_TO = 12

# B_2k / (2k(2k-1)), k = 1, 2, …: the asymptotic series of lgamma in 1/x; derivatives follow by the power rule.
BINET_SERIES = [
    0.08333333333333333,
    -0.002777777777777778,
    0.0007936507936507937,
    -0.0005952380952380953,
    0.0008417508417508417,
    -0.0019175269175269176,
    0.00641025641025641,
    -0.029550653594771242,
    0.17964437236883057,
    -1.3924322169059011,
    13.402864044168393,
    -156.84828462600203,
    2193.1033333333335,
    -36108.77125372499,
]

# The positive root of digamma, in two parts, and ψ(x)/(x - root) on [1, 2] in powers of x - 3/2 (Chebyshev fit, 6e-20).
_ROOT, _ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17
_DIGAMMA_OVER_ROOT = [
    0.9510558760318328,
    -0.42362742128146047,
    0.2405424842407869,
    -0.14840492305391872,
    0.09498872445291817,
    -0.06192213327154086,
    0.04076083393802232,
    -0.026975796849870903,
    0.017907248451446506,
    -0.011908215022954471,
    0.007927018239564994,
    -0.005280020264450306,
    0.0035181643354796027,
    -0.0023446244638506528,
    0.0015627663530553948,
    -0.0010424375640517788,
    0.000695057895230654,
    -0.00045917430083105225,
    0.0003054969030525749,
    -0.00022008418201681154,
    0.00014834456823461422,
    -5.76048865255672e-05,
    3.592996803689913e-05,
    -8.401289563760489e-05,
    5.7657294642229025e-05,
]


def polygamma_positive(orders: Sequence[int], x: Tensor) -> list[Tensor]:
    """ψ⁽ⁿ⁾(x) for x > 0 and some orders n ≥ 1, without derivatives; one run over the series serves all orders."""
    is_small = x < RAISE_TO
    inverse = 1 / torch.where(is_small, x + RAISE_TO, x)
    series = [[c * math.prod(range(2 * k + 1, 2 * k + n + 2)) for k, c in enumerate(BINET_SERIES)] for n in orders]
    columns = torch.tensor(series, dtype=x.dtype, device=x.device).reshape(len(orders), -1, *[1] * x.dim())
    binet = horner_of_columns(columns.flip(1).unbind(1), (inverse * inverse).expand(len(orders), *x.shape))
    # The recurrence's terms from the second on, the smallest parts of the sum, along a new dimension.
    steps = 1 / (x.unsqueeze(-1) + torch.arange(1, RAISE_TO, dtype=x.dtype, device=x.device))
    found = []
    for n, remainder in zip(orders, binet.unbind(0), strict=True):
        # (n-1)!/xⁿ · [1 + n/(2x) + …]: the part of log x and -1/(2x), then Binet's remainder, one power of 1/x further.
        bracket = 1 + inverse * (n / 2 + inverse * remainder / math.factorial(n - 1))
        total = math.factorial(n - 1) * bracket * inverse**n
        raised = (total + math.factorial(n) * (steps ** (n + 1)).sum(-1)) + math.factorial(n) / x ** (n + 1)
        total = torch.where(is_small, raised, total)
        found.append(total if n % 2 else -total)
    return found


def digamma_positive(x: Tensor) -> Tensor:
    """ψ(x) for x > 0, without derivatives; relative accuracy also at the root 1.4616…."""
    inverse = 1 / x
    series = [-c * (2 * k + 1) for k, c in enumerate(BINET_SERIES)]
    large = torch.log(x) - inverse * (0.5 - inverse * horner(inverse * inverse, series))
    steps = torch.clamp(torch.floor(x) - 1, 0, RAISE_TO)
    lowered, lowered_low = two_sum(torch.where(x < 1, x, x - steps), torch.where(x < 1, 1.0, 0.0).to(x.dtype))
    count = torch.arange(1, RAISE_TO, dtype=x.dtype, device=x.device)
    rise = torch.where(count <= steps.unsqueeze(-1), 1 / (x.unsqueeze(-1) - count), 0.0).sum(-1)
    fall, fall_low = quotient(torch.ones_like(x), torch.zeros_like(x), x)
    fall, fall_low = torch.where(x < 1, fall, 0.0), torch.where(x < 1, fall_low, 0.0)
    beyond_root = (lowered - _ROOT) + (lowered_low - _ROOT_LOW)
    moderate = (beyond_root * horner(lowered - 1.5, _DIGAMMA_OVER_ROOT) + rise - fall) - fall_low
    return torch.where(x < RAISE_TO, moderate, large)


def _values(x: Tensor, orders: Sequence[int]) -> list[Tensor]:
    """ψ⁽ⁿ⁾(x) for some n ≤ 3 without derivatives, n = 0 first if at all.

    ∓inf at ±0 and NaN at the negative integers for n = 0, infinite at 0, -1, -2, … for the others. The reflection is
    (-1)ⁿ⁺¹ψ⁽ⁿ⁾(1-x) plus the n-th derivative of -π·cot(πx).
    """
    is_negative = x < 0
    pole, pole_low, cotangent = reflect(x)
    whole = pole + pole_low
    # The leading number and what is added last of each.
    parts = (
        (-math.pi * cotangent, 0.0),
        (pole, pole_low),
        (-2 * math.pi * whole * cotangent, 0.0),
        (2 * whole * (whole + 2 * (math.pi * cotangent) ** 2), 0.0),
    )
    point = torch.where(is_negative, 1 - x, x)
    beyond = [digamma_positive(point)] if orders[0] == 0 else []
    beyond += polygamma_positive([n for n in orders if n], point)
    found = []
    for n, value in zip(orders, beyond, strict=True):
        leading, rest = parts[n]
        found.append(torch.where(is_negative, (leading + (-value if n % 2 else value)) + rest, value))
    if orders[0] == 0:
        found[0] = torch.where(is_negative & (x == torch.round(x)), math.nan, found[0])
    return found


def digamma(x: Tensor) -> Tensor:
    """The derivative of log Γ."""
    dtype, (wide,) = widen(x)
    point, step = split_point(wide)
    value, first, second = _values(point, [0, 1, 2])
    return attach(value, [step], [first], [second]).to(dtype)


def trigamma(x: Tensor) -> Tensor:
    """The second derivative of log Γ."""
    dtype, (wide,) = widen(x)
    point, step = split_point(wide)
    value, first, second = _values(point, [1, 2, 3])
    return attach(value, [step], [first], [second]).to(dtype)
