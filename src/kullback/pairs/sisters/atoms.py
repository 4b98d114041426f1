"""Two laws on the same finitely many outcomes: probabilities, log-ratios, and sums over them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, OneHotCategorical

from kullback._core.shapes import check_class_counts
from kullback.kernels.row_op import RowOp
from kullback.kernels.sides import Encoding
from kullback.pairs.outcomes import Chance, chance, log_change_of_success
from kullback.pairs.parameters import gives_logits
from kullback.pairs.sisters.term import Term, power_term

# The log-ratio of something to nothing.
_BEYOND = 1e100
# Above this |log Σ| nothing cancels in it.
_FAR = 0.5


class Atoms(NamedTuple):
    """Outcomes in the last dimension.

    Attributes:
        log_p: Logarithms of their probabilities under p, -inf where there is none.
        log_q: Under q.
        r: log p − log q, astronomic where one of them has none, 0 where both.
    """

    log_p: Tensor
    log_q: Tensor
    r: Tensor

    def sum_of(self, term: Term) -> Tensor:
        """Σ (p + q)·g(r)."""
        return ((probability(self.log_p) + probability(self.log_q)) * term(self.r)).sum(-1)

    def exchanged(self) -> Atoms:
        """The same with p and q in each other's place."""
        return Atoms(self.log_q, self.log_p, -self.r)

    def renyi(self, alpha: float) -> Tensor:
        """The divergence log(Σ p^α q^(1−α))/(α−1) and its limits; see `power_integral`."""
        if 0 < alpha < 0.5:
            # 1 − α would be rounded, and the order less 1, which is −α, with it.
            return alpha / (1 - alpha) * self.exchanged()._power(-alpha)
        if alpha == 0:
            return self._missing()
        if alpha == torch.inf:
            in_p, in_q = self.log_p > -torch.inf, self.log_q > -torch.inf
            outside = (in_p & ~in_q).any(-1)
            most = torch.where(in_p & in_q, self.r, -torch.inf).amax(-1)
            return torch.where(outside, torch.inf, torch.where(outside, 0.0, most).clamp_min(0.0))
        return self._power(alpha - 1)

    def _missing(self) -> Tensor:
        """−log of what q has of the outcomes of p, by what it lacks while that is the smaller part."""
        in_p, shared = self.log_p > -torch.inf, (self.log_p > -torch.inf) & (self.log_q > -torch.inf)
        some = shared.any(-1)
        lost = torch.where(in_p, 0.0, probability(self.log_q)).sum(-1)
        little = lost.detach() < 0.5
        near = -torch.log1p(-torch.where(little, lost, 0.0))
        log_kept = torch.logsumexp(torch.where(some.unsqueeze(-1) & ~shared, -torch.inf, self.log_q), -1)
        value = torch.where(little, near, -torch.where(some & ~little, log_kept, 0.0))
        return torch.where(some, value, torch.inf)

    def _power(self, a: float) -> Tensor:
        """log(Σ p^(1+a) q^(−a))/a."""
        in_p, in_q = self.log_p > -torch.inf, self.log_q > -torch.inf
        outside, shared = (in_p & ~in_q).any(-1), in_p & in_q
        some = shared.any(-1)
        powers = torch.where(shared, self.log_p + a * torch.where(shared, self.r, 0.0), -torch.inf)
        log_sum = torch.logsumexp(torch.where(some.unsqueeze(-1), powers, 0.0), -1)
        far = log_sum.detach().abs() > _FAR
        r = torch.where(far.unsqueeze(-1), 0.0, self.r)
        parts = power_term(self.log_p, r, a) + power_term(self.log_q, r, a)
        value = torch.where(far, log_sum / a, torch.log1p(a * parts.sum(-1)) / a)
        return torch.where(outside if a > 0 else ~some, torch.inf, value)


def probability(log: Tensor) -> Tensor:
    """Probabilities from logarithms; none has no derivative."""
    some = log > -torch.inf
    return torch.where(some, torch.exp(torch.where(some, log, 0.0)), 0.0)


def rows_of(p: Distribution, q: Distribution, op: RowOp, *parameters: float) -> Tensor | None:
    """A kernel on the classes of two categorical distributions; None for others."""
    if isinstance(p, OneHotCategorical) and isinstance(q, OneHotCategorical):
        p, q = p._categorical, q._categorical
    if not (isinstance(p, Categorical) and isinstance(q, Categorical)):
        return None
    logits_p, logits_q = gives_logits(p), gives_logits(q)
    rows_p, rows_q = p.logits if logits_p else p.probs, q.logits if logits_q else q.probs
    check_class_counts(rows_p, rows_q, "Logits(p.logits), Logits(q.logits)")
    return op((rows_p, rows_q), (Encoding(linear=not logits_p), Encoding(linear=not logits_q)), *parameters)


def atoms_of(p: Distribution, q: Distribution) -> Atoms | None:
    """The outcomes of two Bernoulli trials; None for others."""
    if not (isinstance(p, Bernoulli) and isinstance(q, Bernoulli)):
        return None
    return trial(chance(p), chance(q))


def trial(p: Chance, q: Chance) -> Atoms:
    """Success and failure, the log-ratios as accurate as the parameters allow."""
    columns = [_outcome(p, q), _outcome(p.flip(), q.flip())]
    return Atoms(*(torch.stack(parts, dim=-1) for parts in zip(*columns, strict=True)))


def _outcome(p: Chance, q: Chance) -> tuple[Tensor, Tensor, Tensor]:
    """Success."""
    log_p, log_q = log_chance(p), log_chance(q)
    return tuple(torch.broadcast_tensors(log_p, log_q, ratio_of(p, q)))  # type: ignore[no-untyped-call]


def log_chance(side: Chance) -> Tensor:
    """The logarithm of the chance of success; a certain outcome has no derivative, since its limit may be infinite."""
    never, always = side.certain()
    return torch.where(never, -torch.inf, torch.where(always, 0.0, side.inner().log_success()))


def ratio_of(p: Chance, q: Chance) -> Tensor:
    """Log p − log q of success, accurate for close chances."""
    (never_p, always_p), (never_q, always_q) = p.certain(), q.certain()
    sure = never_p | always_p | never_q | always_q
    inner_p, inner_q = (
        side._replace(given=torch.where(sure, side.inner().given.detach(), side.given)) for side in (p, q)
    )
    return torch.where(
        sure, difference(log_chance(p), log_chance(q)), -log_change_of_success(inner_p.inner(), inner_q.inner())
    )


def difference(log_p: Tensor, log_q: Tensor) -> Tensor:
    """The plain log-ratio, astronomic where one side has no probability, 0 where neither has."""
    none_p, none_q = log_p == -torch.inf, log_q == -torch.inf
    both = ~none_p & ~none_q
    plain = torch.where(both, log_p, 0.0) - torch.where(both, log_q, 0.0)
    alone = none_q.to(plain.dtype) - none_p.to(plain.dtype)
    return torch.where(both, plain, _BEYOND * alone)
