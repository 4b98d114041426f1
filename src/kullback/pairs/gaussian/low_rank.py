r"""KL(LowRankMultivariateNormal ‖ itself), Σ = D + UUᵀ in O(n·k²): no n × n matrix is formed. Called by `dispatch`.

With A = D_q^{-½}U_q and C = I + AᵀA = KKᵀ, a square root of the whitened inverse needs only k × k factors:

    (I + AAᵀ)⁻¹ = FFᵀ,    F = I − oᵀi,    o = K⁻¹Aᵀ,  i = (I + K)⁻¹Aᵀ,    FᵀA = iᵀ·K⁻¹(I + K).

The difference of the two matrices is E = Fᵀ[ρ + ΔB·(A + ΔB)ᵀ + A·ΔBᵀ]F with ρ = D_p/D_q − 1 and
ΔB = D_q^{-½}(U_p − U_q), exact near equality, and 2KL = tr E − log det(I + E) + ‖FᵀD_q^{-½}Δμ‖². As E = ρ + VSVᵀ with
the 4k columns V = [iᵀ, ρoᵀ, FᵀΔB, FᵀA],

    tr E − log det(I + E) = Σ [ρ − log(1+ρ)] + tr(S·Vᵀρ(1+ρ)⁻¹V) + f(S·Vᵀ(1+ρ)⁻¹V),    f(M) = tr M − log det(I + M),

every term of second order; for small M, f(M) = ∫₀¹ t·tr(M(I + tM)⁻¹M)dt by eight of Gauss's nodes. Away from equality
the determinants of both capacitance matrices take the place of f.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import LowRankMultivariateNormal, MultivariateNormal

from kullback._core.gauss_legendre import gauss_legendre
from kullback._core.shapes import joint_shape
from kullback._core.special.exp_log import log_ratio
from kullback.densities.parameters import read, working
from kullback.kernels.levels import is_traced, known_true
from kullback.pairs.gaussian.multivariate_normal import SOURCE, kl_gaussian_gaussian
from kullback.pairs.gaussian.relative_factor import NEAR, lower_factor, same_rank
from kullback.pairs.registry import register
from kullback.special import log1pmx

_RULE = gauss_legendre(8)
# Scales below this are not divided out of V.
_TINY = 1e-30
_NOT_NORMAL = 100.0
# A divergence above this share of what it is the difference of has lost two digits at most.
_LARGE_SHARE = 0.01


class _Change(NamedTuple):
    """What E consists of.

    Attributes:
        rho: D_p/D_q − 1.
        log_diagonal: log(D_p/D_q).
        outer: K⁻¹Aᵀ, k × n.
        inner: (I + K)⁻¹Aᵀ, k × n.
        root_moved: FᵀΔB, n × k.
        root_a: FᵀA, n × k.
    """

    rho: Tensor
    log_diagonal: Tensor
    outer: Tensor
    inner: Tensor
    root_moved: Tensor
    root_a: Tensor


@register(
    LowRankMultivariateNormal,
    LowRankMultivariateNormal,
    source="½[tr E − log det(I + E) + ‖Fᵀ D_q^{-½}Δμ‖²], FFᵀ = (I + AAᵀ)⁻¹ by the capacitance matrix, in O(n·k²)",
)
def kl_low_rank_low_rank(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    """See the head of this file."""
    factor_p, factor_q = same_rank(p._unbroadcasted_cov_factor, q._unbroadcasted_cov_factor)
    if factor_p.shape[-1] >= factor_p.shape[-2]:
        # I + AᵀA would have the eigenvalues of I + AAᵀ, and 1.
        return kl_gaussian_gaussian(p, q)
    factor_p, factor_q = working(factor_p), working(factor_q)
    (loc_p, diagonal_p), (loc_q, diagonal_q) = (read(d, "loc", "_unbroadcasted_cov_diag") for d in (p, q))
    scale = diagonal_q.sqrt().unsqueeze(-1)
    a, moved = factor_q / scale, (factor_p - factor_q) / scale
    capacitance = torch.linalg.cholesky(_eye(a.shape[-1], a) + a.mT @ a)
    plus = capacitance + _eye(a.shape[-1], a)
    solve = torch.linalg.solve_triangular
    inner, outer = solve(plus, a.mT, upper=False), solve(capacitance, a.mT, upper=False)
    root_a = inner.mT @ solve(capacitance, plus, upper=False)
    rho = (diagonal_p - diagonal_q) / diagonal_q
    log_diagonal = log_ratio(diagonal_p, diagonal_q)
    # A column of U_p that is smaller than its difference from U_q's keeps its own rounding errors.
    column = factor_p / scale
    own_is_less = (column.detach().square().sum(-2) < moved.detach().square().sum(-2)).unsqueeze(-2)
    moved = torch.where(own_is_less, column, moved)
    root_moved = moved - inner.mT @ (outer @ moved) - torch.where(own_is_less, root_a, 0.0)
    change = _Change(rho, log_diagonal, outer, inner, root_moved, root_a)
    own = factor_p / diagonal_p.sqrt().unsqueeze(-1)
    capacitance_p = torch.linalg.cholesky(_eye(own.shape[-1], own) + own.mT @ own)
    log_det = 2 * (_log_det(capacitance_p) - _log_det(capacitance))
    offset = (loc_p - loc_q).unsqueeze(-1) / scale
    shift = offset - inner.mT @ (outer @ offset)
    value: Tensor = 0.5 * (_matrix_part(change, log_det) + shift.square().sum((-2, -1)))
    # What rounding left below 0 is taken off without its derivative.
    return value - value.detach().clamp_max(0.0)


@register(MultivariateNormal, LowRankMultivariateNormal, source=f"{SOURCE}; apart by the capacitance matrix of q")
def kl_gaussian_low_rank(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    """In O(n²k) by Woodbury's identity where little of it cancels, else by the factors of both."""
    lower, (loc_p,), factor = lower_factor(p).tril(), read(p, "loc"), working(q._unbroadcasted_cov_factor)
    loc_q, diagonal_q = read(q, "loc", "_unbroadcasted_cov_diag")
    if is_traced() or factor.shape[-1] >= factor.shape[-2]:
        return kl_gaussian_gaussian(p, q)
    scale = diagonal_q.sqrt().unsqueeze(-1)
    a, x, y = factor / scale, lower / scale, (loc_p - loc_q).unsqueeze(-1) / scale
    capacitance = torch.linalg.cholesky(_eye(a.shape[-1], a) + a.mT @ a)
    outer = torch.linalg.solve_triangular(capacitance, a.mT, upper=False)

    def squared(z: Tensor) -> Tensor:
        inside: Tensor = (outer @ z).square().sum((-2, -1))
        return z.square().sum((-2, -1)) - inside

    log_det = _log_det(lower) - _log_det(capacitance) - scale.log().sum((-2, -1))
    value: Tensor = 0.5 * (squared(x) - x.shape[-1] + squared(y)) - log_det
    cancelled = value < _LARGE_SHARE * (x.square().sum((-2, -1)) + x.shape[-1])
    return torch.where(cancelled, kl_gaussian_gaussian(p, q), value) if bool(cancelled.any()) else value


