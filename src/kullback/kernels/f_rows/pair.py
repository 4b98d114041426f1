"""Two sides as normalised probabilities and their log-ratio: what every divergence of this folder is a function of.

Values and derivatives come by different roads. The values are computed without history (`log_ratio`). The derivatives
are those of log-softmax (of log w - log Σw where the side holds weights), hung on a displacement that is zero:
s = l - l.detach(). So

    p = p₀ eˢ,    d = d₀ + s_q - s_p

have the accurate values and the exact derivatives of any order, and no branch that was not taken reaches a gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kullback.kernels.log_ratio import relate
from kullback.kernels.sides import Side


class Frozen(NamedTuple):
    """Where the derivative with respect to a weight of zero is infinite, and 0 is returned instead.

    Attributes:
        p: At p = 0 < q, to p.
        q: At q = 0 < p, to q.
        p_alone: At p = q = 0, to p.
        q_alone: At p = q = 0, to q.
    """

    p: bool
    q: bool
    p_alone: bool
    q_alone: bool

    def swapped(self) -> Frozen:
        """The same with p and q in each other's place."""
        return Frozen(self.q, self.p, self.q_alone, self.p_alone)


class Pair(NamedTuple):
    """Everything per class, finite everywhere, zero where it has no meaning; classes last.

    Attributes:
        p: Probabilities.
        q: Probabilities.
        log_p: Their logarithms, on the support of p.
        log_q: Their logarithms, on the support of q.
        log_ratio: log q - log p, on the common support.
        given: The same of the weights as they are given, an unevaluated sum without history: its differences are exact.
        in_p: The support of p.
        in_q: The support of q.
        zero_p: Zeros that carry the derivative of a probability that is zero, for a side of weights.
        zero_q: The same for q.
        tie: How small a log-ratio may be to be rounding of a tie.
    """

    p: Tensor
    q: Tensor
    log_p: Tensor
    log_q: Tensor
    log_ratio: Tensor
    given: tuple[Tensor, Tensor]
    in_p: Tensor
    in_q: Tensor
    zero_p: Tensor | float
    zero_q: Tensor | float
    tie: Tensor

    def swapped(self) -> Pair:
        """The pair (q, p)."""
        given = -self.given[0], -self.given[1]
        return Pair(self.q, self.p, self.log_q, self.log_p, -self.log_ratio, given, self.in_q, self.in_p,
                    self.zero_q, self.zero_p, self.tie)  # fmt: skip


class _Steps(NamedTuple):
    """Zeros that carry the derivatives of log-probabilities, and of probabilities that are zero."""

    log: Tensor
    zero: Tensor | float


def read_pair(p: Side, q: Side, frozen: Frozen) -> Pair:
    """Normalise two sides and relate them."""
    related = relate(p, q)
    in_p, in_q = related.in_p, related.in_q
    shared = in_p & in_q

    steps_p = _steps(p, in_p, torch.where(in_q, frozen.p, frozen.p_alone) & ~in_p)
    steps_q = _steps(q, in_q, torch.where(in_p, frozen.q, frozen.q_alone) & ~in_q)
    return Pair(
        related.p.probs * torch.exp(steps_p.log),
        related.q.probs * torch.exp(steps_q.log),
        related.p.log_probs + steps_p.log,
        related.q.log_probs + steps_q.log,
        related.log_ratio + torch.where(shared, steps_q.log - steps_p.log, 0.0),
        related.given,
        in_p,
        in_q,
        steps_p.zero,
        steps_q.zero,
        _tie(p, q, related.p.probs, related.log_ratio),
    )


def _steps(side: Side, support: Tensor, frozen: Tensor) -> _Steps:
    if side.visible and not torch.is_grad_enabled():
        return _Steps(torch.zeros((), dtype=side.log.dtype, device=side.log.device), 0.0)
    if side.weight is None:
        # From the distances to the heaviest class, so that its own derivative is a sum over the others: as the
        # difference of 1 and its probability it would be lost where that is nearly 1.
        peak = side.log.detach().argmax(-1, keepdim=True)
        top = side.log.gather(-1, peak)
        others = support.expand_as(side.log).scatter(-1, peak, False)
        below = torch.where(others, torch.where(others, side.log, top.detach()) - top, 0.0)
        log = below - torch.log1p(torch.where(others, torch.exp(below), 0.0).sum(-1, keepdim=True))
        return _Steps(torch.where(support, log - log.detach(), 0.0), 0.0)
    weight = torch.where(frozen, 0.0, side.weight)
    total = weight.sum(-1, keepdim=True)
    # Below the smallest normal number 1/w overflows.
    safe = weight >= torch.finfo(weight.dtype).tiny
    log = torch.log(torch.where(safe, weight, 1.0)) - torch.log(total)
    return _Steps(torch.where(support, log - log.detach(), 0.0), torch.where(support, 0.0, weight) / total)


def _tie(p: Side, q: Side, probs: Tensor, ratio: Tensor) -> Tensor:
    """The rounding of a log-ratio; equal weights of two sides also tie if their sums agree to float32 rounding."""
    typical = (probs * ratio.abs()).sum(-1, keepdim=True)
    rounding = 4 * torch.finfo(ratio.dtype).eps * typical
    if p.weight is None or q.weight is None:
        return rounding
    return torch.where(p.weight == q.weight, 2.0**-21 * typical, rounding)
