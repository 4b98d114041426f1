"""r = I_ν₊₁(x)/I_ν(x) and its first two derivatives to the last digits, for ν ≥ 0 and x > 0.

Hankel's series far above ν²/2, Debye's far above ν; elsewhere the recurrence r_ν = x/(2(ν+1) + x·r_ν₊₁) is run
backwards from ν + 30, where Debye's expansion holds. It multiplies an error by r² at each step, in all by e⁻¹⁵ at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kullback._core.special._debye import DEBYE_FROM, debye_ratio, hankel, is_far_above, ratio_of_large_order
from kullback._core.special._double_double import Pair, divided, minus, plus, times, two_product, two_sum

_LARGE_ORDER = 3e8


@dataclass
class BesselRatio:
    """The ratio, its derivatives r' and r'' in x, and Σ log r_ν₊ₖ over thirty steps of the recurrence."""

    value: Tensor
    first: Tensor
    second: Tensor
    log_product: Tensor


def is_direct(nu: Tensor, x: Tensor) -> Tensor:
    """Where Debye's expansion serves at ν itself: it subtracts nothing that is close."""
    return (x >= 60) & (x >= 4 * nu)


def ratio_of_orders(nu: Tensor, x: Tensor) -> BesselRatio:
    """The ratio and its derivatives; x positive and finite. The product of ratios only where `is_direct` is false."""
    direct = is_direct(nu, x)
    large = ~direct & (nu >= _LARGE_ORDER)
    order = torch.where(direct, nu.clamp(min=1), nu + DEBYE_FROM)
    debye = debye_ratio(order, x)
    # Amos' bound r ≥ x/(ν + 1 + √(x² + (ν+1)²)) is close enough where the recurrence contracts.
    amos = order + 1 + torch.sqrt(x * x + (order + 1) ** 2)
    start = torch.where(x > 0.05 * order, x / debye[0], amos)
    inside = [torch.where(large, 1.0, t) for t in (nu, x, start)]
    *descent, product = _descend(*inside)
    _, d1, d2, d3 = hankel(nu, x)
    # r = 1 - (ν+½)/x + (log H)'
    far = 1 - (nu + 0.5 - d1) / x, (nu + 0.5 + d2) / x / x, (d3 - 2 * nu - 1) / x / x / x
    is_far = is_far_above(nu, x)
    value, first, second = (
        torch.where(is_far, a, torch.where(direct, b, torch.where(large, c, d)))
        for a, b, c, d in zip(far, debye, ratio_of_large_order(nu, x), descent, strict=True)
    )
    return BesselRatio(value, first, second, product)


def _descend(nu: Tensor, x: Tensor, start: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """From D at ν + 30 by D_ν = x/r_ν = 2(ν+1) + x²/D_ν₊₁; the ratio, its derivatives and the sum of logarithms.

    In pairs, because the derivatives are differences that cancel to (ν+½)/x² of their terms: with s = r_ν₊₁,
    g = (x·s)' = x(1 - s²) - (2ν+2)·s and h = 1 - r·g they are r' = h/D and r'' = ((2ν+1)·g - 2x·h)/D².
    """
    one, argument = _exactly(torch.ones_like(x)), _exactly(x)
    square, product = two_product(x, x), one[0]
    denominator = above = _exactly(start)
    for k in reversed(range(DEBYE_FROM)):
        above = denominator
        denominator = plus(_doubled(two_sum(nu, (k + 1) * one[0])), divided(square, above))
        product = product * (x / denominator[0])
    s, r = divided(argument, above), divided(argument, denominator)
    g = plus(times(argument, minus(one, times(s, s))), times(_doubled(two_sum(-nu, -one[0])), s))
    h = minus(one, times(r, g))
    bend = minus(times(two_sum(2 * nu, one[0]), g), _doubled(times(argument, h)))
    inverse = divided(one, denominator)
    first, second = times(h, inverse), times(times(inverse, inverse), bend)
    return r[0] + r[1], first[0] + first[1], second[0] + second[1], torch.log(product)


def _exactly(x: Tensor) -> Pair:
    return x, torch.zeros_like(x)


def _doubled(x: Pair) -> Pair:
    return 2 * x[0], 2 * x[1]
