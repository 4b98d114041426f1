"""Rényi's divergence, and the two that are functions of it: Hellinger's distance and chi-squared."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Binomial, Distribution, Multinomial

from kullback._core.numbers import as_tensor
from kullback._core.shapes import joint_shape
from kullback.kernels.f_rows import renyi_rows
from kullback.kernels.f_rows.ratios import root
from kullback.pairs.densities import describable
from kullback.pairs.densities.programs import Constant
from kullback.pairs.dispatch import answer as kl_answer
from kullback.pairs.dispatch import kl_divergence
from kullback.pairs.outcomes import chance
from kullback.pairs.parameters import read
from kullback.pairs.portions import in_portions
from kullback.pairs.sisters import frame
from kullback.pairs.sisters.atoms import atoms_of, rows_of, trial
from kullback.pairs.sisters.bounded import nothing_shared
from kullback.pairs.sisters.count_programs import OfPower, summed
from kullback.pairs.sisters.counts import both_countable, counts_of, diverges, extreme_without_list, renyi_without_list
from kullback.pairs.sisters.expected import completed
from kullback.pairs.sisters.members import member_between
from kullback.pairs.sisters.power_integral import (
    CLOSE,
    USUAL,
    is_far,
    max_divergence,
    missing_mass,
    renyi_by_integral,
)
from kullback.pairs.visible import hidden, surely

# Below this KL the stationary form is the accurate one for α > 1, too.
_CLOSE = 1e-2
# So close to order 1 the law between is p to within its roundings, and an integral knows more.
_NEAR_ONE = 1e-4
# Powers of this order are as far out as those of any.
_LARGE_ORDER = 1e3
_LARGEST = math.log(torch.finfo(torch.float64).max)


def renyi(p: Distribution, q: Distribution, alpha: float) -> Tensor:
    """The divergence log ∫ p^α q^(1−α) / (α−1) and its limits."""
    return kl_divergence(p, q) if alpha == 1.0 else frame.answer("renyi", p, q, _order(alpha), additive=True)


def hellinger(p: Distribution, q: Distribution) -> Tensor:
    """√(1 − ∫√(pq)) = √(1 − e^(−D/2)), D Rényi's divergence of order ½."""
    return frame.answer("hellinger", p, q, _order(0.5), additive=True, finish=lambda d: root(-torch.expm1(-d / 2)))


def chi2(p: Distribution, q: Distribution) -> Tensor:
    """∫ (p−q)²/q = e^D − 1, D Rényi's divergence of order 2; beyond the number range it is infinite."""
    return frame.answer("chi2", p, q, _order(2.0), additive=True, finish=_expm1)


def _expm1(divergence: Tensor) -> Tensor:
    beyond = divergence > _LARGEST
    return torch.where(beyond, math.inf, torch.expm1(torch.where(beyond, 0.0, divergence)))


def _order(alpha: float) -> frame.Formula:
    return lambda p, q: renyi_of(p, q, alpha)


def renyi_of(p: Distribution, q: Distribution, alpha: float) -> Tensor | None:
    """In working precision; None for a pair that has no route of its own."""
    by_rows = rows_of(p, q, renyi_rows, alpha)
    if by_rows is not None:
        return by_rows
    atoms = atoms_of(p, q)
    if atoms is not None:
        return atoms.renyi(alpha)
    repeated = _repeated(p, q, alpha)
    if repeated is not None:
        return repeated
    if 0 < alpha < math.inf and not (abs(alpha - 1) < _NEAR_ONE and describable(p)):
        by_member = _by_member(p, q, alpha)
        if by_member is not None:
            return by_member
    if describable(p) and describable(q):
        if alpha in (0.0, math.inf):
            return missing_mass(p, q) if alpha == 0.0 else max_divergence(p, q)
        return in_portions(functools.partial(renyi_by_integral, alpha=alpha), p, q)
    if both_countable(p, q):
        return _of_counts(p, q, alpha)
    return nothing_shared(p, q, math.inf)


