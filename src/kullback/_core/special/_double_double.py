"""Exact sums and products: the rounding error of one operation as a second number.

Knuth's two-sum and Dekker's split product (T. J. Dekker, Numer. Math. 18 (1971) 224), without a fused multiply-add
because torch has none. Products are exact while the factors stay between about 2**-480 and 2**480.
"""

from __future__ import annotations

import torch
from torch import Tensor

_SPLITTER = {torch.float64: 134217729.0, torch.float32: 4097.0}


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return s, e with s + e = a + b exactly and s = fl(a + b)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_difference(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return d, e with d + e = a - b exactly and d = fl(a - b)."""
    return two_sum(a, -b)


def _split(a: Tensor) -> tuple[Tensor, Tensor]:
    c = _SPLITTER[a.dtype] * a
    high = c - (c - a)
    return high, a - high


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return p, e with p + e = a·b exactly and p = fl(a·b)."""
    p = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


Pair = tuple[Tensor, Tensor]


def rounded(a: Pair) -> Tensor:
    """A number with its correction added."""
    return a[0] + a[1]


def plus(a: Pair, b: Pair) -> Pair:
    """The sum of two numbers that carry corrections, to about 100 bits."""
    s, e = two_sum(a[0], b[0])
    return s, e + (a[1] + b[1])


def minus(a: Pair, b: Pair) -> Pair:
    """The difference of two numbers that carry corrections, to about 100 bits."""
    return plus(a, (-b[0], -b[1]))


def times(a: Pair, b: Pair) -> Pair:
    """The product of two numbers that carry corrections, to about 100 bits."""
    p, e = two_product(a[0], b[0])
    return p, e + (a[0] * b[1] + a[1] * b[0])


def divided(a: Pair, b: Pair) -> Pair:
    """The quotient of two numbers that carry corrections, to about 100 bits."""
    q = a[0] / b[0]
    p, e = two_product(q, b[0])
    return q, (((a[0] - p) - e) + a[1] - q * b[1]) / b[0]


def root(a: Pair) -> Pair:
    """The square root of a positive number that carries a correction, to about 100 bits."""
    r = torch.sqrt(a[0])
    p, e = two_product(r, r)
    return r, (((a[0] - p) - e) + a[1]) / (2 * r)


def quotient(num: Tensor, num_low: Tensor, den: Tensor) -> tuple[Tensor, Tensor]:
    """The quotient (num + num_low) / den as a leading number and its correction, 0 where products overflow."""
    q = num / den
    p, e = two_product(q, den)
    correction = (((num - p) - e) + num_low) / den
    return q, torch.where(torch.isfinite(correction), correction, 0.0)
