"""Nodes and weights of Gauss–Legendre quadrature on [0, 1]."""

from __future__ import annotations

import functools
import math
from decimal import Decimal, localcontext
from typing import NamedTuple


class Rule(NamedTuple):
    """A quadrature on [0, 1], as plain numbers: tensors of them are made where their dtype and device are known.

    Attributes:
        nodes: Where the integrand is evaluated, ascending.
        weights: What its values are multiplied by; their sum is 1.
    """

    nodes: tuple[float, ...]
    weights: tuple[float, ...]


@functools.cache
def gauss_legendre(count: int) -> Rule:
    """The rule that integrates polynomials of degree 2·count − 1 exactly, every number rounded correctly.

    The nodes are the roots of P_n, found by Newton's iteration in 30 digits; the weights on [−1, 1] are
    2/((1 − x²)·P_n′(x)²), of which double precision would lose two digits at the ends. To be called on import, as a
    constant of the module that integrates: Dynamo, which follows the functions that use the rule, must not follow this
    one.

    Example:
        >>> nodes, weights = gauss_legendre(3)
        >>> abs(sum(w * t**5 for t, w in zip(nodes, weights)) - 1 / 6) < 1e-16
        True
    """
    with localcontext() as context:
        context.prec = 30
        pairs = [_node(count, index) for index in range(count)]
    nodes, weights = zip(*pairs, strict=True)
    return Rule(nodes, weights)


def _node(count: int, index: int) -> tuple[float, float]:
    """A node on [0, 1], counted from 0, and its weight."""
    x = -Decimal(math.cos(math.pi * (index + 0.75) / (count + 0.5)))
    for _ in range(5):
        value, slope = _legendre(count, x)
        x -= value / slope
    slope = _legendre(count, x)[1]
    return float((1 + x) / 2), float(1 / ((1 - x * x) * slope * slope))


def _legendre(count: int, x: Decimal) -> tuple[Decimal, Decimal]:
    """P_n(x) and P_n′(x) by the three-term recurrence, −1 < x < 1."""
    before, value = Decimal(1), x
    for k in range(2, count + 1):
        before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
    return value, count * (before - x * value) / (1 - x * x)
