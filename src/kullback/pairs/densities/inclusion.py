"""Where KL(p ‖ q) is infinite: p reaches outside q, or the tails let the expectation diverge."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kullback.pairs.densities.far_out import does_not_fall
from kullback.pairs.densities.placing import Pieces
from kullback.pairs.densities.tails import Tail, diverges
from kullback.pairs.support import equal, less


def is_infinite(pieces: Pieces) -> Tensor | bool:
    """Decided on parameters, one per batch element; a component of no weight does not count."""
    found = outside(pieces)
    if pieces.over.unsure or pieces.q.unsure:
        found = found | does_not_fall(pieces)
    if pieces.log_share is None:
        return found.squeeze(-1) if isinstance(found, Tensor) else found
    return (pieces.log_share.isfinite() & found).squeeze(-1).any(-1)


def outside(pieces: Pieces) -> Tensor | bool:
    """Whether p, or a component of it, reaches outside q or has tails that q's growth is too strong for."""
    p, q = pieces.over, pieces.q
    found: Tensor | bool = less(p.lower, q.lower) | less(q.upper, p.upper)
    ends = ((p.lower, q.lower, p.lower_tails, q.lower_tails), (p.upper, q.upper, p.upper_tails, q.upper_tails))
    for end_p, end_q, tails_p, tails_q in ends:
        found = found | (equal(end_p, end_q) & _diverge(tails_p, tails_q))
    return found


def same_support(pieces: Pieces) -> Tensor | bool:
    """Whether p and q live on the same interval."""
    same = same_ends(pieces)
    if not isinstance(same, Tensor):
        return same
    return same.squeeze(-1) if pieces.log_share is None else same.flatten(-2).squeeze(-1)


def same_ends(pieces: Pieces) -> Tensor | bool:
    """The same with the dimension of the nodes."""
    p, q = pieces.p, pieces.q
    return equal(p.lower, q.lower) & equal(p.upper, q.upper)


def _diverge(p: Sequence[Tail], q: Sequence[Tail]) -> Tensor | bool:
    """Whether any tail of p meets growth of q that is too strong; of a mixture q the slowest growth counts."""
    found: Tensor | bool = False
    for tail_p in p:
        for tail_q in q:
            found = found | diverges(tail_p, tail_q)
    return found
