r"""KL(LowRankMultivariateNormal ‖ itself), Σ = D + UUᵀ on both sides.

With A = D_q^{-½}U_q and C = I + AᵀA = KKᵀ, a square root of the whitened inverse needs only k × k factors:

    (I + AAᵀ)⁻¹ = FFᵀ,    F = I − A·K⁻ᵀ(I + K)⁻¹Aᵀ,    FᵀA = A·(I + Kᵀ)⁻¹K⁻¹(I + K).

No Cholesky factor of the n × n matrix is formed, whose condition grows with the square of U; the difference of the two
matrices is E = Fᵀ[D_p/D_q − 1 + ΔB·(A + ΔB)ᵀ + A·ΔBᵀ]F, ΔB = D_q^{-½}(U_p − U_q), exact near equality.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import LowRankMultivariateNormal, MultivariateNormal

from kullback.pairs.multivariate_normal import SOURCE, kl_gaussian_gaussian
from kullback.pairs.parameters import working
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.relative_factor import NEAR, trace_minus_log_det


@register(
    LowRankMultivariateNormal,
    LowRankMultivariateNormal,
    source="½[tr E − log det(I + E) + ‖Fᵀ D_q^{-½}Δμ‖²], FFᵀ = (I + AAᵀ)⁻¹ by the capacitance matrix",
)
def kl_low_rank_low_rank(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    """Near equality by the Cholesky factor of I + E, else by the determinants of the capacitance matrices."""
    scale = working(q._unbroadcasted_cov_diag).sqrt().unsqueeze(-1)
    ratio = working(p._unbroadcasted_cov_diag), working(q._unbroadcasted_cov_diag)
    factor_p, factor_q = _same_rank(working(p._unbroadcasted_cov_factor), working(q._unbroadcasted_cov_factor))
    a, moved = factor_q / scale, (factor_p - factor_q) / scale
    capacitance = torch.linalg.cholesky(_eye(a.shape[-1], a) + a.mT @ a)
    plus = capacitance + _eye(a.shape[-1], a)
    solve = torch.linalg.solve_triangular
    inner = solve(plus, a.mT, upper=False)
    outer = solve(capacitance, a.mT, upper=False)
    root = _eye(a.shape[-2], a) - outer.mT @ inner
    root_a = inner.mT @ solve(capacitance, plus, upper=False)
    root_moved = root.mT @ moved
    relative = ((ratio[0] - ratio[1]) / ratio[1]).unsqueeze(-1)
    e = root.mT @ (relative * root) + root_moved @ (root_a + root_moved).mT + root_a @ root_moved.mT
    shift = root.mT @ ((working(p.loc) - working(q.loc)).unsqueeze(-1) / scale)
    own = factor_p / working(p._unbroadcasted_cov_diag).sqrt().unsqueeze(-1)
    capacitance_p = torch.linalg.cholesky(_eye(own.shape[-1], own) + own.mT @ own)
    log_det = log_ratio(*ratio).sum(-1) + 2 * (_log_det(capacitance_p) - _log_det(capacitance))
    matrix = _matrix_part(e, log_det)
    divergence: Tensor = 0.5 * (matrix + shift.square().sum((-2, -1)))
    return divergence


@register(LowRankMultivariateNormal, MultivariateNormal, source=SOURCE)
def kl_low_rank_multivariate_normal_multivariate_normal(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    """The dense formula: q has no structure to use."""
    return kl_gaussian_gaussian(p, q)


def _matrix_part(e: Tensor, log_det: Tensor) -> Tensor:
    """The trace of E minus log det(I + E)."""
    near = e.detach().square().sum((-2, -1)) < NEAR
    safe = torch.where(near[..., None, None], e, 0.0)
    eye = _eye(e.shape[-1], e)
    factor = torch.linalg.cholesky(eye + safe)
    w = factor - eye
    # The factor is right to eps; a Newton step on W + Wᵀ + WWᵀ = E makes W right to eps·‖W‖.
    residual = safe - (w + w.mT + w @ w.mT)
    whitened = torch.linalg.solve_triangular(factor, residual, upper=False)
    whitened = torch.linalg.solve_triangular(factor, whitened.mT, upper=False)
    half = whitened.tril(-1) + 0.5 * torch.diag_embed(whitened.diagonal(dim1=-2, dim2=-1))
    close = trace_minus_log_det(w + factor @ half, factor.diagonal(dim1=-2, dim2=-1).log())
    return torch.where(near, close, e.diagonal(dim1=-2, dim2=-1).sum(-1) - log_det)


def _log_det(lower: Tensor) -> Tensor:
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _eye(size: int, like: Tensor) -> Tensor:
    return torch.eye(size, dtype=like.dtype, device=like.device)


def _same_rank(u: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Columns of zeros change nothing."""
    rank = max(u.shape[-1], w.shape[-1])
    pad = torch.nn.functional.pad
    return pad(u, (0, rank - u.shape[-1])), pad(w, (0, rank - w.shape[-1]))
