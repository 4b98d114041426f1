"""Expansions of I_ν: Debye's, uniform in x for large ν (DLMF 10.41), and Hankel's, for x far above ν² (DLMF 10.40)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from kullback._core.special._precision import horner_of_columns

# At ν ≥ 30 the first term left out of Debye's series is below 1e-18; so is Hankel's where `is_far_above` holds.
DEBYE_FROM = 30
_DEBYE_TERMS = 13
_HANKEL_TERMS = 30
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)

_Polynomial = dict[int, Fraction]


def _debye_polynomials() -> tuple[list[_Polynomial], list[_Polynomial]]:
    """u_k and v_k of DLMF 10.41(ii) as {exponent: coefficient}."""
    u: list[_Polynomial] = [{0: Fraction(1)}]
    v: list[_Polynomial] = [{0: Fraction(1)}]
    for _ in range(_DEBYE_TERMS):
        next_u: _Polynomial = {}
        for power, c in u[-1].items():
            rise, fall = c * power / 2 + c / (8 * (power + 1)), c * power / 2 + 5 * c / (8 * (power + 3))
            next_u[power + 1] = next_u.get(power + 1, Fraction(0)) + rise
            next_u[power + 3] = next_u.get(power + 3, Fraction(0)) - fall
        next_v = dict(next_u)
        for power, c in u[-1].items():
            next_v[power + 3] = next_v.get(power + 3, Fraction(0)) + c * (Fraction(1, 2) + power)
            next_v[power + 1] = next_v.get(power + 1, Fraction(0)) - c * (Fraction(1, 2) + power)
        u.append(next_u)
        v.append(next_v)
    return u, v


def _columns(orders: Sequence[int]) -> list[list[list[float]]]:
    """Per k and power of p², highest first: the coefficients of p^-k·u_k and p^-k·v_k and of their derivatives.

    The n-th derivative, n among `orders`, is the one of the polynomial itself times pⁿ; u's come first.
    """
    rows = []
    for k in range(_DEBYE_TERMS + 1):
        powers = [k + 2 * j for j in reversed(range(k + 1))]
        rows.append(
            [
                [float(side[k].get(power, Fraction(0)) * math.perm(power, n)) for side in (_U, _V) for n in orders]
                for power in powers
            ]
        )
    return rows


_U, _V = _debye_polynomials()
_VALUES, _WITH_DERIVATIVES = _columns([0]), _columns([0, 1, 2])


def _sums(columns: list[list[list[float]]], p: Tensor, nu: Tensor) -> tuple[Tensor, ...]:
    """Σ_{k≥1} of Debye's polynomials over ν^k, one per column."""
    ratio, square = p / nu, p * p
    count = len(columns[0][0])
    square = square.expand(count, *p.shape)
    total = torch.zeros_like(square)
    for k in reversed(range(1, _DEBYE_TERMS + 1)):
        coefficients = torch.tensor(columns[k], dtype=p.dtype, device=p.device).reshape(-1, count, *[1] * p.dim())
        total = ratio * (total + horner_of_columns(coefficients.unbind(0), square))
    return total.unbind(0)


def debye_log(nu: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return log I_ν(x) and log I_ν(x) - x for ν ≥ 30."""
    z = x / nu
    root = torch.sqrt(1 + z * z)
    root = torch.where(torch.isinf(root), z, root)
    level = -torch.asinh(1 / z)
    series = 0.5 * torch.log(nu * root) + HALF_LOG_TWO_PI - torch.log1p(_sums(_VALUES, 1 / root, nu)[0])
    return nu * (root + level) - series, nu * (1 / (root + z) + level) - series


def debye_ratio(nu: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """I_ν₊₁/I_ν and two derivatives, which do not cancel for x ≥ 4ν.

    Q = Σv/Σu is a function of p = ν/√(ν² + x²), and r = (√(1+z²)·Q - 1)/z; x²·r' = ν·S with S = 1 - pQ - (1-p²)·Q',
    and x³·r'' = -ν·(2S + (1-p²)·p·S').
    """
    z = x / nu
    root = torch.sqrt(1 + z * z)
    p = 1 / root
    rest = (1 - p) * (1 + p)
    u, u1, u2, v, v1, v2 = _sums(_WITH_DERIVATIVES, p, nu)
    excess = (v - u) / (1 + u)
    quotient = 1 + excess
    first = (v1 - quotient * u1) / (1 + u)  # p·Q'
    second = (v2 - 2 * first * u1 - quotient * u2) / (1 + u)  # p²·Q''
    slope = (1 - p) - p * excess - rest * (first / p)
    turn = p * first - p * quotient - rest * (second / p)
    return z / (root + 1) + root * excess / z, nu * slope / x / x, -nu * (2 * slope + rest * turn) / x / x / x


def ratio_of_large_order(nu: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for ν ≥ 3e8, x ≤ 4ν: to the second term, in a form that does not cancel at small x/ν."""
    z = x / nu
    square = 1 + z * z
    root, half = torch.sqrt(square), 0.5 / nu
    first = 1 / (root * (1 + root)) - half * (1 - z * z) / square**2
    second = (1 + 2 * root) / (square * root * (1 + root) ** 2) + 2 * half * (z * z - 3) / square**3
    return z / (1 + root) - half * z / square, first / nu, -z * second / nu / nu


def is_far_above(nu: Tensor, x: Tensor) -> Tensor:
    """Where Hankel's series holds: its terms fall like (ν²/2x)^k/k! and then like k!/(2x)^k."""
    return x >= 0.5 * nu * nu + 40


def hankel(nu: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return log H, x·(log H)', x²·(log H)'', x³·(log H)''' of the series H = √(2πx)·e^-x·I_ν(x)."""
    term = torch.ones_like(x)
    sums = [torch.zeros_like(x) for _ in range(4)]
    square = 4 * nu * nu
    terms = []
    for k in range(1, _HANKEL_TERMS):
        term = term * ((2 * k - 1) ** 2 - square) / (8 * k * x)
        terms.append(term)
    for k, value in reversed(list(enumerate(terms, start=1))):
        for order in range(4):
            sums[order] = sums[order] + math.prod(range(k, k + order)) * (-1) ** order * value
    h = 1 + sums[0]
    d1, d2, d3 = (s / h for s in sums[1:])
    return torch.log1p(sums[0]), d1, d2 - d1 * d1, d3 - 3 * d1 * d2 + 2 * d1 * d1 * d1