def _of_counts(p: Distribution, q: Distribution, alpha: float) -> Tensor | None:
    if hidden() or not 0 < alpha < math.inf:
        return _by_list(p, q, alpha)
    if alpha < 0.5:
        # As in `power_integral`, since 1 − α would be rounded.
        share = alpha / (1 - alpha)
        return share * _by_series(q, p, -alpha, lambda q, p: _listed(p, q, alpha) / share)
    return _by_series(p, q, alpha - 1, functools.partial(_listed, alpha=alpha))


def _listed(p: Distribution, q: Distribution, alpha: float) -> Tensor:
    value = _by_list(p, q, alpha)
    assert value is not None
    return value


def _by_series(
    p: Distribution, q: Distribution, a: float, formula: Callable[[Distribution, Distribution], Tensor]
) -> Tensor:
    """log1p(aX)/a by recorded programs, else from a list of counts."""

    def excess(p: Distribution, q: Distribution) -> Tensor:
        return torch.expm1(a * formula(p, q)) / a

    known = summed(p, q, OfPower(a, () if a in USUAL else (Constant(a),)), CLOSE, excess)
    if known is None:
        return formula(p, q)
    infinite = diverges(p, q, 1 + a).expand(joint_shape(p.batch_shape, q.batch_shape)).reshape(-1) if a > 0 else None
    lost = known.lost | is_far(a * known.value.detach())
    lost = lost if infinite is None else lost & ~infinite
    value = torch.log1p(a * torch.where(lost if infinite is None else lost | infinite, 0.0, known.value)) / a
    value = value if infinite is None else torch.where(infinite, math.inf, value)
    return completed(known._replace(value=value, lost=lost), formula, p, q)


def _by_list(p: Distribution, q: Distribution, alpha: float) -> Tensor | None:
    infinite = diverges(p, q, alpha) if alpha > 1 else as_tensor(False)
    # Where the powers have no end, the counts that matter to p and q will do.
    listed = counts_of(p, q, torch.where(infinite, 0.5, min(alpha, _LARGE_ORDER)))
    if listed is not None:
        value: Tensor | None = listed.renyi(alpha)
    else:
        finite_order = 0 < alpha < math.inf
        value = renyi_without_list(p, q, alpha) if finite_order else extreme_without_list(p, q, alpha)
    return None if value is None else torch.where(infinite, math.inf, value)


def _by_member(p: Distribution, q: Distribution, alpha: float) -> Tensor | None:
    member = member_between(p, q, alpha)
    if member is None:
        return None
    between, exists, edge = member
    to_p, to_q, direct = (kl_answer(*pair)[0] for pair in ((between, p), (between, q), (p, q)))
    value = (alpha * to_p + (1 - alpha) * to_q) / (1 - alpha)
    if alpha > 1:
        far = direct.detach() > _CLOSE
        value = torch.where(far, direct + kl_answer(p, between)[0] / (alpha - 1), value.clamp_min(0.0))
    value = torch.where(direct == 0, direct, value)
    value = torch.where(exists, value, math.inf)
    return value if edge is None else torch.where(edge.where, edge.value, value)


def _repeated(p: Distribution, q: Distribution, alpha: float) -> Tensor | None:
    """Several trials are as many times one; None unless both have the same number of them."""
    if isinstance(p, Multinomial) and isinstance(q, Multinomial):
        one = rows_of(p._categorical, q._categorical, renyi_rows, alpha)
        assert one is not None
        return p.total_count * one if p.total_count == q.total_count else torch.full_like(one, math.inf)
    if isinstance(p, Binomial) and isinstance(q, Binomial):
        (n,), (m,) = read(p, "total_count"), read(q, "total_count")
        if surely(n == m):
            return torch.where(n == 0, 0.0, n * trial(chance(p), chance(q)).renyi(alpha))
    return None