def _matrix_part(c: _Change, log_det: Tensor) -> Tensor:
    """The trace of E minus log det(I + E); `log_det` is that of the capacitance matrices."""
    small = c.rho.abs() < 0.5
    diagonal = torch.where(small, -log1pmx(torch.where(small, c.rho, 0.0)), c.rho - c.log_diagonal).sum(-1)
    moved = (c.root_moved * (2 * c.root_a + c.root_moved)).sum((-2, -1))
    far = moved - (c.rho * c.outer.square().sum(-2)).sum(-1) - log_det
    if known_true(~small.all(-1)):
        return diagonal + far
    close, near = _second_order(c._replace(rho=torch.where(small.all(-1, keepdim=True), c.rho, 0.0)))
    return diagonal + torch.where(near & small.all(-1), close, far)


def _second_order(c: _Change) -> tuple[Tensor, Tensor]:
    """tr(S·Vᵀρ(1+ρ)⁻¹V) + f(S·Vᵀ(1+ρ)⁻¹V), and where it holds.

    ρ and FᵀΔB are small; V has them divided by their norms and S multiplied, so that M is small in every entry.
    """
    k = c.root_a.shape[-1]
    changed = c.rho.unsqueeze(-1) * c.outer.mT
    by_rho, by_moved = (x.detach().square().sum((-2, -1)).sqrt().clamp_min(_TINY) for x in (changed, c.root_moved))
    shape = joint_shape(changed.shape, c.root_moved.shape)
    by_rho, by_moved = by_rho[..., None, None], by_moved[..., None, None]
    columns = (c.inner.mT, changed / by_rho, c.root_moved / by_moved, c.root_a)
    v = torch.cat([column.expand(shape) for column in columns], -1)
    eye = _eye(k, c.root_a)
    zero = torch.zeros_like(eye)
    batch = shape[:-2]

    def blocks(*rows: tuple[Tensor, ...]) -> Tensor:
        return torch.cat([torch.cat([x.expand(*batch, k, k) for x in row], -1) for row in rows], -2)

    s = blocks(
        (c.outer @ changed, -by_rho * eye, zero, zero),
        (-by_rho * eye, zero, zero, zero),
        (zero, zero, by_moved * by_moved * eye, by_moved * eye),
        (zero, zero, by_moved * eye, zero),
    )
    rho = c.rho.unsqueeze(-1)
    middle = (s * (v.mT @ (rho / (1 + rho) * v))).sum((-2, -1))
    m = s @ (v.mT @ (v / (1 + rho)))
    # The eigenvalues of M are real, so that tr M² bounds their squares; M itself is larger where it is not normal.
    fixed = m.detach()
    near = ((fixed * fixed.mT).sum((-2, -1)) < NEAR) & (fixed.square().sum((-2, -1)) < _NOT_NORMAL * NEAR)
    if known_true(~near):
        return middle, near
    m = torch.where(near[..., None, None], m, 0.0)
    nodes = torch.tensor(_RULE.nodes, dtype=m.dtype, device=m.device)
    weights = torch.tensor(_RULE.weights, dtype=m.dtype, device=m.device)
    each = m.unsqueeze(-3)
    tilted = torch.linalg.solve(
        _eye(4 * k, m) + nodes[:, None, None] * each, each.expand(*batch, len(nodes), 4 * k, 4 * k)
    )
    integral = (weights * nodes * (each * tilted.mT).sum((-2, -1))).sum(-1)
    return middle + integral, near


def _log_det(lower: Tensor) -> Tensor:
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _eye(size: int, like: Tensor) -> Tensor:
    return torch.eye(size, dtype=like.dtype, device=like.device)
