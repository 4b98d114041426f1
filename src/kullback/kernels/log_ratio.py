"""Two sides as normalised probabilities and their log-ratio, without history.

With u = log q - log p of the weights as they are given, kept exactly, and D the log-ratio of their sums,

    d = log q/p = u - D,

D being corrected until Σ (q - p) = 0, each term of which is the larger of the two times 1 - e^-|d|. So d is known to a
rounding of itself and of the typical d, however close p and q are and whatever a single class does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kullback.kernels.sides import Side, where

_LARGE = 1000.0


class Normalised(NamedTuple):
    """Of a side without history; the log of the sum of its weights is top + log_total."""

    probs: Tensor
    log_probs: Tensor
    top: Tensor
    log_total: Tensor


class Related(NamedTuple):
    """Everything per class, finite everywhere, zero where it has no meaning; classes last.

    Attributes:
        p: The normalised side.
        q: The other one.
        in_p: The support of p.
        in_q: The support of q.
        log_ratio: log q - log p, on the common support.
        given: The same of the weights as they are given, an unevaluated sum: its differences are exact.
    """

    p: Normalised
    q: Normalised
    in_p: Tensor
    in_q: Tensor
    log_ratio: Tensor
    given: tuple[Tensor, Tensor]


def relate(p: Side, q: Side) -> Related:
    """Normalise two sides and relate them."""
    in_p, in_q = _support(p), _support(q)
    p0, q0 = level(_without_history(p)), level(_without_history(q))
    values = _normalise(p0), _normalise(q0)
    given = _given_ratio(p0, q0, in_p & in_q)
    return Related(*values, in_p, in_q, _log_ratio(p0, given, values, (in_p, in_q)), given)


def level(side: Side) -> Side:
    """Take a large common shift out of log-weights: u would be rounded at its size.

    Small ones stay: next to them a log-weight near zero may have digits that its distance from the largest has not.
    """
    if side.weight is not None:
        return side
    top = side.log.amax(-1, keepdim=True).detach()
    large = (top.abs() > _LARGE) & top.isfinite()
    if side.visible and not bool(large.any()):
        return side
    log, low = side.difference(where(side.support, side.log, 0.0), torch.where(large, top, 0.0))
    if side.low is not None:
        low = side.low if low is None else side.low + low
    return side._replace(log=where(side.support, log, -torch.inf), low=low)


def _support(side: Side) -> Tensor:
    return torch.ones_like(side.log, dtype=torch.bool) if side.support is None else side.support


def _without_history(side: Side) -> Side:
    return side._replace(log=side.log.detach(), weight=None if side.weight is None else side.weight.detach())


def _given_ratio(p: Side, q: Side, shared: Tensor) -> tuple[Tensor, Tensor]:
    high, low = p.difference(torch.where(shared, q.log, 0.0), torch.where(shared, p.log, 0.0))
    low = torch.zeros_like(high) if low is None else low
    for correction, sign in ((q.low, 1.0), (p.low, -1.0)):
        low = low if correction is None else low + sign * torch.where(shared, correction, 0.0)
    return high, low


def _log_ratio(
    p: Side, given: tuple[Tensor, Tensor], values: tuple[Normalised, Normalised], supports: tuple[Tensor, Tensor]
) -> Tensor:
    """The difference u - D on the common support, else 0."""
    (of_p, of_q), (in_p, in_q) = values, supports
    shared = in_p & in_q
    gap, gap_low = p.difference(of_q.top, of_p.top)
    totals = of_q.log_total - of_p.log_total
    rest = totals if gap_low is None else totals + gap_low
    alone = torch.where(in_p, -of_p.probs, of_q.probs)
    high, low = given[0] - gap, given[1] - rest
    for _ in range(3):
        v = torch.where(shared, high + low, 0.0)
        excess = torch.where(v > 0, of_q.probs, -of_p.probs) * -torch.expm1(-v.abs())
        # One after the other: of a class that has all but a trace the corrections leave more digits than their sum has.
        low = low - torch.log1p(torch.where(shared, excess, alone).sum(-1, keepdim=True))
    return torch.where(shared, high + low, 0.0)


def _normalise(side: Side) -> Normalised:
    top = side.log.amax(-1, keepdim=True)
    shifted, low = side.difference(where(side.support, side.log, top), top)
    weight = torch.exp(shifted)
    for correction in (low, side.low):
        weight = weight if correction is None else weight * (1 + correction)
    weight = where(side.support, weight, 0.0)
    total = weight.sum(-1, keepdim=True)
    log_total = torch.log(total)
    return Normalised(weight / total, where(side.support, shifted - log_total, 0.0), top, log_total)
