"""KL(MultivariateNormal ‖ q), and of the other Gaussians in several dimensions: one formula for all."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Normal,
)

from kullback.kernels.factor_op import FactorOp, are_well_conditioned, compare_matrices, is_served
from kullback.pairs.gaussian_apart import compare_apart
from kullback.pairs.gaussian_gradients import with_derivatives
from kullback.pairs.gaussian_margins import split_after_gaussian, split_before_gaussian
from kullback.pairs.independent import unwrapped
from kullback.pairs.parameters import read
from kullback.pairs.registry import Reduced, register
from kullback.pairs.relative_factor import (
    NEAR,
    factor_difference,
    given,
    is_known,
    log1p_gaps,
    lower_factor,
    relative_factor,
    stored_factor,
    trace_minus_log_det,
)
from kullback.pairs.visible import hidden

Gaussian = MultivariateNormal | LowRankMultivariateNormal
SOURCE = "½[tr(Σ_q⁻¹Σ_p) − d − log det(Σ_q⁻¹Σ_p) + ‖L_q⁻¹Δμ‖²] from W = L_q⁻¹(L_p − L_q)"


@register(MultivariateNormal, LowRankMultivariateNormal, source=SOURCE)
def kl_gaussian_low_rank(p: Gaussian, q: Gaussian) -> Tensor:
    """Two Gaussians one of which has Σ = D + UUᵀ: by its parts, near equality by its factor.

    The factor of p loses digits only of derivatives, as it is not solved with.
    """
    if isinstance(q, MultivariateNormal) and not _is_followed(p, q):
        return kl_gaussian_gaussian(p, q)
    value, apart = compare_apart(p, q)
    if is_known(apart) and bool(apart.all()):
        return value
    return torch.where(apart, value, kl_gaussian_gaussian(p, q))


@register(MultivariateNormal, MultivariateNormal, source=SOURCE)
def kl_gaussian_gaussian(p: Gaussian, q: Gaussian) -> Tensor:
    """Non-negative terms only; factors that were not expanded are solved with once."""
    ways = {given(p), given(q)}
    quick = _without_derivatives(p, q)
    if quick is None:
        quick = _with_own_derivatives(p, q)
    if quick is not None:
        return quick
    refinable = ways <= {"covariance_matrix", "cov_factor"}
    if ways != {"precision_matrix"} and not (refinable and torch.compiler.is_compiling()):
        value, square = compare_factors(p.loc, stored_factor(p), q.loc, stored_factor(q))
        if not refinable or (is_known(square) and not bool((square < NEAR).any())):
            return value
    (loc_p,), (loc_q,) = read(p, "loc"), read(q, "loc")
    lower = lower_factor(q)
    shift = torch.linalg.solve_triangular(lower, (loc_p - loc_q).unsqueeze(-1), upper=False)
    divergence: Tensor = 0.5 * (trace_minus_log_det(*relative_factor(p, q, lower)) + shift.square().sum((-2, -1)))
    return divergence


# Rows from which factoring in float64 costs more than the comparison, and the smallest ‖W‖² for which the factors that
# torch made in float32 are as good as the matrices, if these are well conditioned.
_LARGE, _APART = 97, 1.0


def _without_derivatives(p: Gaussian, q: Gaussian) -> Tensor | None:
    """The divergence in one native pass, where the two are given in the same way; None where that cannot be."""
    way = given(p)
    if not isinstance(p, MultivariateNormal) or not isinstance(q, MultivariateNormal) or way != given(q):
        return None
    matrices = [_stored(d, way) for d in (p, q)]
    found = compare_matrices(way, p.loc, matrices[0], q.loc, matrices[1], NEAR)
    return _from_stored_factors(p, q, way) if found is None and p.loc.shape[-1] >= _LARGE else found


def _with_own_derivatives(p: Gaussian, q: Gaussian) -> Tensor | None:
    """The same where a gradient is wanted in covariances or precisions; None where that cannot be."""
    way = given(p)
    if not isinstance(p, MultivariateNormal) or not isinstance(q, MultivariateNormal) or way != given(q):
        return None
    if not torch.is_grad_enabled() or way not in {"covariance_matrix", "precision_matrix"}:
        return None
    with torch.no_grad():
        if not is_served(p.loc, _stored(p, way), q.loc, _stored(q, way)):
            return None
        quick = _without_derivatives(p, q)
        value = kl_gaussian_gaussian(p, q) if quick is None else quick
    if not bool(value.isfinite().all()):
        return None
    return with_derivatives(value, way, p, q, kl_gaussian_gaussian, by_factors=quick is not None)


def _is_followed(*laws: Gaussian) -> bool:
    """Whether derivatives may be wanted."""
    parameters = (x for law in laws for x in law.__dict__.values() if isinstance(x, Tensor))
    return hidden() or (torch.is_grad_enabled() and any(x.requires_grad for x in parameters))


def _stored(d: MultivariateNormal, way: str) -> Tensor:
    return d._unbroadcasted_scale_tril if way == "scale_tril" else cast("Tensor", getattr(d, way))


def _from_stored_factors(p: MultivariateNormal, q: MultivariateNormal, way: str) -> Tensor | None:
    """The divergence of large matrices from the factors given, or made by torch; None where that costs digits.

    A factor that torch made is that of a matrix within a few ulp of the stored one, which changes the divergence by
    c·κ·eps. Of laws that are apart, in float32 also well conditioned, that is a few ulp; others are factored anew.
    """
    lower_p, lower_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    single = p.loc.dtype is torch.float32 and way != "scale_tril"
    traces = p.loc.new_empty((*p.loc.shape[:-1], 4), dtype=torch.float64) if single else None
    compared = compare_factors.without_derivatives(p.loc, lower_p, q.loc, lower_q, traces)
    if compared is None or way == "scale_tril":
        return None if compared is None else compared[0]
    value, square = compared
    if not bool((square > (_APART if single else NEAR)).all()):
        return None
    return value if traces is None or are_well_conditioned(traces, p.loc.shape[-1]) else None


def _compare_factors(
    loc_p: Tensor, lower_p: Tensor, loc_q: Tensor, lower_q: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The divergence from the factors as they are, ‖W‖², W and y."""
    y = torch.linalg.solve_triangular(lower_q, (loc_p - loc_q).unsqueeze(-1), upper=False).squeeze(-1)
    w, log_diagonal = factor_difference(lower_p, lower_q)
    square = w.square().sum((-2, -1))
    value = 0.5 * (square + y.square().sum(-1)) + log1p_gaps(w, log_diagonal)
    return value, square.detach().expand(value.shape), w, y


