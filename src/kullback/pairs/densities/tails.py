"""Whether E_p[log 1/q] diverges at an end of the support: by comparing how p falls with how −log q grows.

At an end let L be log|x| or the log of the inverse distance to the end. −log f, f the density of L, grows there like

    (ν+1)·log L  (LOG_LOG)   <   c·Lᵏ, k < 1  (LOG_ROOT)   <   α·L  (LOG)   <   c·Lᵏ, k > 1  (LOG_POWER)
        <   c·e^(kL) = c·|x|ᵏ  (POWER)   <   e^(c|x|)  (EXP)

which is the tail of p if f is p's density and the growth of the integrand if it is q's. LOG_LOG with ν = ∞ stands for
what falls faster than any power of L and slower than a root in the exponent.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from torch import Tensor

from kullback.pairs.support import equal, less


class Kind(IntEnum):
    """The order of growth of −log f."""

    LOG_LOG = 0
    LOG_ROOT = 1
    LOG = 2
    LOG_POWER = 3
    POWER = 4
    EXP = 5


class Tail(NamedTuple):
    """How a density falls at one end.

    Attributes:
        kind: The order of growth.
        exponent: ν, α or k.
        rate: c, where it matters.
        where: In which batch elements; None for all.
    """

    kind: Kind
    exponent: Tensor | float = 1.0
    rate: Tensor | float = 1.0
    where: Tensor | None = None


def both(a: Tensor | None, b: Tensor | bool) -> Tensor | None:
    """Where two conditions hold, of which the first may be missing and the second may be known."""
    if not isinstance(b, Tensor):
        return a
    return b if a is None else a & b


def diverges(p: Tail, q: Tail) -> Tensor | bool:
    """Whether the expectation of q's growth under p's tail is infinite, at an end which both share."""
    infinite = _compare(p, q)
    for mask in (p.where, q.where):
        if mask is not None and infinite is not False:
            infinite = mask & infinite
    return infinite


def _compare(p: Tail, q: Tail) -> Tensor | bool:
    if p.kind == Kind.LOG_LOG:
        if q.kind == Kind.LOG_LOG or q.kind >= Kind.POWER:
            return q.kind >= Kind.POWER
        return p.exponent <= (1.0 if q.kind == Kind.LOG else q.exponent)
    if q.kind == Kind.POWER:
        return p.exponent <= q.exponent if p.kind == Kind.LOG else p.kind < Kind.LOG
    if q.kind == Kind.EXP:
        if p.kind == Kind.POWER:
            return less(p.exponent, 1.0) | (equal(p.exponent, 1.0) & (p.rate <= q.rate))
        return p.kind < Kind.POWER
    return False
