"""Entropy and cross-entropy of distributions: by formula, else by the engine; `api` calls them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent

from kullback._core.errors import NoRouteError, explain_problem
from kullback.densities.reading import read
from kullback.divergences import entropy as by_engine
from kullback.divergences.expectations import check_normalised
from kullback.pairs.dispatch import answer as kl_answer
from kullback.pairs.dispatch import check_pair
from kullback.pairs.divergences import read_pair
from kullback.pairs.entropies import formula_for
from kullback.pairs.named import named
from kullback.pairs.parameters import result_dtype
from kullback.pairs.undefined import marked


def entropy(p: Distribution) -> Tensor:
    """−E_p log p, of densities or of probabilities."""
    return marked(_entropy(p, "entropy"), p).to(result_dtype(p, p)).expand(p.batch_shape)


def cross_entropy(p: Distribution, q: Distribution) -> Tensor:
    """−E_p log q = H(p) + KL(p ‖ q), or one integral where neither is known by formula."""
    shape = check_pair(p, q)
    readings = read_pair(p, q) if formula_for(named(p)) is None else None
    if readings is not None and readings[0].lattice == readings[1].lattice:
        value = by_engine.cross_entropy(*readings)[0].reshape(shape)
    else:
        own, divergence = _entropy(p, "cross_entropy"), kl_answer(p, q)[0]
        # An infinite element has no gradient, and the entropy of p would bring one.
        value = torch.where(divergence.isinf(), 0.0, own) + divergence
    return marked(value, p, q).to(result_dtype(p, q)).expand(shape)


def _entropy(p: Distribution, name: str) -> Tensor:
    """In working precision."""
    p = named(p)
    if isinstance(p, Independent):
        dims = p.reinterpreted_batch_ndims
        inner = _entropy(p.base_dist, name).expand(p.base_dist.batch_shape)
        return inner.sum(tuple(range(-dims, 0))) if dims else inner
    formula = formula_for(p)
    if formula is not None:
        return formula(p)
    reading = read(p, p.batch_shape)
    if reading is not None:
        check_normalised(reading)
        return by_engine.entropy(reading)[0].reshape(p.batch_shape)
    raise NoRouteError(
        explain_problem(
            f"{name}() has no closed form, integral or series for this distribution.",
            got=type(p).__name__,
            expected="a univariate distribution, a mixture of such, a Gaussian, a Dirichlet, independent ones",
            instead="an average of −log q(x) over samples of p: -q.log_prob(p.sample((n,))).mean(0)"
            if name == "cross_entropy"
            else "an average of −log p(x) over samples: -p.log_prob(p.sample((n,))).mean(0)",
        )
    )
