"""What each dimension of a vector adds to KL: independent dimensions, and others by the chain rule."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import (
    Beta,
    Dirichlet,
    Distribution,
    Independent,
    LowRankMultivariateNormal,
    Multinomial,
    MultivariateNormal,
    Normal,
)

from kullback._core.errors import NoRouteError
from kullback.diagnose.explanation import Term
from kullback.diagnose.rows import contributions
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
    elif isinstance(p, Dirichlet) and isinstance(q, Dirichlet):
        found = _sticks(p, q), _sticks(q, p)
        note = "dimensions, each given those before it"
    elif isinstance(p, Multinomial) and isinstance(q, Multinomial) and p.total_count == q.total_count:
        found = _trials(p, q), _trials(q, p)
        note = f"classes, of {p.total_count} draws together"
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
    independent = isinstance(d, Independent) and isinstance(d.base_dist, Normal) and d.reinterpreted_batch_ndims == 1
    return independent or isinstance(d, MultivariateNormal | LowRankMultivariateNormal)


def _covariance(d: Any) -> Tensor:
    covariance: Tensor = d.variance.diag_embed() if isinstance(d, Independent) else d.covariance_matrix
    return covariance.detach().double()


def _sticks(p: Any, q: Any) -> Tensor | None:
    r"""KL of the shares x_i/(1 − Σ_{j<i} x_j), which are independent Beta(α_i, Σ_{j>i} α_j); the last is always 1."""
    shares = [Beta(*_stick_parameters(d.concentration.detach().double())) for d in (p, q)]
    found = kl_divergence(*shares)
    return torch.cat([found, torch.zeros_like(found[..., :1])], -1)


def _stick_parameters(concentration: Tensor) -> tuple[Tensor, Tensor]:
    behind = concentration.flip(-1).cumsum(-1).flip(-1)
    return concentration[..., :-1], behind[..., 1:]


def _trials(p: Any, q: Any) -> Tensor:
    log_p, log_q = (d.logits.detach().double().log_softmax(-1) for d in (p, q))
    return float(p.total_count) * contributions(log_p, log_q)


def _chain(p: Any, q: Any) -> Tensor:
    r"""KL(p(x_i | x_<i) ‖ q(x_i | x_<i)) averaged over x_<i, for each i; they sum to KL(p ‖ q).

    With z = L_q⁻¹(x − μ_q), which keeps the order of the dimensions, q is standard normal and p has mean m and
    covariance S = CCᵀ; dimension i adds ½(S_ii + m_i² − 1 − log C_ii²), and S_ii ≥ C_ii².
    """
    lower_q = torch.linalg.cholesky(_covariance(q))
    covariance = _covariance(p)
    delta = (p.mean - q.mean).detach().double()
    mean = torch.linalg.solve_triangular(lower_q, delta.unsqueeze(-1), upper=False).squeeze(-1)
    half = torch.linalg.solve_triangular(lower_q, torch.linalg.cholesky(covariance), upper=False)
    variance: Tensor = (half * half).sum(-1)
    pivot = torch.linalg.diagonal(half)  # a product of lower triangular matrices is lower triangular
    terms: Tensor = 0.5 * (variance + mean**2 - 1 - (pivot**2).log())
    return terms
