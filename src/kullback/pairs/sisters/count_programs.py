"""Sums over counts of functions of log p − log q, by recorded programs; see `expected`, which does so for densities."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.shapes import joint_shape
from kullback.pairs.counting import WINDOW
from kullback.pairs.densities.count_programs import Summand, Terms, count_programs_for
from kullback.pairs.densities.counts import CountLaw
from kullback.pairs.densities.parameter_table import Again, Attached, is_followed
from kullback.pairs.densities.programs import Constant
from kullback.pairs.sisters.atoms import difference, probability
from kullback.pairs.sisters.expected import Known
from kullback.pairs.sisters.term import Term, power_term

# Sums may end where what is left is e^−60 of the largest.
_SISTERS = WINDOW._replace(negligible=60.0)


@dataclasses.dataclass(frozen=True)
class OfTerm:
    """(p + q)·g(r).

    Attributes:
        term: g.
        numbers: Those that it depends on.
    """

    term: Term
    numbers: tuple[Constant, ...] = ()

    def __call__(self, p: CountLaw, q: CountLaw, k: Tensor) -> Terms:
        """At counts."""
        log_p, log_q = p.log_pmf(k), q.log_pmf(k)
        value = (probability(log_p) + probability(log_q)) * self.term(difference(log_p, log_q))
        return value, value < 0, value.detach()


@dataclasses.dataclass(frozen=True)
class OfPower:
    """What makes up (Σ p^(1+a) q^(−a) − 1)/a; see `power_term`."""

    a: float
    numbers: tuple[Constant, ...] = ()

    def __call__(self, p: CountLaw, q: CountLaw, k: Tensor) -> Terms:
        """At counts."""
        log_p, log_q = p.log_pmf(k), q.log_pmf(k)
        r = difference(log_p, log_q)
        value = power_term(log_p, r, self.a) + power_term(log_q, r, self.a)
        return value, value < 0, value.detach()

    def log_size(self, p: CountLaw, q: CountLaw, k: Tensor) -> Tensor:
        """The logarithm of the larger of q and the power."""
        log_p, log_q = p.log_pmf(k), q.log_pmf(k)
        both = (log_p > -math.inf) & (log_q > -math.inf)
        inner_p, inner_q = torch.where(both, log_p, 0.0), torch.where(both, log_q, 0.0)
        power = torch.where(both, inner_p + self.a * (inner_p - inner_q), -math.inf)
        return torch.maximum(log_q, power)


def summed(p: Distribution, q: Distribution, summand: Summand, close: float, again: Again) -> Known | None:
    """The sum over all counts; None where there are no programs.

    Args:
        p: The first law.
        q: The second.
        summand: What is summed.
        close: Below this value the log-ratios of one family need all their digits, which programs do not know.
        again: The sum by torch's operations, for derivatives of derivatives.
    """
    batch, followed = joint_shape(p.batch_shape, q.batch_shape), is_followed(p, q)
    programs = count_programs_for(p, q, summand, _SISTERS, both=True, followed=followed)
    filled = None if programs is None or 0 in batch else programs.fill(p, q, batch)
    if programs is None or filled is None:
        return None
    with torch.no_grad():
        found = programs.sums(filled, None)
        value, slopes = found.value, found.slopes
        lost = found.lost | value.isnan()
        if type(p) is type(q):
            lost = lost | (value < close)
        if slopes is not None:
            lost = lost | ~slopes.isfinite().all(0)
            slopes = torch.where(lost, 0.0, slopes)
    if slopes is not None:
        value = Attached(filled, slopes, (p, q), again).to(value)
    return Known(value, lost, torch.zeros_like(lost))
