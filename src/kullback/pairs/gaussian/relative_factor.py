"""Two positive definite matrices compared: W with L_p = L_q·(I + W), for Gaussians and Wishart.

With Σ = LLᵀ, Σ_q⁻¹Σ_p has the trace ‖I+W‖² and the determinant Π(1+wᵢᵢ)², so that

    tr(Σ_q⁻¹Σ_p) − d − log det(Σ_q⁻¹Σ_p) = Σᵢ [wᵢᵢ² + 2·(wᵢᵢ − log(1+wᵢᵢ))] + Σ_{i>j} wᵢⱼ²,

every term non-negative. W = L_q⁻¹(L_p − L_q) is exact near equality if the factors were given. Where covariances
were given, their factors carry rounding errors of κ·eps that the difference amplifies; one step of the iteration
W + Wᵀ = E − WWᵀ, E = L_q⁻¹(Σ_p − Σ_q)L_q⁻ᵀ, takes them out.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor
from torch.distributions import LowRankMultivariateNormal, MultivariateNormal, Wishart

from kullback._core.dtypes import work_dtype
from kullback.densities.parameters import working
from kullback.kernels.levels import is_traced
from kullback.special import log1pmx

Gaussian = MultivariateNormal | LowRankMultivariateNormal
Matrix = Gaussian | Wishart
_GIVEN = ("scale_tril", "covariance_matrix", "precision_matrix")
# A factor this close to I, in squared norm, is refined; further away rounding errors are amplified 20 times at most.
NEAR = 0.01
# Rows up to which a covariance is factored most accurately: that costs less than calling torch does.
_SMALL = 32
# Between these wᵢᵢ the difference of the factors loses at most three bits of L_p.
_LEAST_SIMILAR, _LARGEST_SIMILAR = -7 / 8, 7.0
# From this |log(1 + wᵢᵢ)| on a column of L_p is on another scale than that of L_q.
SCALES = math.log(2)


def given(d: Matrix) -> str:
    """Which of the parametrisations the maker gave; torch stores that one first and caches the others later."""
    if isinstance(d, LowRankMultivariateNormal):
        return "cov_factor"
    for name in d.__dict__:
        if name in _GIVEN:
            return name
    return "scale_tril"


def compared_in(*tensors: Tensor) -> torch.dtype:
    """The dtype in which factors are compared: the widest they have, if LAPACK knows it."""
    widest = tensors[0].dtype
    for tensor in tensors[1:]:
        widest = torch.promote_types(widest, tensor.dtype)
    return widest if widest in {torch.float32, torch.float64} else work_dtype(tensors[0].device)


def lower_factor(d: Matrix) -> Tensor:
    """L with Σ = LLᵀ in working precision."""
    return working(stored_factor(d))


def stored_factor(d: Matrix) -> Tensor:
    """L with Σ = LLᵀ; small matrices are factored in working precision."""
    if isinstance(d, LowRankMultivariateNormal):
        scale = working(d._unbroadcasted_cov_diag).sqrt().unsqueeze(-1)
        whitened = working(d._unbroadcasted_cov_factor) / scale
        eye = torch.eye(whitened.shape[-2], dtype=whitened.dtype, device=whitened.device)
        if eye.shape[-1] > _SMALL:  # QR would take eight times as long
            return cast("Tensor", scale * torch.linalg.cholesky(eye + whitened @ whitened.mT))
        # [W I]ᵀ = QR has LLᵀ = RᵀR without the square, whose condition number is that of Σ and not its root.
        stacked = torch.cat([whitened.mT, eye.expand(*whitened.shape[:-2], *eye.shape)], -2)
        upper = torch.linalg.qr(stacked, mode="reduced").R
        signs = torch.sign(upper.detach().diagonal(dim1=-2, dim2=-1)).unsqueeze(-2)
        return cast("Tensor", scale * (upper.mT * signs))
    stored = d._unbroadcasted_scale_tril
    if stored.shape[-1] > _SMALL or work_dtype(stored.device) is stored.dtype:
        return stored
    how = given(d)
    if how == "scale_tril":
        return stored
    if how == "covariance_matrix":
        return cast("Tensor", torch.linalg.cholesky(working(d.covariance_matrix)))
    inverse = torch.linalg.cholesky(working(d.precision_matrix).flip(-2, -1)).flip(-2, -1).mT
    eye = torch.eye(inverse.shape[-1], dtype=inverse.dtype, device=inverse.device)
    return cast("Tensor", torch.linalg.solve_triangular(inverse, eye, upper=False))


def relative_factor(p: Matrix, q: Matrix, lower_q: Tensor) -> tuple[Tensor, Tensor]:
    """W (or another factor of a matrix similar to Σ_q⁻¹Σ_p, minus I), and log(1 + wᵢᵢ), which survives wᵢᵢ = −1."""
    kinds = {given(p), given(q)}
    if kinds == {"precision_matrix"}:
        # Σ_q⁻¹Σ_p = P_q·P_p⁻¹: the same matrix with the roles of p and q swapped.
        base, other = working(p.precision_matrix), working(q.precision_matrix)
        lower, moved = torch.linalg.cholesky(base), torch.linalg.cholesky(other)
        return _refined(_solve(lower, moved - lower), lower, other - base), _log_diagonals(moved, lower)
    direct, log_diagonal = factor_difference(lower_factor(p), lower_q)
    if kinds <= {"covariance_matrix", "cov_factor"}:
        return _refined(direct, lower_q, _difference(p, q)), log_diagonal
    return direct, log_diagonal


def factor_difference(lower_p: Tensor, lower_q: Tensor) -> tuple[Tensor, Tensor]:
    """W and log(1 + wᵢᵢ) of the factors; entries above the diagonal are no parameters, whatever a maker left there.

    A column of L_p on another scale than L_q's is solved for alone: in the difference one of them would be lost.
    """
    log_diagonal = _log_diagonals(lower_p, lower_q)
    alike = log_diagonal.detach().abs() < SCALES
    if is_known(alike) and bool(alike.all()):
        return _solve(lower_q, (lower_p - lower_q).tril()), log_diagonal
    kept = alike.to(lower_q.dtype)
    found = _solve(lower_q, (lower_p - lower_q * kept.unsqueeze(-2)).tril())
    return found - torch.diag_embed(1 - kept), log_diagonal


def kl_of_similar(loc_p: Tensor, lower_p: Tensor, loc_q: Tensor, lower_q: Tensor) -> tuple[Tensor, Tensor] | None:
    """The divergence of two Gaussians and [W y]; None where diagonals are on other scales, or cannot be looked at.

    One solve finds W and y = L_q⁻¹(μ_p − μ_q).
    """
    if loc_p.shape != loc_q.shape or lower_p.shape != lower_q.shape or lower_p.shape[:-1] != loc_p.shape:
        return None
    if not loc_p.numel() or not is_known(lower_q):
        return None
    difference = lower_p - lower_q
    # Columns that follow one another, as those of `torch.linalg.cholesky` do, are the rows of the transposed matrix.
    columns = difference.tril_().mT if difference.is_contiguous() else difference.mT.triu()
    diagonal = columns.diagonal(0, -2, -1) / lower_q.diagonal(0, -2, -1)
    least, largest = diagonal.detach().aminmax()
    if not (least.item() > _LEAST_SIMILAR and largest.item() < _LARGEST_SIMILAR):
        return None
    shift = (loc_p - loc_q).unsqueeze(-2)
    solved = _solve(lower_q, torch.cat([columns, shift], -2).mT)
    # The derivative of a product takes fewer operations than that of a square.
    return 0.5 * (solved * solved).sum((-2, -1)) - log1pmx(diagonal).sum(-1), solved


def _log_diagonals(a: Tensor, b: Tensor) -> Tensor:
    return a.diagonal(dim1=-2, dim2=-1).log() - b.diagonal(dim1=-2, dim2=-1).log()


def is_known(condition: Tensor) -> bool:
    """Whether Python may look at a tensor's values without waiting for a device."""
    return condition.is_cpu and not is_traced()


