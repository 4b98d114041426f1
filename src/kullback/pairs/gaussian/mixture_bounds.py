"""Bounds of KL(f ‖ g) for Gaussian mixtures f = Σ π_a f_a, g = Σ ω_b g_b in several dimensions; `registry` asks.

No deterministic method gives the divergence itself. With D the divergences between components, and for any mixture
h = Σ w_j h_j, the two ends of E_{f_a} log h are

    log Σ_j w_j e^(E_{f_a} log h_j)   ≤   E_{f_a} log h   ≤   E_{f_a} log r + log Σ_j w_j E_{f_a}[h_j/r]

(the variational bound; Jensen's inequality with any positive function r, here powers of the component of h near f_a,
the power 0 included). Their difference for h = f and h = g bounds KL from both sides: with r = 1 these are the bounds
of Durrieu, Thiran and Kelly (2012). Two more hold, and the best of all is taken:

    KL ≤ Σ_ab φ_ab·[log(φ_ab/ψ_ab) + D(f_a ‖ g_b)],  Σ_b φ_ab = π_a, Σ_a ψ_ab = ω_b
        (data processing; Hershey and Olsen's variational bound, by alternating minimisation);
    KL ≥ 0.

The product and the variational approximations of Hershey and Olsen are not bounds and are not used.

References:
    Hershey, Olsen, "Approximating the Kullback Leibler divergence between Gaussian mixture models", ICASSP 2007.
    Durrieu, Thiran, Kelly, "Lower and upper bounds for approximation of the Kullback-Leibler divergence between
        Gaussian mixture models", ICASSP 2012.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

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
from kullback.densities.parameters import gives_logits, read, working
from kullback.pairs.dispatch import BOUNDS, KLResult
from kullback.pairs.gaussian.relative_factor import Gaussian, log1p_gaps, lower_factor
from kullback.pairs.parameters import result_dtype
from kullback.pairs.registry import Rule
from kullback.special import rel_entr

# Powers in r of the component of h next to f_a.
_POWERS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
_ITERATIONS = 40
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
    shares = logs.log_softmax(-1)
    return shares.expand(*mixture.batch_shape, shares.shape[-1])


def _loc_and_factor(distribution: Distribution) -> tuple[Tensor, Tensor]:
    if isinstance(distribution, Independent):
        base = distribution.base_dist
        return working(base.loc), torch.diag_embed(working(base.scale))
    loc = working(distribution.mean)
    return loc, lower_factor(cast("Gaussian", distribution)).expand(*loc.shape, loc.shape[-1])


def _divergences(f: Components, g: Components) -> Tensor:
    """KL(f_a ‖ g_b) as (..., K_f, K_g)."""
    f_factor, g_factor = torch.broadcast_tensors(f.factor.unsqueeze(-3), g.factor.unsqueeze(-4))  # type: ignore[no-untyped-call]
    shift = (f.loc.unsqueeze(-2) - g.loc.unsqueeze(-3)).unsqueeze(-1)
    solved: Tensor = torch.linalg.solve_triangular(g_factor, torch.cat([f_factor - g_factor, shift], -1), upper=False)
    diagonal = solved.diagonal(dim1=-2, dim2=-1)
    return solved.square().sum((-2, -1)) / 2 + log1p_gaps(solved, torch.log1p(diagonal))


def _entropies(f: Components) -> Tensor:
    """H(f_a)."""
    d = f.loc.shape[-1]
    return f.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) + d * (1 + math.log(2 * math.pi)) / 2


def bounds(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor, Tensor]:
    """Both ends of an interval that contains KL, differentiable in all parameters, and their rounding."""
    f, g = _components(p), _components(q)
    between, own, entropy = _divergences(f, g), _divergences(f, f), _entropies(f)
    share = torch.exp(f.log_weight)
    low_f, low_g = _variational(own, f), _variational(between, g)
    high_f, high_g = _jensen(f, f, own), _jensen(f, g, between)
    # The entropy of f_a is common to all of these and left out.
    lower = (share * (low_f - high_g)).sum(-1).clamp_min(0.0)
    upper = torch.minimum((share * (high_f - low_g)).sum(-1), _transport(f, g, between)).clamp_min(0.0)
    sizes = (share * (entropy.abs() + low_f.abs() + low_g.abs() + high_g.abs())).sum(-1)
    return torch.minimum(lower, upper), upper, _ROUNDING * (sizes + upper).detach()


def _variational(divergence: Tensor, h: Components) -> Tensor:
    """The lower end of E_{f_a} log h + H(f_a)."""
    return torch.logsumexp(h.log_weight.unsqueeze(-2) - divergence, -1)


def _jensen(f: Components, h: Components, divergence: Tensor) -> Tensor:
    """The upper end of E_{f_a} log h + H(f_a); exact if h has one component."""
    if h.loc.shape[-2] == 1:
        return -divergence.squeeze(-1)
    nearest = (divergence.detach() - h.log_weight.unsqueeze(-2).detach()).argmin(-1)
    beside = divergence.gather(-1, nearest.unsqueeze(-1)).squeeze(-1)
    entropy = _entropies(f)
    ends = [_log_tilted(f, h, nearest, power) + entropy - power * (entropy + beside) for power in _POWERS]
    return torch.stack(ends).amin(0)


def _log_tilted(f: Components, h: Components, nearest: Tensor, power: float) -> Tensor:
    """Log Σ_j w_j E_{f_a}[h_j·h_n^(−power)], n the nearest component; infinite where the integral is."""
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
    pulled, log_det, proper = _solve(precision_f + precision_h - power * tilt_precision, pull - power * tilt_pull)
    log_norm = (log_det_f + log_det_h - power * tilt_log_det - log_det) / 2
    exponent = (pulled - cost + power * tilt_cost) / 2
    terms = log_norm + exponent - (1 - power) * f.loc.shape[-1] * math.log(2 * math.pi) / 2
    absent = h.log_weight.unsqueeze(-2) == -math.inf
    total = torch.logsumexp(h.log_weight.unsqueeze(-2) + torch.where(proper, terms, 0.0), -1)
    return torch.where((proper | absent).all(-1), total, math.inf)


def _solve(precision: Tensor, pull: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """pullᵀ·precision⁻¹·pull, log det(precision), and whether the matrix is positive definite."""
    proper = torch.linalg.cholesky_ex(precision.detach()).info == 0
    eye = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    factor = torch.linalg.cholesky_ex(torch.where(proper[..., None, None], precision, eye)).L
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
        # A share that is 0 has no derivative: its logarithm would have an infinite one.
        share_f, share_g = (
            torch.where(part > 0, part * torch.exp(log), 0.0) for part, log in ((rows, log_f), (columns, log_g))
        )
        found.append((rel_entr(share_f, share_g) + share_f * divergence).sum((-2, -1)))
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
    """The rule that gives an interval, for mixtures of Gaussians over vectors, or such a mixture and one Gaussian."""
    if not (p.event_shape and all(map(_is_gaussian_mixture, (p, q)))):
        return None
    return Rule(type(p), type(q), kl_between_bounds, BOUNDS, "bounds by the components")


def _is_gaussian_mixture(distribution: Distribution) -> bool:
    inner = distribution.component_distribution if isinstance(distribution, MixtureSameFamily) else distribution
    if isinstance(inner, Independent):
        return isinstance(inner.base_dist, Normal) and inner.reinterpreted_batch_ndims == 1
    return isinstance(inner, MultivariateNormal | LowRankMultivariateNormal)
