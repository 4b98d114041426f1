"""Σ p f(q/p) with every term non-negative, for a convex f with f(1) = f'(1) = 0.

Any divergence of this form can be given such an f: adding c (t - 1) to f adds c Σ (q - p) = 0. The terms are then
quadratic in log q/p, so nothing cancels when p ≈ q, in the value or in the gradient.

A term is evaluated from the larger of its two probabilities, m, and x = -|log q/p| <= 0, so that nothing overflows:

    p f(q/p) = p f(eˣ) where p >= q,    q f*(eˣ) where q > p,    f*(s) = s f(1/s).

Where one of the two is zero the term is p f(0) or q f*(0). If that is infinite, so is the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.kernels.f_rows.pair import Frozen, Pair, read_pair
from kullback.kernels.sides import Side


class Larger(NamedTuple):
    """The larger probability of a class and how far below it the other one is."""

    m: Tensor
    log_m: Tensor
    x: Tensor


Half = Callable[[Larger], Tensor]


class Generator(NamedTuple):
    """A function f with f(1) = f'(1) = 0.

    Attributes:
        from_p: m f(eˣ).
        from_q: m f*(eˣ); None where f* = f, as for every symmetric divergence.
        only_p: f(0), the term per unit of p where q is zero.
        only_q: f*(0), the term per unit of q where p is zero.
        slope_p: The derivative with respect to p at p = 0 < q, f*'(0); None where it is infinite.
        slope_q: The derivative with respect to q at q = 0 < p, f'(0); None where it is infinite.
    """

    from_p: Half
    from_q: Half | None
    only_p: float
    only_q: float
    slope_p: float | None
    slope_q: float | None

    @property
    def frozen(self) -> Frozen:
        """Where the derivative at zero is infinite."""
        return Frozen(self.slope_p is None, self.slope_q is None, self.only_p == math.inf, self.only_q == math.inf)


def f_divergence(p: Side, q: Side, generator: Generator) -> Tensor:
    """Σ p f(q/p) per row; an infinite row has zero gradient."""
    pair = read_pair(p, q, generator.frozen)
    infinite = infinite_rows(pair, generator)
    rows = sum_terms(pair, generator)
    return rows if infinite is None else torch.where(infinite, torch.inf, rows)


def infinite_rows(pair: Pair, generator: Generator) -> Tensor | None:
    """Rows with a class that only one side has and that counts infinitely."""
    found = None
    if generator.only_p == math.inf:
        found = (pair.in_p & ~pair.in_q).any(-1)
    if generator.only_q == math.inf:
        other = (pair.in_q & ~pair.in_p).any(-1)
        found = other if found is None else found | other
    return found


def sum_terms(pair: Pair, generator: Generator) -> Tensor:
    """Σ p f(q/p) per row without the infinite terms."""
    shared = pair.in_p & pair.in_q
    return torch.where(shared, _inside(pair, generator), _outside(pair, generator)).sum(-1)


def _inside(pair: Pair, generator: Generator) -> Tensor:
    # Not -|d|: its derivative at a tie is 0, which would lose the curvature there.
    p_larger = pair.log_ratio <= 0
    x = torch.where(p_larger, pair.log_ratio, -pair.log_ratio)
    m, log_m = torch.where(p_larger, pair.p, pair.q), torch.where(p_larger, pair.log_p, pair.log_q)
    if generator.from_q is None:
        return generator.from_p(Larger(m, log_m, x))
    from_p = generator.from_p(Larger(m, log_m, torch.where(p_larger, x, 0.0)))
    from_q = generator.from_q(Larger(m, log_m, torch.where(p_larger, 0.0, x)))
    return torch.where(p_larger, from_p, from_q)


def _outside(pair: Pair, generator: Generator) -> Tensor:
    only_p, only_q = (0.0 if v == math.inf else v for v in (generator.only_p, generator.only_q))
    where_q_is_zero = pair.p * only_p + (generator.slope_q or 0.0) * pair.zero_q
    where_p_is_zero = pair.q * only_q + (generator.slope_p or 0.0) * pair.zero_p
    both_zero = only_p * pair.zero_p + only_q * pair.zero_q
    return torch.where(pair.in_p, where_q_is_zero, torch.where(pair.in_q, where_p_is_zero, both_zero))
