"""Divergences Σ p f(q/p) with bounded terms, and total variation, of two univariate continuous laws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.pairs.densities.expectation import Pieces, Sample, integral_over
from kullback.pairs.densities.log_ratio import closable, ratio_of
from kullback.pairs.densities.meeting import at_some, disjoint, log_weight, seen_from, share_nothing
from kullback.pairs.densities.nesting import as_mixture
from kullback.pairs.densities.programs import Constant, Setting
from kullback.pairs.sisters.crossings import crossings
from kullback.pairs.sisters.expected import Asked, Known, expected
from kullback.pairs.sisters.term import Term, excess
from kullback.pairs.support import less, no_more
from kullback.pairs.visible import hidden, surely

# Where the divergence is below this, log-ratios are below a hundredth and their differences lose digits; total
# variation is of first order in them.
CLOSE, FIRST_ORDER_CLOSE = 1e-5, 1e-3

Once = Callable[..., tuple[Tensor, Pieces]]
_SETTING = Setting(share_nothing, beyond=True)


@dataclasses.dataclass(frozen=True)
class Weighted:
    """What is integrated over one law: its density times a term.

    Attributes:
        term: The term.
        sign: That of the log-ratio in it.
        numbers: Those that the term depends on.
    """

    term: Term
    sign: float
    numbers: tuple[Constant, ...] = ()

    def __call__(self, sample: Sample) -> Tensor:
        """The integrand times the weight of a node."""
        r = ratio_of(sample)
        return torch.exp(sample.log_weight) * self.term(r if self.sign > 0 else -r)

    def again(self, p: Distribution, q: Distribution) -> Tensor:
        """The integral by torch's operations, with all digits of log-ratios."""
        pieces = seen_from(p, q, closely=closable(p, q))
        return integral_over(pieces, self, follow_q=True, log_size=log_weight, apart=True).value

    def asked(self) -> Asked:
        """The integral as programs take it."""
        return Asked(self, log_weight, _SETTING, self.again)


def f_by_programs(p: Distribution, q: Distribution, term: Term, *numbers: float) -> Known | None:
    """∫ p·g(r) + ∫ q·g(r); None where there are no programs."""
    constants = tuple(Constant(number) for number in numbers)
    over_p, over_q = (Weighted(term, sign, constants).asked() for sign in (1.0, -1.0))
    return expected(p, q, over_p, over_q, CLOSE)


def f_divergence(p: Distribution, q: Distribution, term: Term) -> tuple[Tensor, Tensor | bool]:
    """The same by torch's operations, and where p and q share nothing."""

    def once(*, closely: bool = False, index: Tensor | None = None) -> tuple[Tensor, Pieces]:
        pieces = seen_from(p, q, closely=closely, index=index)
        back = _expected(seen_from(q, p, closely=closely, index=index), Weighted(term, -1.0))
        return _expected(pieces, Weighted(term, 1.0)) + back, pieces

    return _looked_at_closely(p, q, once, CLOSE)


def _expected(pieces: Pieces, weighted: Weighted) -> Tensor:
    return integral_over(pieces, weighted, follow_q=True, log_size=log_weight, apart=True).value


_EXCESS = Weighted(excess, 1.0)
_CROSSING = Setting(share_nothing, beyond=True, crossings=True)


def distance_by_programs(p: Distribution, q: Distribution) -> Known | None:
    """∫ (p − q)⁺, an expectation under p alone; None where there are no programs."""
    p, q = _in_order(p, q)
    return expected(p, q, Asked(_EXCESS, log_weight, _CROSSING, _excess_over), None, FIRST_ORDER_CLOSE)


def _excess_over(p: Distribution, q: Distribution) -> Tensor:
    return _excess(seen_from(p, q, closely=closable(p, q)))


def _excess(pieces: Pieces) -> Tensor:
    breaks = crossings(pieces)
    return integral_over(pieces, _EXCESS, follow_q=True, log_size=log_weight, breaks=breaks, apart=True).value


def _in_order(p: Distribution, q: Distribution) -> tuple[Distribution, Distribution]:
    """The law that integrals are taken over first.

    A mixture is better the other law, and so is one that reaches beyond the ends of the first: whatever that does next
    to its ends it does in its own coordinate.
    """
    if as_mixture(q) is None and (as_mixture(p) is not None or _reaches_beyond(p, q)):
        return q, p
    return p, q


def distance(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor | bool]:
    """The same by torch's operations, and where p and q share nothing."""
    p, q = _in_order(p, q)

    def once(*, closely: bool = False, index: Tensor | None = None) -> tuple[Tensor, Pieces]:
        pieces = seen_from(p, q, closely=closely, index=index)
        return _excess(pieces), pieces

    return _looked_at_closely(p, q, once, FIRST_ORDER_CLOSE)


def _reaches_beyond(p: Distribution, q: Distribution) -> bool:
    """Whether q is known to live on a part of where p does."""
    pieces = seen_from(p, q)
    (lower_p, upper_p), (lower_q, upper_q) = ((law.lower, law.upper) for law in (pieces.p, pieces.q))
    inside = no_more(lower_p, lower_q) & no_more(upper_q, upper_p)
    smaller = less(lower_p, lower_q) | less(upper_q, upper_p)
    return all(mask if isinstance(mask, bool) else surely(mask) for mask in (inside, smaller))


def _looked_at_closely(p: Distribution, q: Distribution, once: Once, close: float) -> tuple[Tensor, Tensor | bool]:
    """The value, from log-ratios with all their digits where p and q are close, and where they share nothing."""
    served = closable(p, q)
    value, pieces = once(closely=served and hidden())
    apart = disjoint(pieces)
    near = value.detach() < close
    if not served or hidden() or surely(~near):
        return value, apart
    if surely(near) or near.ndim == 0:
        return once(closely=True)[0], apart
    index = near.flatten().nonzero().squeeze(-1)
    return at_some(index, value, once(closely=True, index=index)[0]), apart
