"""Two univariate laws as both see each other: integrals over either, with the other's density 0 where it does not live.

An integral for KL never leaves q's support, so a law's density is only right inside its own. Here p may reach beyond q.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.pairs.densities.expectation import Pieces, Sample, pieces_of
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.point import Point
from kullback.pairs.support import Bound

# −log of a density that is 0, beyond whatever can be made of it.
_NOWHERE = 1e100


class Meeting(NamedTuple):
    """A pair of laws.

    Attributes:
        over_p: For integrals over p.
        over_q: For integrals over q; the roles are exchanged, so that its first law is q.
        pair: The distributions themselves.
    """

    over_p: Pieces
    over_q: Pieces
    pair: tuple[Distribution, Distribution]


def meet(p: Distribution, q: Distribution) -> Meeting:
    """Describe both laws, each by its own coordinate."""
    return Meeting(_guarded(pieces_of(p, q)), _guarded(pieces_of(q, p)), (p, q))


def _guarded(pieces: Pieces) -> Pieces:
    return pieces._replace(q=_everywhere(pieces.q, pieces.p), part=None)


def _everywhere(law: Law, other: Law) -> Law:
    """The law with a density on the whole line; its ends are kinks for a law that reaches beyond them."""
    beyond = [(law.lower, 1.0, _less(other.lower, law.lower)), (law.upper, -1.0, _less(law.upper, other.upper))]
    ends = [(end, sign) for end, sign, reached in beyond if isinstance(end, Tensor) and reached is not False]
    if not ends:
        return law

    def log_density(point: Point) -> LogDensity:
        level, drop, _ = law.log_density(point)
        outside = torch.zeros_like(level, dtype=torch.bool)
        for end, sign in ends:
            outside = outside | (sign * point.standard(end, torch.ones_like(end))[0] < 0)
        total = level if drop is None else level - drop
        return LogDensity(torch.where(outside, -_NOWHERE, total))

    return law._replace(log_density=log_density, kinks=(*law.kinks, *(end for end, _ in ends)))


def _less(a: Bound, b: Bound) -> Tensor | bool:
    return a < b


def disjoint(meeting: Meeting) -> Tensor | bool:
    """Where p and q have no point in common, decided on parameters."""
    p, q = meeting.over_p.p, meeting.over_p.q
    apart: Tensor | bool = _no_more(p.upper, q.lower) | _no_more(q.upper, p.lower)
    if not isinstance(apart, Tensor):
        return apart
    return apart.squeeze(-1) if meeting.over_p.log_share is None else apart.flatten(-2).squeeze(-1)


def _no_more(a: Bound, b: Bound) -> Tensor | bool:
    return a <= b


def log_weight(sample: Sample) -> Tensor:
    """The size of a bounded integrand: that of p itself."""
    return sample.log_weight
