"""Entropy and cross-entropy of distributions."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent

from kullback._core.errors import NoRouteError, explain_problem
from kullback.pairs.counting import sum_over
from kullback.pairs.densities import describable
from kullback.pairs.densities.count_mixture import countable
from kullback.pairs.densities.expectation import Pieces, Sample, integral_over, pieces_of
from kullback.pairs.densities.inclusion import outside
from kullback.pairs.densities.programs import Setting
from kullback.pairs.dispatch import answer as kl_answer
from kullback.pairs.dispatch import check_pair
from kullback.pairs.parameters import result_dtype
from kullback.pairs.portions import in_portions
from kullback.pairs.sisters.entropies import formula_for
from kullback.pairs.sisters.expected import Asked, completed, expected
from kullback.pairs.undefined import marked
from kullback.pairs.univariate import first_order, size_of_p
from kullback.pairs.visible import hidden


def entropy(p: Distribution) -> Tensor:
    """−E_p log p, of densities or of probabilities."""
    return marked(_entropy(p, "entropy"), p).to(result_dtype(p, p)).expand(p.batch_shape)


def cross_entropy(p: Distribution, q: Distribution) -> Tensor:
    """−E_p log q = H(p) + KL(p ‖ q)."""
    shape = check_pair(p, q)
    # Two integrals are one where neither is known by formula.
    two = formula_for(p) is None and describable(p) and describable(q) and not hidden()
    value = in_portions(_cross_by_integral, p, q) if two else _cross(p, q)
    return marked(value, p, q).to(result_dtype(p, q)).expand(shape)


def _cross(p: Distribution, q: Distribution) -> Tensor:
    entropy, divergence = _entropy(p, "cross_entropy"), kl_answer(p, q)[0]
    # An infinite element has no gradient, and the entropy of p would bring one.
    return torch.where(divergence.isinf(), 0.0, entropy) + divergence


def _cross_by_integral(p: Distribution, q: Distribution) -> Tensor:
    known = expected(p, q, _CROSS, None, -math.inf)
    if known is None:
        return _cross(p, q)
    lost = known.lost | (known.value.detach().abs() > _HUGE)
    value = torch.where(known.extreme, math.inf, torch.where(lost, 0.0, known.value))
    return completed(known._replace(value=value, lost=lost), _cross, p, q)


def _entropy(p: Distribution, name: str) -> Tensor:
    """In working precision."""
    if isinstance(p, Independent):
        dims = p.reinterpreted_batch_ndims
        inner = _entropy(p.base_dist, name).expand(p.base_dist.batch_shape)
        return inner.sum(tuple(range(-dims, 0))) if dims else inner
    formula = formula_for(p)
    if formula is not None:
        return formula(p)
    if describable(p):
        return in_portions(_by_integral, p, p)
    if countable(p):
        return sum_over(p, p, _surprise)
    raise NoRouteError(
        explain_problem(
            f"{name}() has no closed form, integral or series for this distribution.",
            got=type(p).__name__,
            expected="a univariate distribution of torch, a mixture of such, a Gaussian, a Dirichlet, independent ones",
            instead="an average of −log q(x) over samples of p: -q.log_prob(p.sample((n,))).mean(0)"
            if name == "cross_entropy"
            else "an average of −log p(x) over samples: -p.log_prob(p.sample((n,))).mean(0)",
        )
    )


def _by_integral(p: Distribution, _: Distribution) -> Tensor:
    known = None if hidden() else expected(p, p, _ASKED, None, -math.inf)
    return _by_operations(p, p) if known is None else completed(known, _by_operations, p, p)


def _by_operations(p: Distribution, _: Distribution) -> Tensor:
    return integral_over(pieces_of(p, p), _surprise).value


def _surprise(sample: Sample) -> Tensor:
    return -torch.exp(sample.log_weight) * sample.log_p


def _nowhere(pieces: Pieces) -> bool:
    del pieces
    return False


def _surprise_at_q(sample: Sample) -> Tensor:
    return first_order(sample._replace(log_p=torch.zeros_like(sample.log_p)))


# Beyond this only logarithms tell a number from infinity.
_HUGE = 1e290
_CROSS = Asked(_surprise_at_q, size_of_p, Setting(outside), _cross, follow_q=False)
_ASKED = Asked(_surprise, size_of_p, Setting(_nowhere), _by_operations, follow_q=False)
