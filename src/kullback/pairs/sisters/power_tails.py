"""Whether ∫ p^α q^(1−α) diverges for α > 1: p reaches outside q, or falls too slowly where q falls fast.

Densities of L = log|x| (or of the log of the inverse distance to an end) are compared as in `densities.tails`: the
integrand is e^−(α·P − (α−1)·Q), where P and Q are the growth of −log p and −log q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from kullback.pairs.densities.expectation import Pieces
from kullback.pairs.densities.tails import Kind, Tail
from kullback.pairs.support import equal, less

_FLAT = [Tail(Kind.LOG, 1.0)]


def diverges(pieces: Pieces, alpha: float) -> Tensor | bool:
    """One per batch element, decided on parameters; a component of no weight does not count."""
    found = diverges_anywhere(pieces, alpha)
    if pieces.log_share is None:
        return found.squeeze(-1) if isinstance(found, Tensor) else found
    return (pieces.log_share.isfinite() & found).squeeze(-1).any(-1)


def diverges_anywhere(pieces: Pieces, alpha: float) -> Tensor | bool:
    """The same for each component, with the dimension of the nodes."""
    p, q = pieces.over, pieces.q
    found: Tensor | bool = less(p.lower, q.lower) | less(q.upper, p.upper)
    ends = ((p.lower, q.lower, p.lower_tails, q.lower_tails), (p.upper, q.upper, p.upper_tails, q.upper_tails))
    for end_p, end_q, tails_p, tails_q in ends:
        shared = equal(end_p, end_q)
        # At an end of p inside q's support q is flat.
        found = found | (shared & _any(tails_p, tails_q, alpha)) | (_not(shared) & _any(tails_p, _FLAT, alpha))
    return found


def _any(p: Sequence[Tail], q: Sequence[Tail], alpha: float) -> Tensor | bool:
    found: Tensor | bool = False
    for tail_p in p:
        for tail_q in q:
            here = _too_slow(tail_p, tail_q, alpha)
            for mask in (tail_p.where, tail_q.where):
                here = here if mask is None else mask & here
            found = found | here
    return found


def _too_slow(p: Tail, q: Tail, alpha: float) -> Tensor | bool:
    """Whether α·P − (α−1)·Q stays too small for the integral to converge; for α = ∞ whether P − Q falls for ever."""
    if p.kind != q.kind:
        return p.kind < q.kind
    if p.kind == Kind.EXP:
        return less(p.rate, q.rate)
    if p.kind in (Kind.LOG_ROOT, Kind.LOG_POWER, Kind.POWER):
        slower = less(p.exponent, q.exponent)
        return slower | (equal(p.exponent, q.exponent) & _outweighed(p.rate, q.rate, alpha))
    return _outweighed(p.exponent, q.exponent, alpha)


def _outweighed(p: Tensor | float, q: Tensor | float, alpha: float) -> Tensor | bool:
    if alpha == math.inf:
        return less(p, q)
    left = alpha * p - (alpha - 1) * q
    return less(left, 0.0) | equal(left, 0.0)


def _not(mask: Tensor | bool) -> Tensor | bool:
    return not mask if isinstance(mask, bool) else ~mask