compare_factors = FactorOp(_compare_factors)


def _as_gaussian(d: Independent[Distribution]) -> Distribution | None:
    """Independent normal dimensions as one Gaussian; the inner distribution where nothing is reinterpreted."""
    base, dims = unwrapped(d)
    if not dims:
        return base
    if isinstance(base, Normal) and dims == 1 and not base.event_shape:
        return MultivariateNormal(base.loc, scale_tril=torch.diag_embed(base.scale), validate_args=False)
    return None


_SPLIT = "independent normals are a Gaussian; other laws split at the Gaussian of the same margins"


@register(Independent, MultivariateNormal, method="structure", source=_SPLIT)
@register(Independent, LowRankMultivariateNormal, method="structure", source=_SPLIT)
def kl_independent_gaussian(p: Independent[Distribution], q: Gaussian) -> Reduced | None:
    """A diagonal factor; None for dimensions that are not normal and have no moments here."""
    gaussian = _as_gaussian(p)
    return split_before_gaussian(p, q) if gaussian is None else Reduced(gaussian, q)


@register(MultivariateNormal, Independent, method="structure", source=_SPLIT)
@register(LowRankMultivariateNormal, Independent, method="structure", source=_SPLIT)
def kl_gaussian_independent(p: Gaussian, q: Independent[Distribution]) -> Reduced | None:
    """A diagonal factor, or one law per dimension; None if q has more than one dimension in common."""
    gaussian = _as_gaussian(q)
    return split_after_gaussian(p, q) if gaussian is None else Reduced(p, gaussian)
