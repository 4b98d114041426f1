"""Expansions of I_ν: Debye's, uniform in x for large ν (DLMF 10.41), and Hankel's, for x far above ν² (DLMF 10.40)."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from kullback._core.special._precision import horner

# At ν ≥ 30 the first term left out of Debye's series is below 1e-18; so is Hankel's where `is_far_above` holds.
DEBYE_FROM = 30
_DEBYE_TERMS = 13
_HANKEL_TERMS = 30

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


def _odd_even(polynomial: _Polynomial, k: int) -> tuple[list[float], list[float]]:
    """p^-k times the polynomial and p^(1-k) times its derivative, in powers of p²."""
    coefficients = [polynomial.get(k + 2 * j, Fraction(0)) for j in range(k + 1)]
    return [float(c) for c in coefficients], [float(c * (k + 2 * j)) for j, c in enumerate(coefficients)]


_U, _V = ([_odd_even(polynomial, k) for k, polynomial in enumerate(side)] for side in _debye_polynomials())


def _sum(side: list[tuple[list[float], list[float]]], p: Tensor, nu: Tensor, part: int) -> Tensor:
    """Σ_{k≥1} of the polynomials over ν^k, or of p times their derivatives."""
    ratio, square = p / nu, p * p
    total = torch.zeros_like(p)
    for k in reversed(range(1, _DEBYE_TERMS + 1)):
        total = ratio * (total + horner(square, side[k][part]))
    return total


def debye_log(nu: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return log I_ν(x) and log I_ν(x) - x for ν ≥ 30."""
    z = x / nu
    root = torch.sqrt(1 + z * z)
    root = torch.where(torch.isinf(root), z, root)
    level = -torch.asinh(1 / z)
    series = 0.5 * torch.log(2 * math.pi * nu * root) - torch.log1p(_sum(_U, 1 / root, nu, 0))
    return nu * (root + level) - series, nu * (1 / (root + z) + level) - series


def debye_ratio(nu: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """I_ν₊₁/I_ν and two derivatives for ν ≥ 30, x ≥ ν/20; for smaller x a start that the recurrence improves."""
    z = x / nu
    root = torch.sqrt(1 + z * z)
    p = 1 / root
    u, v = 1 + _sum(_U, p, nu, 0), 1 + _sum(_V, p, nu, 0)
    quotient = v / u
    p_slope = (_sum(_V, p, nu, 1) - quotient * _sum(_U, p, nu, 1)) / (u * p)
    r = (root * quotient - 1) / z
    scaled_slope = nu * ((1 - p * quotient) - (1 - p * p) * p_slope)
    # Amos' bound I_ν₊₁/I_ν ≥ x/(ν + 1 + √(x² + (ν+1)²)) is close enough where the recurrence contracts.
    amos = x / (nu + 1 + torch.sqrt(x * x + (nu + 1) ** 2))
    is_large = z > 0.05
    first = torch.where(is_large, scaled_slope / x / x, amos / x)
    r = torch.where(is_large, r, amos)
    return r, first, torch.where(is_large, -2 * r * first - (2 * nu + 1) * (first - r / x) / x, 0.0)


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