def _difference(p: Matrix, q: Matrix) -> Tensor:
    """Σ_p − Σ_q; that of products UUᵀ by the difference of their factors, which is exact near equality."""
    if isinstance(p, LowRankMultivariateNormal) and isinstance(q, LowRankMultivariateNormal):
        factor_p, factor_q = same_rank(p._unbroadcasted_cov_factor, q._unbroadcasted_cov_factor)
        moved = working(factor_p) - working(factor_q)
        change = working(p._unbroadcasted_cov_diag) - working(q._unbroadcasted_cov_diag)
        return torch.diag_embed(change) + moved @ working(factor_p).mT + working(factor_q) @ moved.mT
    return _covariance(p) - _covariance(q)


def same_rank(u: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Columns of zeros change nothing of UUᵀ."""
    rank = max(u.shape[-1], w.shape[-1])
    if u.shape[-1] == w.shape[-1]:
        return u, w
    pad = torch.nn.functional.pad
    return pad(u, (0, rank - u.shape[-1])), pad(w, (0, rank - w.shape[-1]))


def _covariance(d: Matrix) -> Tensor:
    if isinstance(d, LowRankMultivariateNormal):
        factor = working(d._unbroadcasted_cov_factor)
        return torch.diag_embed(working(d._unbroadcasted_cov_diag)) + factor @ factor.mT
    return working(d.covariance_matrix)


def _refined(start: Tensor, lower: Tensor, difference: Tensor) -> Tensor:
    """W = Φ(E − W₀W₀ᵀ) from W₀ near it, Φ the lower half: an error r of W₀ enters only as ‖W₀‖·r."""
    near = (start.detach().square().sum((-2, -1)) < NEAR)[..., None, None]
    if is_known(near) and not bool(near.any()):
        return start
    # Half of both halves, so that the derivative is symmetric, too.
    gap = torch.where(near, 0.5 * (difference + difference.mT), 0.0)
    # Equal matrices may have been factored with different roundings; what is left of W is then second order.
    equal = (gap == 0).all(-1).all(-1)[..., None, None]
    safe = torch.where(near & ~equal, start, 0.0)
    target = torch.linalg.solve_triangular(lower, gap, upper=False)
    target = torch.linalg.solve_triangular(lower, target.mT, upper=False)
    whole = target - safe @ safe.mT
    half = whole.tril(-1) + 0.5 * torch.diag_embed(whole.diagonal(dim1=-2, dim2=-1))
    return torch.where(near, half, start)


def _solve(lower: Tensor, right: Tensor) -> Tensor:
    return cast("Tensor", torch.linalg.solve_triangular(lower, right, upper=False))


def trace_minus_log_det(w: Tensor, log_diagonal: Tensor) -> Tensor:
    """tr(Σ_q⁻¹Σ_p) − d − log det(Σ_q⁻¹Σ_p)."""
    return w.square().sum((-2, -1)) + 2 * log1p_gaps(w, log_diagonal)


def log1p_gaps(w: Tensor, log_diagonal: Tensor) -> Tensor:
    """Σ[wᵢᵢ − log(1+wᵢᵢ)], log_diagonal being log(1+wᵢᵢ) to the accuracy of its two parts."""
    diagonal = w.diagonal(dim1=-2, dim2=-1)
    near = diagonal.abs() < 0.5
    return torch.where(near, -log1pmx(torch.where(near, diagonal, 0.0)), diagonal - log_diagonal).sum(-1)
