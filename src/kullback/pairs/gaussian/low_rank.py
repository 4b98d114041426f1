"""KL to LowRankMultivariateNormal, Σ_q = D + UUᵀ: no n × n matrix is formed for two of them, in O(n·k²).

With A = D^{-½}U and C = I + AᵀA = KKᵀ, a square root of the whitened inverse needs only k × k factors:

    (I + AAᵀ)⁻¹ = FFᵀ,    F = I − oᵀi,    o = K⁻¹Aᵀ,  i = (I + K)⁻¹Aᵀ.

With ρ = D_p/D_q and B = D_q^{-½}U_p,

    2KL = Σ [ρ − 1 − log ρ] − Σ ρ·oᵀo + ‖FᵀB‖² + log det C_q − log det C_p + ‖FᵀD_q^{-½}Δμ‖².

Near equality the terms cancel, but for the last one; there Taylor's remainder on the way from D_p and U_p to D_q and
U_q takes their place.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import LowRankMultivariateNormal, MultivariateNormal

from kullback._core.gauss_legendre import gauss_legendre
from kullback.densities.parameters import read, working
from kullback.kernels.levels import is_traced, known_true
from kullback.pairs.exponential_family import taylor_remainder
from kullback.pairs.gaussian.multivariate_normal import SOURCE, kl_gaussian_gaussian
from kullback.pairs.gaussian.relative_factor import lower_factor, same_rank
from kullback.pairs.registry import register

_REMAINDER = gauss_legendre(8)
# Twice a divergence below this is Taylor's remainder.
_NEAR = 0.01
# A divergence above this share of what it is the difference of has lost two digits at most.
_LARGE_SHARE = 0.01


@register(
    LowRankMultivariateNormal,
    LowRankMultivariateNormal,
    source="½[tr(Σ_q⁻¹Σ_p) − n − log det(Σ_q⁻¹Σ_p) + Δμᵀ Σ_q⁻¹ Δμ] by the capacitance matrix I + AᵀA, in O(n·k²)",
)
def kl_low_rank_low_rank(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    """See the head of this file."""
    factor_p, factor_q = same_rank(p._unbroadcasted_cov_factor, q._unbroadcasted_cov_factor)
    if factor_p.shape[-1] >= factor_p.shape[-2]:
        # I + AᵀA would have the eigenvalues of I + AAᵀ, and 1.
        return kl_gaussian_gaussian(p, q)
    factor_p, factor_q = torch.broadcast_tensors(working(factor_p), working(factor_q))  # type: ignore[no-untyped-call]
    (loc_p, diagonal_p), (loc_q, diagonal_q) = (read(d, "loc", "_unbroadcasted_cov_diag") for d in (p, q))
    diagonal_p, diagonal_q = torch.broadcast_tensors(diagonal_p, diagonal_q)  # type: ignore[no-untyped-call]

    def matrix_part(factor: Tensor, diagonal: Tensor) -> Tensor:
        """Twice the divergence of equal means, up to log det C_p."""
        scale = diagonal.sqrt().unsqueeze(-1)
        outer, inner, log_det = _root(factor / scale)
        rho = diagonal_p / diagonal
        column = factor_p / scale
        column = column - inner.mT @ (outer @ column)
        of_diagonal = (rho - 1 - torch.log(rho) - rho * outer.square().sum(-2)).sum(-1)
        twice: Tensor = of_diagonal + column.square().sum((-2, -1)) + log_det
        return twice

    far = matrix_part(factor_q, diagonal_q) - _root(factor_p / diagonal_p.sqrt().unsqueeze(-1))[2]
    near = far.detach() < _NEAR
    if not known_true(~near):
        start = factor_p, diagonal_p
        delta = factor_q - factor_p, diagonal_q - diagonal_p
        delta = torch.where(near[..., None, None], delta[0], 0.0), torch.where(near[..., None], delta[1], 0.0)
        far = torch.where(near, taylor_remainder(matrix_part, start, delta, _REMAINDER), far)
    scale = diagonal_q.sqrt().unsqueeze(-1)
    outer, inner, _ = _root(factor_q / scale)
    offset = (loc_p - loc_q).unsqueeze(-1) / scale
    shift = offset - inner.mT @ (outer @ offset)
    value: Tensor = 0.5 * (far + shift.square().sum((-2, -1)))
    return value


def _root(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """o, i and log det C."""
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    lower = torch.linalg.cholesky(eye + a.mT @ a)
    outer = torch.linalg.solve_triangular(lower, a.mT, upper=False)
    inner = torch.linalg.solve_triangular(lower + eye, a.mT, upper=False)
    return outer, inner, 2 * _log_det(lower)


@register(MultivariateNormal, LowRankMultivariateNormal, source=f"{SOURCE}; apart by the capacitance matrix of q")
def kl_gaussian_low_rank(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    """In O(n²k) by Woodbury's identity where little of it cancels, else by the factors of both."""
    lower, (loc_p,), factor = lower_factor(p).tril(), read(p, "loc"), working(q._unbroadcasted_cov_factor)
    loc_q, diagonal_q = read(q, "loc", "_unbroadcasted_cov_diag")
    if is_traced() or factor.shape[-1] >= factor.shape[-2]:
        return kl_gaussian_gaussian(p, q)
    scale = diagonal_q.sqrt().unsqueeze(-1)
    a, x, y = factor / scale, lower / scale, (loc_p - loc_q).unsqueeze(-1) / scale
    outer, _, log_det_q = _root(a)

    def squared(z: Tensor) -> Tensor:
        inside: Tensor = (outer @ z).square().sum((-2, -1))
        return z.square().sum((-2, -1)) - inside

    log_det = _log_det(lower) - log_det_q / 2 - scale.log().sum((-2, -1))
    value: Tensor = 0.5 * (squared(x) - x.shape[-1] + squared(y)) - log_det
    cancelled = value < _LARGE_SHARE * (x.square().sum((-2, -1)) + x.shape[-1])
    return torch.where(cancelled, kl_gaussian_gaussian(p, q), value) if bool(cancelled.any()) else value


def _log_det(lower: Tensor) -> Tensor:
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)
