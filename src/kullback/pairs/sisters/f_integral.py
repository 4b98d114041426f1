"""Divergences Σ p f(q/p) with bounded terms, of two univariate continuous laws."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kullback.pairs.densities.expectation import Pieces, Sample, integral_over
from kullback.pairs.sisters.crossings import crossings
from kullback.pairs.sisters.log_ratio import LogRatio, along_segment, one_family, plain
from kullback.pairs.sisters.meeting import Meeting, log_weight
from kullback.pairs.sisters.term import Term
from kullback.pairs.visible import surely

# Where the divergence is below this, log-ratios are below a hundredth and their differences lose digits.
_CLOSE = 1e-5


class Manner(NamedTuple):
    """How to integrate.

    Attributes:
        close: The value below which the log-ratios of one family are taken along the segment of its parameters.
        corners: Whether the term has a kink where the densities are equal.
    """

    close: float = _CLOSE
    corners: bool = False


def f_divergence(meeting: Meeting, term: Term, manner: Manner = Manner()) -> Tensor:  # noqa: B008 - it is immutable
    """∫ p·g(r) + ∫ q·g(r), from log-ratios that are accurate where p and q are close."""
    p, q = meeting.pair
    if not one_family(p, q):
        return _both(meeting, term, (plain, plain), manner)
    with torch.no_grad():
        near = _both(meeting, term, (plain, plain), None) < manner.close
    ratios = along_segment(p, q), along_segment(q, p)
    if surely(near):
        return _both(meeting, term, ratios, manner)
    value = _both(meeting, term, (plain, plain), manner)
    if surely(~near):
        return value
    return torch.where(near, _both(meeting, term, ratios, manner), value)


def _both(meeting: Meeting, term: Term, ratios: tuple[LogRatio, LogRatio], manner: Manner | None) -> Tensor:
    forward = _one(meeting.over_p, term, ratios[0], manner)
    return forward + _one(meeting.over_q, lambda r: term(-r), ratios[1], manner)


def _one(pieces: Pieces, term: Term, log_ratio: LogRatio, manner: Manner | None) -> Tensor:
    """One expectation; a rough one if nothing is said about the manner."""

    def weighted(sample: Sample) -> Tensor:
        return torch.exp(sample.log_weight) * term(log_ratio(sample))

    breaks = crossings(pieces, log_ratio) if manner is not None and manner.corners else None
    roughly = manner is None
    return integral_over(pieces, weighted, follow_q=True, log_size=log_weight, breaks=breaks, roughly=roughly).value
