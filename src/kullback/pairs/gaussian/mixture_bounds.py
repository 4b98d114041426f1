"""Bounds of KL(f ‖ g) for Gaussian mixtures f = Σ π_a f_a, g = Σ ω_b g_b in several dimensions.

No deterministic method gives the divergence itself. With D the divergences between components and H their entropies,
and for any mixture h = Σ w_j h_j the two ends of E_{f_a} log h are

    log Σ_j w_j e^(E_{f_a} log h_j)   ≤   E_{f_a} log h   ≤   E_{f_a} log r + log Σ_j w_j E_{f_a}[h_j/r]

(the variational bound; Jensen's inequality with any positive function r, here products of powers of f_a and of the
component of h next to it, the power 0 included). Their difference for h = f and h = g bounds KL from both sides: with
r = 1 these are the bounds of Durrieu, Thiran and Kelly (2012). Three more hold, and the best of all is taken:

    KL ≤ Σ_ab φ_ab·[log(φ_ab/ψ_ab) + D(f_a ‖ g_b)],  Σ_b φ_ab = π_a, Σ_a ψ_ab = ω_b
        (data processing; Hershey and Olsen's variational bound, by alternating minimisation);
    E_f log f ≤ Σ_a π_a·[log Σ_α π_α e^(−B(f_a, f_α)) − H(f_a)],  B the Bhattacharyya distance (Kolchinsky and Tracey);
    KL ≥ 0.

The product and the variational approximations of Hershey and Olsen are not bounds and are not used.

References:
    Hershey, Olsen, "Approximating the Kullback Leibler divergence between Gaussian mixture models", ICASSP 2007.
    Durrieu, Thiran, Kelly, "Lower and upper bounds for approximation of the Kullback-Leibler divergence between
        Gaussian mixture models", ICASSP 2012.
    Kolchinsky, Tracey, "Estimating mixture entropy with pairwise distances", Entropy 19 (2017).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    LowRankMultivariateNormal,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

from kullback._core.shapes import joint_shape
from kullback.pairs.dispatch import BOUNDS, KLResult
from kullback.pairs.parameters import gives_logits, read, result_dtype, working
from kullback.pairs.registry import Rule

# Powers of f_a and of the component of h next to it in r.
_POWERS = [(0.0, 0.0)] + [(0.0, k) for k in (0.25, 0.5, 0.75, 0.9, 1.0)] + [(k, 0.0) for k in (0.25, 0.5, 0.75, 1.0)]
_POWERS += [(k, 1 - k) for k in (0.25, 0.5, 0.75)]
_ITERATIONS = 40
_LOG_TAU = math.log(2 * math.pi)
# Of the sizes of the logarithms that are added up.
_ROUNDING = 64 * torch.finfo(torch.float64).eps


class Components(NamedTuple):
    """Components in the dimension before those of the event.

    Attributes:
        log_weight: (..., K), logarithms of the weights.
        loc: (..., K, d).
        factor: (..., K, d, d), lower triangular.
    """

    log_weight: Tensor
    loc: Tensor
    factor: Tensor


def _is_gaussian_mixture(distribution: Distribution) -> bool:
    """Whether a distribution is a mixture of Gaussians over vectors, or one Gaussian."""
    inner = distribution.component_distribution if isinstance(distribution, MixtureSameFamily) else distribution
    if isinstance(inner, Independent):
        base = inner.base_dist
        return isinstance(base, Normal) and inner.reinterpreted_batch_ndims == 1
    return isinstance(inner, MultivariateNormal | LowRankMultivariateNormal)


def _components(distribution: Distribution) -> Components:
    """Weights, means and factors."""
    if isinstance(distribution, MixtureSameFamily):
        loc, factor = _loc_and_factor(distribution.component_distribution)
        return Components(_log_weights(distribution), loc, factor)
    loc, factor = (part.unsqueeze(-1 - dims) for dims, part in enumerate(_loc_and_factor(distribution), start=1))
    return Components(torch.zeros_like(loc[..., 0]), loc, factor)


def _log_weights(mixture: MixtureSameFamily) -> Tensor:
    """Logarithms of the weights, components last, in the batch shape of the mixture."""
    weights = mixture.mixture_distribution
    if gives_logits(weights):
        (logs,) = read(weights, "logits")
    else:
        (probs,) = read(weights, "probs")
        some = probs > 0
        logs = torch.where(some, torch.log(torch.where(some, probs, 1.0)), -math.inf)
    # log1p of the others' sum: against a weight of 1e-12 the share of the largest is 1 to twelve digits.
    top, place = logs.max(-1, keepdim=True)
    here = torch.arange(logs.shape[-1], device=logs.device) == place
    others = torch.exp(torch.where(here, -math.inf, logs - top)).sum(-1, keepdim=True)
    shares = logs - top - torch.log1p(others)
    return shares.expand(*mixture.batch_shape, shares.shape[-1])


def _loc_and_factor(distribution: Distribution) -> tuple[Tensor, Tensor]:
    if isinstance(distribution, Independent):
        base = distribution.base_dist
        return working(base.loc), torch.diag_embed(working(base.scale))
    loc = working(distribution.mean)
    if isinstance(distribution, MultivariateNormal):
        return loc, working(distribution._unbroadcasted_scale_tril).expand(*loc.shape, loc.shape[-1])
    assert isinstance(distribution, LowRankMultivariateNormal)
    diagonal, factor = working(distribution._unbroadcasted_cov_diag), working(distribution._unbroadcasted_cov_factor)
    covariance = torch.diag_embed(diagonal) + factor @ factor.mT
    return loc, torch.linalg.cholesky(covariance).expand(*loc.shape, loc.shape[-1])


def _divergences(f: Components, g: Components) -> Tensor:
    """KL(f_a ‖ g_b) as (..., K_f, K_g)."""
    f_factor, g_factor = f.factor.unsqueeze(-3), g.factor.unsqueeze(-4)
    shape = joint_shape(f_factor.shape, g_factor.shape)
    f_factor, g_factor = f_factor.expand(shape), g_factor.expand(shape)
    shift = (f.loc.unsqueeze(-2) - g.loc.unsqueeze(-3)).unsqueeze(-1)
    solved: Tensor = torch.linalg.solve_triangular(g_factor, torch.cat([f_factor - g_factor, shift], -1), upper=False)
    w = solved[..., :-1]
    diagonal = w.diagonal(dim1=-2, dim2=-1)
    # With M = I + W lower triangular, ‖M‖² − d − 2·log det M = ‖W‖² + 2·Σ(w_ii − log(1 + w_ii)).
    log_terms = diagonal - torch.log1p(diagonal)
    return (w.square().sum((-2, -1)) + 2 * log_terms.sum(-1) + solved[..., -1].square().sum(-1)) / 2


def _entropies(f: Components) -> Tensor:
    """H(f_a)."""
    d = f.loc.shape[-1]
    return f.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) + d * (1 + math.log(2 * math.pi)) / 2


class Bounds(NamedTuple):
    """lower ≤ KL ≤ upper but for `rounding`."""

    lower: Tensor
    upper: Tensor
    rounding: Tensor


def bounded(p: Distribution, q: Distribution) -> bool:
    """Whether `bounds` answers the pair."""
    return bool(p.event_shape) and _is_gaussian_mixture(p) and _is_gaussian_mixture(q)


def bounds(p: Distribution, q: Distribution) -> Bounds:
    """Both ends, differentiable in all parameters."""
    f, g = _components(p), _components(q)
    between, own, entropy = _divergences(f, g), _divergences(f, f), _entropies(f)
    share, log_share = torch.exp(f.log_weight), f.log_weight
    low_f, low_g = _variational(own, f), _variational(between, g)
    high_f, high_g = _jensen(f, f, own), _jensen(f, g, between)
    # The entropy of f_a is common to all of these and left out.
    lower = (share * (low_f - high_g)).sum(-1).clamp_min(0.0)
    tracey = (share * torch.logsumexp(log_share.unsqueeze(-2) - _bhattacharyya(f), -1)).sum(-1)
    upper = torch.minimum(tracey, (share * high_f).sum(-1)) - (share * low_g).sum(-1)
    upper = torch.minimum(upper, _transport(f, g, between))
    sizes = (share * (entropy.abs() + low_f.abs() + low_g.abs() + high_g.abs())).sum(-1)
    rounding = _ROUNDING * (sizes + upper.abs()).detach()
    return Bounds(torch.minimum(lower, upper.clamp_min(0.0)), upper.clamp_min(0.0), rounding)


def _variational(divergence: Tensor, h: Components) -> Tensor:
    """The lower end of E_{f_a} log h + H(f_a)."""
    return torch.logsumexp(h.log_weight.unsqueeze(-2) - divergence, -1)


def _jensen(f: Components, h: Components, divergence: Tensor) -> Tensor:
    """The upper end of E_{f_a} log h + H(f_a); exact if h has one component."""
    if h.loc.shape[-2] == 1:
        return -divergence.squeeze(-1)
    entropy = _entropies(f)
    nearest = (divergence.detach() - h.log_weight.unsqueeze(-2).detach()).argmin(-1)
    beside = divergence.gather(-1, nearest.unsqueeze(-1)).squeeze(-1)
    ends = [
        _log_tilted(f, h, nearest, own, other) + (1 - own) * entropy - other * (entropy + beside)
        for own, other in _POWERS
    ]
    return torch.stack(ends).amin(0)


def _log_tilted(f: Components, h: Components, nearest: Tensor, own: float, other: float) -> Tensor:
    """Log Σ_j w_j E_{f_a}[h_j·f_a^(−own)·h_n^(−other)], n the nearest component; infinite where the integral is."""
    precision_f, precision_h = _precision(f).unsqueeze(-3), _precision(h).unsqueeze(-4)
    offset = (h.loc.unsqueeze(-3) - f.loc.unsqueeze(-2)).unsqueeze(-1)
    log_det_f, log_det_h = _log_det(f).unsqueeze(-1), _log_det(h).unsqueeze(-2)
    pull = precision_h @ offset
    cost = (offset * pull).sum((-2, -1))
    shape = pull.shape[:-2]
    index = nearest.expand(shape[:-1]).unsqueeze(-1)
    tilt_precision, tilt_pull = (
        part.expand(*shape, *part.shape[-2:]).gather(-3, index[..., None, None].expand(*index.shape, *part.shape[-2:]))
        for part in (precision_h, pull)
    )
    tilt_cost, tilt_log_det = (part.expand(shape).gather(-1, index) for part in (cost, log_det_h))
    precision = (1 - own) * precision_f + precision_h - other * tilt_precision
    pulled, log_det, proper = _solve(precision, pull - other * tilt_pull)
    log_norm = ((1 - own) * log_det_f + log_det_h - other * tilt_log_det - log_det) / 2
    exponent = (pulled - cost + other * tilt_cost) / 2
    terms = log_norm + exponent - (1 - own - other) * f.loc.shape[-1] * _LOG_TAU / 2
    absent = h.log_weight.unsqueeze(-2) == -math.inf
    total = torch.logsumexp(h.log_weight.unsqueeze(-2) + torch.where(proper, terms, 0.0), -1)
    return torch.where((proper | absent).all(-1), total, math.inf)


def _solve(precision: Tensor, pull: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """pullᵀ·precision⁻¹·pull, log det(precision), and whether the matrix is positive definite."""
    info = torch.linalg.cholesky_ex(precision.detach()).info
    proper = info == 0
    safe = torch.where(
        proper[..., None, None],
        precision,
        torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device),
    )
    factor = torch.linalg.cholesky_ex(safe).L
    solved = torch.linalg.solve_triangular(factor, pull, upper=False)
    return solved.square().sum((-2, -1)), 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1), proper


def _precision(f: Components) -> Tensor:
    inverse: Tensor = torch.linalg.solve_triangular(
        f.factor, torch.eye(f.loc.shape[-1], dtype=f.factor.dtype, device=f.factor.device), upper=False
    )
    return inverse.mT @ inverse


def _log_det(f: Components) -> Tensor:
    """Of the precision."""
    return -2 * f.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _bhattacharyya(f: Components) -> Tensor:
    """B(f_a, f_α) = ⅛Δᵀ S⁻¹Δ + ½log(det S/√(det Σ_a·det Σ_α)), S the mean of the covariances; 0 for a = α."""
    covariance = f.factor @ f.factor.mT
    middle = torch.linalg.cholesky((covariance.unsqueeze(-3) + covariance.unsqueeze(-4)) / 2)
    shift = (f.loc.unsqueeze(-2) - f.loc.unsqueeze(-3)).unsqueeze(-1)
    solved = torch.linalg.solve_triangular(middle, shift, upper=False)
    log_det = _log_det(f)
    spread = middle.diagonal(dim1=-2, dim2=-1).log().sum(-1) + (log_det.unsqueeze(-1) + log_det.unsqueeze(-2)) / 4
    distance = solved.square().sum((-2, -1)) / 8 + spread
    same = torch.eye(f.loc.shape[-2], dtype=torch.bool, device=distance.device)
    return torch.where(same, 0.0, distance.clamp_min(0.0))


def _transport(f: Components, g: Components, divergence: Tensor) -> Tensor:
    """The variational upper bound, from two starts: all components shared among all, and each given to its nearest.

    The plan is found without derivatives: at a minimum its own change does not matter, and anywhere else the bound
    holds, too.
    """
    log_f, log_g = f.log_weight.unsqueeze(-1), g.log_weight.unsqueeze(-2)
    with torch.no_grad():
        nearest = torch.zeros_like(divergence).scatter(-1, divergence.argmin(-1, keepdim=True), 1.0)
        starts = [torch.zeros_like(divergence) + torch.exp(log_g), nearest]
        plans = [_plan(start, torch.exp(log_f), torch.exp(log_g), divergence) for start in starts]
    found = []
    for rows, columns in plans:
        used = (rows > 0) & (columns > 0) & (log_f > -math.inf) & (log_g > -math.inf)
        unusable = ((rows > 0) & (log_f > -math.inf) & ~used).any(-1).any(-1)
        log_rows, log_columns = (torch.log(torch.where(used, part, 1.0)) for part in (rows, columns))
        inner_f, inner_g = (torch.where(used, part, 0.0) for part in (log_f, log_g))
        cost = torch.where(used, inner_f + log_rows - inner_g - log_columns + divergence, 0.0)
        total = (torch.where(used, torch.exp(inner_f) * rows, 0.0) * cost).sum((-2, -1))
        found.append(torch.where(unusable, math.inf, total))
    best: Tensor = torch.minimum(*found)
    return best


def _plan(rows: Tensor, f: Tensor, g: Tensor, divergence: Tensor) -> tuple[Tensor, Tensor]:
    """φ_ab/π_a and ψ_ab/ω_b after alternating minimisation; rows of the first and columns of the second sum to 1."""
    least = divergence.amin(-1, keepdim=True)
    columns = rows
    for _ in range(_ITERATIONS):
        columns = _normalised(f * rows, -2)
        rows = _normalised(g * columns * torch.exp(least - divergence), -1)
    return rows, _normalised(f * rows, -2)


def _normalised(parts: Tensor, dim: int) -> Tensor:
    total = parts.sum(dim, keepdim=True)
    some = total > 0
    return torch.where(some, parts / torch.where(some, total, 1.0), 1 / parts.shape[dim])


def kl_between_bounds(p: Distribution, q: Distribution) -> KLResult:
    """The middle of the interval, differentiable, and half its width, roundings included."""
    lower, upper, rounding = bounds(p, q)
    dtype = result_dtype(p, q)
    shape = joint_shape(p.batch_shape, q.batch_shape)
    value = ((lower + upper) / 2).to(dtype)
    error = (upper - lower).detach() / 2 + rounding + torch.finfo(dtype).eps * value.detach().abs()
    return KLResult(value.expand(shape), error.to(dtype).expand(shape), "bounds", certified=True)


def rule_for(p: Distribution, q: Distribution) -> Rule | None:
    """The rule that gives an interval, for mixtures whose divergence nothing gives."""
    return Rule(type(p), type(q), kl_between_bounds, BOUNDS, "bounds by the components") if bounded(p, q) else None
