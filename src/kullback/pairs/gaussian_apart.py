"""Two Gaussians, one or both with Σ = D + UUᵀ, that are not near each other: no factor of D + UUᵀ is formed.

A triangular factor of D + UUᵀ has the rounding errors of U in the rows that only D fills; where U is 10⁶ times as
large, its derivative in D has no digit left, although the divergence depends on U's directions and on D alone. Instead

    2KL = ‖Z‖² − n − log det Σ_p + log det Σ_q,    Z = R⁻¹[X  Δμ],  Σ_p = XXᵀ,  Σ_q = RRᵀ,

in which X = [D^½ U] as stored. With A = D^{-½}U, log det(D + UUᵀ) = log det D + log det(I + AᵀA), and
R⁻¹ = FᵀD^{-½} with F = I − oᵀi of `low_rank_multivariate_normal`. The capacitance matrix I + AᵀA is as well
conditioned as U's columns are. Where U has as many columns as rows, Σ itself is, and R is its triangular factor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import LowRankMultivariateNormal, MultivariateNormal

from kullback._core.shapes import joint_shape
from kullback.kernels.apart_op import compare_apart as compare_natively
from kullback.kernels.low_rank_op import LowRank
from kullback.pairs.parameters import working
from kullback.pairs.relative_factor import lower_factor, stored_factor

Gaussian = MultivariateNormal | LowRankMultivariateNormal
# ‖ZZᵀ − I‖² from which what cancels in 2KL is less than a hundred times as large.
_APART = 1.0


class _Root(NamedTuple):
    """A covariance by its parts; what only one of the two needs is made when asked for.

    Attributes:
        columns: Gives X with Σ = XXᵀ.
        scale: s, the diagonal of a triangular matrix that holds what the next does not.
        log_capacitance: log det Σ − 2·Σ log s.
        whiten: x ↦ R⁻¹x.
    """

    columns: Callable[[], Tensor]
    scale: Tensor
    log_capacitance: Tensor | float
    whiten: Callable[[Tensor], Tensor]


def compare_apart(p: Gaussian, q: Gaussian) -> tuple[Tensor, Tensor]:
    """The divergence in working precision, and whether it can be trusted: whether the two are apart."""
    if isinstance(q, LowRankMultivariateNormal) and isinstance(p, MultivariateNormal):
        low_rank = LowRank(q.loc, q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag)
        quick = compare_natively(p.loc, stored_factor(p), low_rank)
        if quick is not None:
            return quick[0], quick[1] > _APART
    of_p, of_q = _root(p), _root(q)
    offset = (working(p.loc) - working(q.loc)).unsqueeze(-1)
    columns = of_p.columns()
    batch = joint_shape(columns.shape[:-2], offset.shape[:-2])
    both = torch.cat([x.expand(*batch, *x.shape[-2:]) for x in (columns, offset)], -1)
    whitened = of_q.whiten(both)
    z = whitened[..., :-1].detach()
    excess = z @ z.mT
    excess.diagonal(dim1=-2, dim2=-1).sub_(1.0)
    log_det = 2 * (of_p.scale / of_q.scale).log().sum(-1) + of_p.log_capacitance - of_q.log_capacitance
    size = offset.shape[-2]
    value = 0.5 * (whitened.square().sum((-2, -1)) - size - log_det)
    return value, (excess.square().sum((-2, -1)) > _APART).expand(value.shape)


def _root(d: Gaussian) -> _Root:
    if isinstance(d, MultivariateNormal):
        lower = lower_factor(d).tril()
        return _dense(lambda: lower, lower)
    diagonal, factor = working(d._unbroadcasted_cov_diag), working(d._unbroadcasted_cov_factor)
    scale = diagonal.sqrt()
    size, rank = factor.shape[-2:]

    def columns() -> Tensor:
        return torch.cat([torch.diag_embed(scale), factor], -1)

    if rank >= size:
        return _dense(columns, torch.linalg.cholesky(torch.diag_embed(diagonal) + factor @ factor.mT))
    a = factor / scale.unsqueeze(-1)
    eye = torch.eye(rank, dtype=a.dtype, device=a.device)
    capacitance = torch.linalg.cholesky(eye + a.mT @ a)

    def whiten(x: Tensor) -> Tensor:
        half = x / scale.unsqueeze(-1)
        outer = torch.linalg.solve_triangular(capacitance, a.mT @ half, upper=False)
        moved: Tensor = half - a @ torch.linalg.solve_triangular((capacitance + eye).mT, outer, upper=True)
        return moved

    return _Root(columns, scale, 2 * capacitance.diagonal(dim1=-2, dim2=-1).log().sum(-1), whiten)


def _dense(columns: Callable[[], Tensor], lower: Tensor) -> _Root:
    def whiten(x: Tensor) -> Tensor:
        solved: Tensor = torch.linalg.solve_triangular(lower, x, upper=False)
        return solved

    return _Root(columns, lower.diagonal(dim1=-2, dim2=-1), 0.0, whiten)
