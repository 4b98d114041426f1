"""KL(MultivariateNormal ‖ q), and of the other Gaussians in several dimensions: one formula for all."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Normal,
)

from kullback.pairs.gaussian.margins import split_after_gaussian, split_before_gaussian
from kullback.pairs.gaussian.relative_factor import (
    NEAR,
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
from kullback.pairs.parameters import read
from kullback.pairs.registry import Reduced, register
from kullback.pairs.structure import unwrapped

Gaussian = MultivariateNormal | LowRankMultivariateNormal
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


def _as_gaussian(d: Independent[Distribution]) -> Distribution | None:
    """Independent normal dimensions as one Gaussian; the inner distribution where nothing is reinterpreted."""
    base, dims = unwrapped(d)
    if not dims:
        return base
    if isinstance(base, Normal) and dims == 1 and not base.event_shape:
        return MultivariateNormal(base.loc, scale_tril=torch.diag_embed(base.scale), validate_args=False)
    return None


_SPLIT = "independent normals are a Gaussian; others split at the Gaussian of the same margins"


@register(Independent, MultivariateNormal, method="structure", source=_SPLIT)
@register(Independent, LowRankMultivariateNormal, method="structure", source=_SPLIT)
def kl_independent_gaussian(p: Independent[Distribution], q: Gaussian) -> Reduced | None:
    """A diagonal factor; None for dimensions that are not normal and have no moments here."""
    gaussian = _as_gaussian(p)
    return split_before_gaussian(p, q) if gaussian is None else Reduced(gaussian, q)


@register(MultivariateNormal, Independent, method="structure", source=_SPLIT)
@register(LowRankMultivariateNormal, Independent, method="structure", source=_SPLIT)
def kl_gaussian_independent(p: Gaussian, q: Independent[Distribution]) -> Reduced | None:
    """A diagonal factor, or one distribution per dimension; None if q has more than one dimension in common."""
    gaussian = _as_gaussian(q)
    return split_after_gaussian(p, q) if gaussian is None else Reduced(p, gaussian)
