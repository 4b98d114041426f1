"""Σ p log(p/q) - p + q of rows that need not be normalised.

With d = log q - log p every term is p φ(d) >= 0, φ(x) = e^x - 1 - x, or q where p is zero. The derivatives are
-p d with respect to log p and q - p = p expm1(d) with respect to log q.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.exponential import expm1mx
from kullback.kernels.sides import Side, both, where


class _Terms(NamedTuple):
    p: Tensor  # measures, zero outside their supports
    q: Tensor
    d: Tensor  # log q - log p where both are positive, else zero
    infinite: Tensor | None


def generalized_kl_value(p: Side, q: Side) -> Tensor:
    """Σ p log(p/q) - p + q per row; infinite where q is zero and p is not."""
    m = _measures(p, q)
    large = m.d > 1
    near = m.p * expm1mx(torch.where(large, 0.0, m.d))
    terms = where(p.support, torch.where(large, m.q - m.p * (1 + m.d), near), m.q)
    total = terms.sum(-1)
    return total if m.infinite is None else torch.where(m.infinite.squeeze(-1), torch.inf, total)


def generalized_kl_gradients(needs: Sequence[bool], p: Side, q: Side) -> tuple[Tensor | None, Tensor | None]:
    """The derivatives with respect to logits, or to weights where a side is linear."""
    m = _measures(p, q)
    to_p = to_q = None
    if needs[0]:
        to_p = where(p.support, -m.d if p.weight is not None else -m.p * m.d, 0.0)
    if needs[1] and q.weight is not None:
        to_q = where(p.support, -torch.expm1(-m.d), 1.0)
    elif needs[1]:
        large = m.d > 1
        near = m.p * torch.expm1(torch.where(large, 0.0, m.d))
        to_q = where(q.support, where(p.support, torch.where(large, m.q - m.p, near), m.q), 0.0)
    if m.infinite is not None:
        to_p = None if to_p is None else torch.where(m.infinite, 0.0, to_p)
        to_q = None if to_q is None else torch.where(m.infinite, 0.0, to_q)
    return to_p, to_q


def _measures(p: Side, q: Side) -> _Terms:
    shared = both(p.support, q.support)
    d, low = p.difference(where(shared, q.log, 0.0), where(shared, p.log, 0.0))
    for correction, sign in ((low, 1), (q.low, 1), (p.low, -1)):
        d = d if correction is None else d + sign * correction
    infinite = None
    if q.support is not None:
        missing = ~q.support if p.support is None else p.support & ~q.support
        infinite = missing.any(-1, keepdim=True)
    return _Terms(_measure(p), _measure(q), where(shared, d, 0.0), infinite)


def _measure(side: Side) -> Tensor:
    if side.weight is not None:
        return side.weight
    return where(side.support, torch.exp(where(side.support, side.log, 0.0)), 0.0)
