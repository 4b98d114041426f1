"""KL(MultivariateNormal ‖ q), and of the other Gaussians in several dimensions: one formula; `dispatch` calls it."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import (
    Distribution,
    Independent,
    LowRankMultivariateNormal,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

from kullback.densities.parameters import read, working
from kullback.pairs.gaussian.relative_factor import (
    NEAR,
    Gaussian,
    compared_in,
    factor_difference,
    given,
    is_known,
    kl_of_similar,
    log1p_gaps,
    lower_factor,
    relative_factor,
    stored_factor,
    trace_minus_log_det,
)
from kullback.pairs.parameters import in_working_precision
from kullback.pairs.registry import Reduced, register
from kullback.pairs.structure import unwrapped

SOURCE = "½[tr(Σ_q⁻¹Σ_p) − d − log det(Σ_q⁻¹Σ_p) + ‖L_q⁻¹Δμ‖²] from W = L_q⁻¹(L_p − L_q)"


@register(LowRankMultivariateNormal, MultivariateNormal, source=SOURCE)
@register(MultivariateNormal, MultivariateNormal, source=SOURCE)
def kl_gaussian_gaussian(p: Gaussian, q: Gaussian) -> Tensor:
    """By the factors; where two matrices of one kind are near each other, W is refined from their difference.

    The factor of a covariance is that of a matrix within a few ulp of it, which changes the divergence by c·κ·eps.
    """
    tensors = p.loc, stored_factor(p), q.loc, stored_factor(q)
    dtype = compared_in(*tensors)
    loc_p, lower_p, loc_q, lower_q = (t if t.dtype is dtype else t.to(dtype) for t in tensors)
    value, solved = kl_of_similar(loc_p, lower_p, loc_q, lower_q) or _kl_of_factors(loc_p, lower_p, loc_q, lower_q)
    kinds = {given(p), given(q)}
    if "scale_tril" in kinds or ("precision_matrix" in kinds and len(kinds) > 1):
        return value
    w = solved.detach()[..., : lower_q.shape[-1]]
    if is_known(w) and not bool((w.square().sum((-2, -1)) < NEAR).any()):
        return value
    (loc_p,), (loc_q,) = read(p, "loc"), read(q, "loc")
    lower = lower_factor(q)
    shift = torch.linalg.solve_triangular(lower, (loc_p - loc_q).unsqueeze(-1), upper=False)
    divergence: Tensor = 0.5 * (trace_minus_log_det(*relative_factor(p, q, lower)) + shift.square().sum((-2, -1)))
    return divergence


def _kl_of_factors(loc_p: Tensor, lower_p: Tensor, loc_q: Tensor, lower_q: Tensor) -> tuple[Tensor, Tensor]:
    """The divergence, and W, for factors of any scales, whose values need not be looked at."""
    shift = torch.linalg.solve_triangular(lower_q, (loc_p - loc_q).unsqueeze(-1), upper=False)
    w, log_diagonal = factor_difference(lower_p, lower_q)
    return 0.5 * (w.square().sum((-2, -1)) + shift.square().sum((-2, -1))) + log1p_gaps(w, log_diagonal), w


_SPLIT = "independent normals are a Gaussian; others split at the Gaussian of the same margins"


@register(MultivariateNormal, Independent, method="structure", source=_SPLIT)
@register(LowRankMultivariateNormal, Independent, method="structure", source=_SPLIT)
def kl_gaussian_independent(p: Gaussian, q: Independent[Distribution]) -> Reduced | None:
    """KL(N(μ, Σ) ‖ N(μ, diag Σ)) + Σ KL(N(μᵢ, Σᵢᵢ) ‖ qᵢ): log ∏ qᵢ asks for nothing but the margins of p.

    None if q has more than one dimension in common.
    """
    inner, dims = unwrapped(q)
    if not dims or _is_normal_vector(inner, dims):
        return Reduced(p, inner if not dims else _joint(cast("Normal", inner)))
    if dims != 1 or inner.event_shape:
        return None
    margins = Normal(working(p.loc), _variance(p).sqrt(), validate_args=False)
    return Reduced(margins, inner, 1, plus=Reduced(p, _joint(margins)))


@register(Independent, MultivariateNormal, method="structure", source=_SPLIT)
@register(Independent, LowRankMultivariateNormal, method="structure", source=_SPLIT)
def kl_independent_gaussian(p: Independent[Distribution], q: Gaussian) -> Reduced | None:
    """KL(N(m, diag v) ‖ N(μ, Σ)) + Σ KL(pᵢ ‖ N(mᵢ, vᵢ)), m and v the moments of the pᵢ: log N(μ, Σ) is quadratic.

    None for dimensions without moments here.
    """
    inner, dims = unwrapped(p)
    if not dims or _is_normal_vector(inner, dims):
        return Reduced(inner if not dims else _joint(cast("Normal", inner)), q)
    if dims != 1 or inner.event_shape or not _has_moments(inner):
        return None
    wide = in_working_precision(inner)
    mean, variance = wide.mean, wide.variance
    # A distribution without a variance is infinitely far from any normal; from the standard one it is so without NaN.
    finite = mean.isfinite() & variance.isfinite()
    margins = Normal(torch.where(finite, mean, 0.0), torch.where(finite, variance, 1.0).sqrt(), validate_args=False)
    return Reduced(inner, margins, 1, plus=Reduced(_joint(margins), q))


def _is_normal_vector(inner: Distribution, dims: int) -> bool:
    return isinstance(inner, Normal) and dims == 1 and not inner.event_shape


def _joint(margins: Normal) -> MultivariateNormal:
    return MultivariateNormal(margins.loc, scale_tril=torch.diag_embed(margins.scale), validate_args=False)


def _variance(p: Gaussian) -> Tensor:
    """The diagonal of Σ, of the matrix that was given where that is Σ itself."""
    if isinstance(p, LowRankMultivariateNormal):
        return working(p._unbroadcasted_cov_diag) + working(p._unbroadcasted_cov_factor).square().sum(-1)
    if given(p) == "covariance_matrix":
        return working(p.covariance_matrix).diagonal(dim1=-2, dim2=-1)
    return working(p._unbroadcasted_scale_tril).square().sum(-1)


# Families whose moments torch gives to all digits.
_WITH_MOMENTS = (
    *(d.Beta, d.Exponential, d.Gamma, d.Gumbel, d.HalfNormal, d.Laplace, d.LogNormal, d.Normal, d.Pareto),
    *(d.StudentT, d.Uniform),
)


def _has_moments(p: Distribution) -> bool:
    return isinstance(p.component_distribution if isinstance(p, MixtureSameFamily) else p, _WITH_MOMENTS)
