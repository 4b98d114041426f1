"""What is known of log x for x uniform on an interval of the half-line: minus an exponential variable, cut off.

With Λ = log(high/low), s = log(high/x) has the density e^(−s)/(1 − e^(−Λ)) on [0, Λ], a ContinuousBernoulli on another
scale: the moments are those of B(η) = log(sinh(η/2)/(η/2)) at η = Λ, the excess its Bregman divergence to Λ·(1 + c).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.special._derivatives import attach, split_point
from kullback.pairs.log_sinhc import log_sinhc, log_sinhc_bregman
from kullback.pairs.parameters import read
from kullback.pairs.positive.law import Excess, LogLaw, excess_of
from kullback.pairs.ratios import log_ratio
from kullback.special import log1mexp

# An interval from 0: e^(−800) is 0 to everything here. Its gradient to the lower end, infinite in truth, is 0.
_ENDLESS = 800.0


def of_uniform(p: Distribution) -> LogLaw:
    """Elements with a negative end are computed as if on [1, 2]; their divergence is infinite."""
    low, high = read(p, "low", "high")
    inside = low >= 0
    some = low > 0
    high = torch.where(inside, high, 2.0)
    reach = log_ratio(high, torch.where(some, low, 1.0))
    length = torch.where(some, reach, torch.where(inside, _ENDLESS, math.log(2)))
    spread = _spread(length)

    def excess(c: Tensor) -> Excess:
        divergence = _bregman(length, length * (1 + c), (length * c).detach())
        return excess_of(2 * divergence / (c * c * spread), ~inside | some | (c > -1))

    # E s = 1 − Λ/(e^Λ − 1); the entropy of s is E s + log(1 − e^(−Λ)).
    drop = 1 - length * torch.exp(-length) / -torch.expm1(-length)
    entropy = drop + log1mexp(-length)
    negentropy = (math.log(2 * math.pi) + 1 + torch.log(spread)) / 2 - entropy
    zero = torch.zeros_like(spread)
    return LogLaw(torch.log(high) - drop, torch.sqrt(spread), 1 / spread, zero, negentropy, excess)


def _spread(length: Tensor) -> Tensor:
    """Var s = Λ²·B″(Λ)."""
    point, step = split_point(length)
    bend, third, fourth = (log_sinhc(point, order) for order in (2, 3, 4))
    return length * length * attach(bend, [step], [third], [fourth])


def _bregman(start: Tensor, stop: Tensor, difference: Tensor) -> Tensor:
    """B(stop) − B(start) − difference·B′(start), with its derivatives."""
    start, stop, difference = torch.broadcast_tensors(start, stop, difference)  # type: ignore[no-untyped-call]
    (a, a_step), (b, b_step) = split_point(start), split_point(stop)
    value, rise = log_sinhc_bregman(a, b, difference)
    bend_a, third_a, bend_b = log_sinhc(a, 2), log_sinhc(a, 3), log_sinhc(b, 2)
    first = (-difference * bend_a, rise)
    return attach(value, [a_step, b_step], first, (bend_a - difference * third_a, -bend_a, bend_b))
