"""Sums of products and logarithms of quotients of products, where the leading digits cancel.

Two laws of nearly the same mean at a large concentration differ by a few rounding errors of that mean: a·β_q − b·β_p
must then be right to more digits than the products have.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kullback._core.special._double_double import two_product, two_sum
from kullback.pairs.ratios import log_ratio
from kullback.special import expm1mx, kl_div

# Products beyond these are compared by their factors' logarithms.
_SMALL, _LARGE = 1e-280, 1e280


def sum_of_products(*terms: tuple[Tensor, Tensor]) -> Tensor:
    """Σ xᵢ·yᵢ as if computed in twice the precision and rounded once.

    References:
        Ogita, Rump, Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26 (2005), algorithm Dot2.
    """
    products = [x * y for x, y in terms]
    parts = [two_product(x.detach(), y.detach()) for x, y in terms]
    total, error = parts[0]
    for product, low in parts[1:]:
        total, lost = two_sum(total, product)
        error = error + (low + lost)
    return corrected(sum(products[1:], products[0]), total + error)


def corrected(plain: Tensor, better: Tensor) -> Tensor:
    """The second number with the derivatives of the first, the plain formula for the same."""
    correction = (better - plain).detach()
    return plain + torch.where(correction.isfinite(), correction, 0.0)


def log_quotient(x: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """log(x·y / (a·b)) of positive numbers, relatively accurate where the two products are nearly equal."""
    base = a * b
    difference = sum_of_products((x, y), (-a, b))
    near = (difference.abs() <= 0.5 * base) & (base > _SMALL) & (base < _LARGE)
    relative = torch.where(near, difference, 0.0) / torch.where(near, base, 1.0)
    return torch.where(near, torch.log1p(relative), log_ratio(x, a) + log_ratio(y, b))


def mean_term(b: Tensor, mean: Tensor, log_over_b: Tensor) -> Tensor:
    """b·log(b/M) − b + M ≥ 0, the cost of a mean M other than b, given M and log(M/b).

    Near M = b the logarithm knows the difference best; far from it M must not be built from b, or the derivative to b
    would be a difference of two terms of size M.
    """
    near = log_over_b.abs() < 0.5
    close = b * expm1mx(torch.where(near, log_over_b, 0.0))
    return torch.where(near, close, kl_div(b, torch.where(near, torch.ones_like(mean), mean)))


def settled(value: Tensor) -> Tensor:
    """A value that overflows is infinite and, like every infinite element, carries no gradient."""
    return torch.where(value.isinf(), torch.inf, value)
