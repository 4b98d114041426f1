"""Binet's remainder R of log Γ and its Bregman divergence.

    log Γ(x) = (x - ½)·log x - x + ½·log 2π + R(x),    R(x) = Σ_k ρ(x+k),    ρ(x) = (x + ½)·log(1 + 1/x) - 1 > 0

With z = 1/(2x+1), ρ = atanh(z)/z - 1 = z²/3 + z⁴/5 + …, and ρ'' = ½/v² with v = x(x+1): no term cancels. Twelve terms
raise the argument to where the asymptotic series of R holds.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._double_double import two_difference
from kullback._core.special._precision import horner, widen
from kullback._core.special._quadrature import NODES_16, WEIGHTS_16
from kullback._core.special.entropy import log_ratio_pair
from kullback._core.special.polygamma import BINET_SERIES, RAISE_TO

# Below these points (of ρ and ρ') the logarithm itself is used; above, z² < 0.5 and 56 terms reach 1e-18. From x = 1
# on, 18 do. The slope turns to its series later, because that carries the rounding of z three times.
_SERIES_FROM = (0.21, 0.5)
_TERM_SERIES = [1.0 / (2 * j + 1) for j in range(1, 57)]
_SLOPE_SERIES = [-4.0 * j / (2 * j + 1) for j in range(1, 57)]


def _term(order: int, x: Tensor, terms: int) -> Tensor:
    """The order-th derivative of ρ, its series in z² cut after some terms."""
    if order < 2:
        z = 1 / (2 * x + 1)
        # log(1 + 1/x) in two parts: against 1, or against 1/(2x), their sum loses three bits.
        high, low = log_ratio_pair(x + 1, x, *two_difference(x + 1, x))
        if order == 0:
            near_zero = (0.5 * high - 1) + (x * high + (x + 0.5) * low)
            return torch.where(x < _SERIES_FROM[order], near_zero, z * z * horner(z * z, _TERM_SERIES[:terms]))
        near_zero = ((high - 0.5 / x) - 0.5 / (x + 1)) + low
        return torch.where(x < _SERIES_FROM[order], near_zero, z * z * z * horner(z * z, _SLOPE_SERIES[:terms]))
    v = x * (x + 1)
    odd = 2 * x + 1
    if order == 2:
        return 0.5 / (v * v)
    if order == 3:
        return -odd / (v * v * v)
    if order == 4:
        return (10 + 3 / v) / (v * v * v)
    return -odd * (30 + 12 / v) / (v * v * v * v)


def _tail(order: int, x: Tensor) -> Tensor:
    """The order-th derivative of R for x ≥ 12, by its asymptotic series."""
    inverse = 1 / x
    series = [c * math.prod(range(2 * k + 1, 2 * k + 1 + order)) for k, c in enumerate(BINET_SERIES)]
    total = inverse ** (order + 1) * horner(inverse * inverse, series)
    return -total if order % 2 else total


def binet_value(order: int, x: Tensor) -> Tensor:
    """The order-th derivative of R, x > 0 and order ≤ 5, without derivatives of its own."""
    total = _tail(order, torch.where(x < RAISE_TO, x + RAISE_TO, x))
    for k in reversed(range(RAISE_TO)):
        total = total + torch.where(x < RAISE_TO, _term(order, x + k, 18 if k else 56), 0.0)
    # The limit at 0 is infinite with the sign of every value.
    return torch.where(x == 0, math.inf if order % 2 == 0 else -math.inf, torch.where(x < 0, math.nan, total))


def binet(x: Tensor, order: int = 0) -> Tensor:
    """R or one of its first three derivatives."""
    dtype, (wide,) = widen(x)
    point, step = split_point(wide)
    value, first, second = (binet_value(order + k, point) for k in range(3))
    return attach(value, [step], [first], [second]).to(dtype)


def tail_bregman(a: Tensor, b: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
    """D = R(b) - R(a) - (b-a)·R'(a) and R'(b) - R'(a) for a, b ≥ 12, without cancellation.

    With s = 1/a, t = 1/b and d = b - a, each power of the asymptotic series gives a polynomial with positive terms:
    t^m - s^m + m·d·s^(m+1) = d²s²t·Σ_{i<m} (m-i)·s^(m-1-i)·t^i and s^(m+1) - t^(m+1) = d·s·t·Σ_{i≤m} s^(m-i)·t^i.
    """
    s, t = 1 / a, 1 / b
    power, homogeneous, weighted = torch.ones_like(s), torch.ones_like(s), torch.ones_like(s)
    divergence, slope = torch.zeros_like(s), torch.zeros_like(s)
    for m in range(1, 2 * len(BINET_SERIES)):
        power = power * t
        following = s * homogeneous + power
        if m % 2:
            coefficient = BINET_SERIES[m // 2]
            divergence = divergence + coefficient * weighted
            slope = slope + (coefficient * m) * following
        homogeneous = following
        weighted = s * weighted + homogeneous
    return (gap * s) * ((gap * t) * s) * divergence, (gap * s) * t * slope


def _remainder_integral(a: Tensor, b: Tensor, gap: Tensor, gap_low: Tensor) -> tuple[Tensor, Tensor]:
    """D = ∫(b-s)·R''(s)ds and R'(b) - R'(a) = ∫R''(s)ds over [a, b], in the variable s = a·e^(τL), L = log(b/a).

    The integrands are analytic in a strip of half-width π/L: 16 nodes reach 1e-18 for ratios b/a from 1/30 to 30.
    """
    nodes = torch.tensor(NODES_16, dtype=a.dtype, device=a.device)
    weights = torch.tensor(WEIGHTS_16, dtype=a.dtype, device=a.device)
    log_ratio, log_ratio_low = log_ratio_pair(b, a, gap, gap_low)
    length = (log_ratio + log_ratio_low).unsqueeze(-1)
    s = a.unsqueeze(-1) * torch.exp(length * nodes)
    mass = s * binet_value(2, s) * weights
    divergence = length * (s * mass * torch.expm1(length * (1 - nodes)))
    return divergence.sum(-1), (length * mass).sum(-1)


def binet_bregman(a: Tensor, b: Tensor) -> Tensor:
    """R(b) - R(a) - (b-a)·R'(a) ≥ 0."""
    dtype, (a_wide, b_wide) = widen(a, b)
    (a0, a_step), (b0, b_step) = split_point(a_wide), split_point(b_wide)
    gap, gap_low = two_difference(b0, a0)
    tail = tail_bregman(a0, b0, gap)
    near = _remainder_integral(a0, b0, gap, gap_low)
    slope_a, curvature_a = binet_value(1, a0), binet_value(2, a0)
    slope_b = binet_value(1, b0)
    far = (binet_value(0, b0) - binet_value(0, a0)) - gap * slope_a, slope_b - slope_a
    is_tail = (a0 >= RAISE_TO) & (b0 >= RAISE_TO)
    is_near = (30 * b0 >= a0) & (b0 <= 30 * a0)
    value, b_slope = (
        torch.where(is_tail, x, torch.where(is_near, y, z)) for x, y, z in zip(tail, near, far, strict=True)
    )
    at_zero = ((a0 == 0) & (b0 > 0)) | ((b0 == 0) & (a0 > 0))
    value = torch.where(at_zero, math.inf, value)
    first = [-gap * curvature_a, b_slope]
    second = [curvature_a - gap * binet_value(3, a0), -curvature_a, binet_value(2, b0)]
    first, second = ([torch.where(at_zero, 0.0, s) for s in slopes] for slopes in (first, second))
    return attach(value, [a_step, b_step], first, second).to(dtype)
