"""Logarithms to twice the working precision, in plain torch operations.

A logarithm is an unevaluated sum of the rounded one and what it misses. Probabilities against logits need it: KL =
1e-28 means log-ratios of 1e-14, and those must be known to 1e-13 of themselves.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import torch
from torch import Tensor

from kullback._core.special._double_double import two_product, two_sum

# log 2 in three pieces; the first two have 42 bits, so that their product with any float64 exponent is exact.
_LN2 = (
    float.fromhex("0x1.62e42fefa38p-1"),
    float.fromhex("0x1.ef35793c76p-45"),
    float.fromhex("0x1.cc01f97b57a08p-87"),
)
_TWO_THIRDS = (float.fromhex("0x1.5555555555555p-1"), float.fromhex("0x1.5555555555555p-55"))
_CENTRES = range(90, 183)  # the 128ths next to [sqrt(1/2), sqrt(2))


def log_error(x: Tensor, log_x: Tensor) -> Tensor:
    """What a rounded float64 logarithm misses: `log(x) - log_x`, to an absolute error of 4e-29.

    With x = 2^k m and c the 128th nearest to m, log x = k log 2 + log c + 2 atanh(s), s = (m - c)/(m + c), |s| < 2^-8.
    Only s and s^3 need double precision twice over; the rest of the series starts at 2^-44.

    Args:
        x: Positive float64 numbers; the correction of anything else means nothing.
        log_x: Their logarithms as torch rounds them.
    """
    x = torch.where((x > 0) & (x < torch.inf), x, 1.0)
    mantissa, exponent = torch.frexp(x)
    small = mantissa < 0.7071067811865476
    mantissa = torch.where(small, 2 * mantissa, mantissa)
    k = (exponent - small.to(exponent.dtype)).to(x.dtype)
    index = torch.round(mantissa * 128)
    centre = index / 128
    log_centre = torch.tensor(_LOG_CENTRES, dtype=x.dtype, device=x.device)[:, index.to(torch.int64) - _CENTRES.start]

    difference = mantissa - centre
    total, total_low = two_sum(mantissa, centre)
    s = difference / total
    product, product_low = two_product(s, total)
    s_low = (((difference - product) - product_low) - s * total_low) / total

    square, square_low = two_product(s, s)
    cube, cube_low = two_product(square, s)
    cube_low = cube_low + (square_low * s + 3 * square * s_low)
    third, third_low = two_product(cube, torch.full_like(cube, _TWO_THIRDS[0]))
    third_low = third_low + (cube_low * _TWO_THIRDS[0] + cube * _TWO_THIRDS[1])
    tail = 2 * cube * square * (1 / 5 + square * (1 / 7 + square * (1 / 9 + square * (1 / 11))))

    low = log_centre[1] + (2 * s_low + third_low) + (tail + k * _LN2[2])
    high = k * _LN2[0]
    for part in (log_centre[0], 2 * s, third, k * _LN2[1]):
        high, error = two_sum(high, part)
        low = low + error
    return (high - log_x) + low


def _log_centres() -> list[list[float]]:
    with localcontext() as context:
        context.prec = 50
        exact = [(Decimal(j) / 128).ln() for j in _CENTRES]
        high = [float(value) for value in exact]
        return [high, [float(value - Decimal(rounded)) for value, rounded in zip(exact, high, strict=True)]]


_LOG_CENTRES = _log_centres()
