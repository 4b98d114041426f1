"""Binet's remainder R of log Γ and its derivatives.

    log Γ(x) = (x - ½)·log x - x + ½·log 2π + R(x),    R completely monotone

Above 1/4 (1/2 from order 2 on) the n-th derivative is (-1)ⁿ·P(u)/xⁿ⁺¹ with a polynomial P that hardly varies, in the
variable u = 1 - k/(x+c). Below, the poles and the logarithm stand alone and a polynomial makes up the rest. Several
orders and arguments are stacked along a new first dimension, so that one run over the coefficients serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from kullback._core.special._binet_coefficients import FROM, NEAR, REGULAR, SCALED, SHIFTS
from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._double_double import two_product
from kullback._core.special._precision import horner_of_columns, widen

SCALES = [2 * (start + shift) for start, shift in zip(FROM, SHIFTS, strict=True)]


def rows(table: Sequence[Sequence[float]], orders: Sequence[int], like: Tensor) -> tuple[Tensor, ...]:
    """Coefficients of the polynomials of some orders, highest power first, as columns that broadcast over a stack."""
    length = max(len(table[order]) for order in orders)
    padded = [[*table[order], *[0.0] * (length - len(table[order]))] for order in orders]
    columns = torch.tensor(padded, dtype=like.dtype, device=like.device).reshape(len(orders), -1, *[1] * like.dim())
    return columns.flip(1).unbind(1)


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device).reshape(-1, *[1] * like.dim())


def _above(orders: Sequence[int], x: Tensor) -> Tensor:
    """|R⁽ⁿ⁾| for a stack of arguments above their thresholds, one per order."""
    u = 1 - _column([SCALES[n] for n in orders], x[0]) / (x + _column([SHIFTS[n] for n in orders], x[0]))
    scaled = horner_of_columns(rows(SCALED, orders, x[0]), u)
    return torch.stack([_over_power(n, *row) for n, *row in zip(orders, scaled, x, strict=True)])


def _over_power(order: int, y: Tensor, x: Tensor) -> Tensor:
    """y/xⁿ⁺¹ without an early over- or underflow."""
    if order < 2:
        return y / x if order == 0 else y / x / x
    if order == 2:
        return y / (x * x) / x
    # The square enters more than once, and so would its rounding error.
    square, lost = two_product(x, x)
    pairs, rest = divmod(order + 1, 2)
    lost = lost / square
    y = y - y * (pairs * torch.where(torch.isfinite(lost), lost, 0.0))
    for _ in range(pairs):
        y = y / square
    return y / x if rest else y


def _below(orders: Sequence[int], x: Tensor) -> Tensor:
    """|R⁽ⁿ⁾| for a stack of positive arguments up to ¾."""
    regular = horner_of_columns(rows(REGULAR, orders, x[0]), x * (2 / NEAR) - 1)
    found = []
    for order, rest, point in zip(orders, regular, x, strict=True):
        if order == 0:
            found.append(rest - (point + 0.5) * torch.log(4 * point))
        elif order == 1:
            found.append(0.5 / point - (rest - torch.log(4 * point)))
        else:
            # (n-1)!/(2xⁿ) - (n-2)!/xⁿ⁻¹ over one power.
            poles = math.factorial(order - 2) * ((order - 1) / 2 - point)
            found.append(_over_power(order - 1, poles, point) + (rest if order % 2 == 0 else -rest))
    return torch.stack(found)


def binet_values(orders: Sequence[int], x: Sequence[Tensor]) -> list[Tensor]:
    """R⁽ⁿ⁾(x) for orders n ≤ 5 and as many positive arguments, without derivatives; infinite at 0, NaN below."""
    points = torch.stack(list(x))
    is_above = points >= _column([FROM[n] for n in orders], x[0])
    above = _above(orders, torch.where(is_above, points, 1.0))
    below = _below(orders, torch.where(is_above, 0.5, points))
    signs = _column([-1.0 if n % 2 else 1.0 for n in orders], x[0])
    total = torch.where(is_above, above, below)
    return list((signs * torch.where(points == 0, math.inf, torch.where(points < 0, math.nan, total))).unbind(0))


def binet(x: Tensor, order: int = 0) -> Tensor:
    """R or one of its first three derivatives."""
    dtype, (wide,) = widen(x)
    point, step = split_point(wide)
    value, first, second = binet_values(range(order, order + 3), [point] * 3)
    return attach(value, [step], [first], [second]).to(dtype)
