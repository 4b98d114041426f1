"""What each dimension of a vector adds to KL: independent dimensions, and Gaussians by the chain rule."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, LowRankMultivariateNormal, MultivariateNormal

from kullback._core.errors import NoRouteError
from kullback.diagnose.explanation import Term
from kullback.pairs import kl_divergence

_MAX_ELEMENTS = 1 << 22


def terms_by_dimension(
    p: Distribution, q: Distribution, batch: torch.Size, index: tuple[int, ...]
) -> tuple[list[Term], str] | None:
    """The terms of one batch element and what they mean; None where KL does not split by dimensions."""
    if batch.numel() * p.event_shape.numel() > _MAX_ELEMENTS:
        return None
    if isinstance(p, Independent) and isinstance(q, Independent):
        found = _independent(p, q), _independent(q, p)
        note = "independent dimensions"
    elif _gaussian(p) and _gaussian(q):
        found = _chain(p, q), _chain(q, p)
        note = "dimensions, each given those before it"
    else:
        return None
    forward, backward = found
    if forward is None or backward is None:
        return None
    shape = (*batch, *p.event_shape)
    added, reverse = (values.expand(shape)[index].flatten().double().tolist() for values in (forward, backward))
    total = sum(added) or 1.0
    inner = p.event_shape
    terms = []
    for at, (one, other) in enumerate(zip(added, reverse, strict=True)):
        place = torch.unravel_index(torch.tensor(at), inner)
        label = f"x[{', '.join(str(int(i)) for i in place)}]"
        terms.append(Term(label, None, None, max(one, 0.0), max(other, 0.0), max(one, 0.0) / total))
    return terms, note


def _independent(p: Any, q: Any) -> Tensor | None:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims or p.base_dist.event_shape:
        return None
    try:
        return kl_divergence(p.base_dist, q.base_dist).detach()
    except NoRouteError:
        return None


def _gaussian(d: Distribution) -> bool:
    return isinstance(d, MultivariateNormal | LowRankMultivariateNormal)


def _chain(p: Any, q: Any) -> Tensor:
    r"""KL(p(x_i | x_<i) ‖ q(x_i | x_<i)) averaged over x_<i, for each i; they sum to KL(p ‖ q).

    With z = L_q⁻¹(x − μ_q), which keeps the order of the dimensions, q is standard normal and p has mean m and
    covariance S = CCᵀ; dimension i adds ½(S_ii + m_i² − 1 − log C_ii²), and S_ii ≥ C_ii².
    """
    lower_q = torch.linalg.cholesky(q.covariance_matrix.detach().double())
    covariance = p.covariance_matrix.detach().double()
    delta = (p.loc - q.loc).detach().double()
    mean = torch.linalg.solve_triangular(lower_q, delta.unsqueeze(-1), upper=False).squeeze(-1)
    half = torch.linalg.solve_triangular(lower_q, torch.linalg.cholesky(covariance), upper=False)
    variance: Tensor = (half * half).sum(-1)
    pivot = torch.linalg.diagonal(half)  # a product of lower triangular matrices is lower triangular
    terms: Tensor = 0.5 * (variance + mean**2 - 1 - (pivot**2).log())
    return terms
