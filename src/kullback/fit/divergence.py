"""The divergence that a projection reports, with its error and where it comes from. Called by `project.py`."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import NoRouteError
from kullback.fit.families import Family
from kullback.fit.gaussian_expectation import expected_log_ratio
from kullback.fit.log_density import LogTarget, scan
from kullback.fit.log_prob import log_prob
from kullback.fit.nodes import MAX_PRODUCT_DIM, is_discrete, log_weighted_points, normal_points, pilot_samples
from kullback.fit.targets import Points
from kullback.pairs import kl_method, kl_with_error

_DRAWS = 1 << 15
_ADAPTATIONS = 4
_NEIGHBOURS, _WEIGHTED_NEIGHBOURS = 3, 8
_MAX_NEIGHBOUR_SAMPLES = 4096  # all pairs of distances are held at once


class Divergence(NamedTuple):
    """A value of batch shape, its error, and the method."""

    value: Tensor
    error: Tensor
    method: str


def between(p: Distribution, q: Distribution, seed: int) -> Divergence:
    """KL(p ‖ q) as `kullback.kl_with_error` has it, or from draws of p where that has no route."""
    if kl_method(p, q) is not None:
        try:
            result = kl_with_error(p, q)
            return Divergence(result.value, result.error, result.method)
        except (NoRouteError, NotImplementedError):
            pass
    x = pilot_samples(p, _DRAWS, seed + 1)
    with torch.no_grad():
        terms = (log_prob(p, x) - log_prob(q, x)).to(torch.float64)
    error = terms.std(0) / math.sqrt(_DRAWS)
    return Divergence(terms.mean(0).clamp(min=0.0), error, "Monte Carlo")


def of_points(points: Points, q: Distribution) -> Divergence:
    """KL(data ‖ q), where q has already batch shape (B,).

    Of whole numbers: from the relative frequencies, exactly. Of continuous samples: from the density that the nearest
    neighbours of each sample give, and a standard error.
    """
    x, w = points.x, points.w.expand(points.x.shape[:2])
    with torch.no_grad():
        log_q = log_prob(q, x)
        if is_discrete(q):
            value = torch.stack([_discrete(x[:, b], w[:, b], log_q[:, b]) for b in range(x.shape[1])])
            return Divergence(value, value.abs() * 1e-12, "frequencies")
        log_p = neighbour_log_density(x, w)
        if log_p is None:
            nan = torch.full((x.shape[1],), math.nan, dtype=torch.float64)
            return Divergence(nan, nan, "unknown: too few different samples")
        # Of many vectors only some have a density.
        log_q, w = (each[:: -(-len(x) // len(log_p))] for each in (log_q, w))
        w = w / w.sum(0)
        terms = log_p - log_q
        value = (w * terms).sum(0)
        error = (w * (terms - value)).square().sum(0).sqrt()
    return Divergence(value.clamp(min=0.0), error, "nearest neighbours")


def neighbour_log_density(x: Tensor, w: Tensor) -> Tensor | None:
    """The log-density of the distribution of x (n, B, …) at its own points, (n, B); None where points coincide.

    The k nearest neighbours have the mass M and lie in a ball of volume V, so that the density is near M/V. Its
    logarithm is too large by log k − ψ(k), because V is random (Kozachenko and Leonenko 1987), and too small by
    c²/(2k), because M is: c² is the squared coefficient of variation of the neighbours' weights.
    """
    stride = 1 if x.dim() == 2 else -(-len(x) // _MAX_NEIGHBOUR_SAMPLES)
    x, w = x[::stride], w[::stride] / w[::stride].sum(0)
    k = _NEIGHBOURS if bool((w == w[:1]).all()) else _WEIGHTED_NEIGHBOURS
    if len(x) <= k + 1:
        return None
    distance, masses = _nearest_on_the_line(x, w, k) if x.dim() == 2 else _nearest_vectors(x[:, 0], w[:, 0], k)
    mass = masses.sum(0)
    if not bool(((distance > 0) & (mass > 0)).all()):
        return None
    variation = masses.var(0) / (mass / k).square()
    dim = 1 if x.dim() == 2 else x.shape[-1]
    log_ball = dim / 2 * math.log(math.pi) - math.lgamma(dim / 2 + 1)
    known = float(torch.digamma(torch.tensor(float(k), dtype=torch.float64))) - math.log(k)
    return known + variation / (2 * k) + mass.log() - torch.log1p(-w) - log_ball - dim * distance.log()


def _nearest_on_the_line(x: Tensor, w: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The distance (n, B) of the k-th neighbour of every entry in its column, and the masses (k, n, B) of the k."""
    ordered, order = x.sort(dim=0)
    mass = w.gather(0, order)
    shifts = [shift for shift in range(-k, k + 1) if shift]
    gaps = torch.stack([(ordered.roll(shift, 0) - ordered).abs() for shift in shifts])
    masses = torch.stack([mass.roll(shift, 0) for shift in shifts])
    near = gaps.topk(k, dim=0, largest=False)
    back = order.argsort(dim=0)
    return near.values[-1].gather(0, back), masses.gather(0, near.indices).gather(1, back.expand(k, *back.shape))


def _nearest_vectors(x: Tensor, w: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The same for vectors (n, d), with B = 1."""
    gaps = torch.cdist(x, x).fill_diagonal_(torch.inf)
    near = gaps.topk(k, dim=-1, largest=False)
    return near.values[:, -1:], w[near.indices].mT[..., None]


def _discrete(x: Tensor, w: Tensor, log_q: Tensor) -> Tensor:
    _, inverse = torch.unique(x, dim=0, return_inverse=True)
    p = torch.zeros(int(inverse.max()) + 1, dtype=w.dtype).scatter_add(0, inverse, w)
    used = w > 0
    value: Tensor = torch.special.xlogy(p, p).sum() - (w[used] * log_q[used]).sum()
    return value


def reverse_without_route(
    q: Distribution, value: Tensor, log_target: LogTarget, family: Family, seed: int
) -> tuple[Tensor, str]:
    """The error of E_q[log q − log f] and its method: from half as many nodes, or from independent points."""
    if family.event_dim == 0:
        _x, log_w = log_weighted_points(q)
        missing = (log_w.logsumexp(0).exp() - 1).abs().amax()
        return (missing + 1e-10) * (1 + value.abs()), "quadrature"
    dim = log_target.event_shape[0]
    with torch.no_grad():
        if dim <= MAX_PRODUCT_DIM:
            z, weight = normal_points(dim, order_factor=0.75)
            other = expected_log_ratio(q, log_target, z, weight)
            return (other - value).abs() + 1e-12, "quadrature"
        values = []
        for repeat in range(8):
            z, weight = normal_points(dim, seed=seed + 1 + repeat)
            values.append(expected_log_ratio(q, log_target, z, weight))
    spread = torch.stack(values)
    return spread.std(0) / math.sqrt(8) + (spread.mean(0) - value).abs(), "quasi-Monte Carlo"


def log_normalizer(log_target: LogTarget, family: Family, proposal: Distribution, seed: int) -> tuple[float, float]:
    """Log ∫ f and its error: by quadrature for numbers, by importance sampling for vectors.

    Args:
        log_target: log f.
        family: Whose support f lives on.
        proposal: A batch of optima; importance samples come from a wider mixture of them.
        seed: Of the samples.
    """
    with torch.no_grad():
        if log_target.event_shape == ():
            return _log_integral(log_target, family, proposal)
        return _log_importance(log_target, proposal, seed)


def _log_integral(log_target: LogTarget, family: Family, proposal: Distribution) -> tuple[float, float]:
    """Twice: at nodes around the whole mass, and at the nodes of the optima; the difference is the error."""
    _, log_w = scan(log_target, family)
    first = log_w.logsumexp(0).item()
    x, log_q_w = log_weighted_points(proposal)
    columns = x.shape[1]
    # ∫ f = ∫ mean_k q_k(x) · f/mean_q, one set of nodes per optimum.
    log_mean_q = torch.stack([proposal.log_prob(x[:, k : k + 1]).logsumexp(-1) for k in range(columns)], -1) - math.log(
        columns
    )
    usable = log_q_w > -60
    log_f = log_target(x)
    terms = torch.where(usable & (log_f > -torch.inf), log_q_w + log_f - log_mean_q, -torch.inf)
    second = (terms.flatten().logsumexp(0) - math.log(columns)).item()
    # The tails of the optima may be too light for the second; it is a check of the first.
    return first, min(abs(first - second), 1.0) if math.isfinite(second) else 1.0


def _log_importance(log_target: LogTarget, proposal: Distribution, seed: int) -> tuple[float, float]:
    """Importance sampling from a Student t whose mean and covariance are adapted to the target in a few rounds."""
    dim = log_target.event_shape[0]
    generator = torch.Generator().manual_seed(seed + 3)
    draws = pilot_samples(proposal, 2048, seed + 2).reshape(-1, dim)
    mean, covariance = draws.mean(0), 2.0 * torch.cov(draws.mT).reshape(dim, dim)
    for _ in range(_ADAPTATIONS):
        x, log_ratio = _student_draws(log_target, mean, covariance, _DRAWS // 8, generator)
        w = log_ratio.softmax(0)
        mean = w @ x
        centred = x - mean
        # Half of the old covariance stays: a few large weights may not shrink it.
        covariance = 0.5 * covariance + 0.5 * centred.mT @ (w[:, None] * centred)
    _, log_ratio = _student_draws(log_target, mean, 1.2 * covariance, _DRAWS, generator)
    value = log_ratio.logsumexp(0) - math.log(_DRAWS)
    ratio = (log_ratio - value).exp()
    return value.item(), (ratio.std() / math.sqrt(_DRAWS)).item()


def _student_draws(
    log_target: LogTarget, mean: Tensor, covariance: Tensor, n: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draws (n, d) of a Student t with 5 degrees of freedom, whose tails are heavy, and log f − log t at each."""
    dim, df = len(mean), 5
    factor = torch.linalg.cholesky(covariance + 1e-12 * torch.eye(dim, dtype=torch.float64))
    z = torch.randn(n, dim, generator=generator, dtype=torch.float64)
    chi2 = torch.randn(n, df, generator=generator, dtype=torch.float64).square().sum(-1)
    white = z * (df / chi2).sqrt()[:, None]
    x = mean + white @ factor.mT
    log_density = (
        math.lgamma((df + dim) / 2)
        - math.lgamma(df / 2)
        - 0.5 * dim * math.log(df * math.pi)
        - factor.diagonal().log().sum()
        - 0.5 * (df + dim) * torch.log1p(white.square().sum(-1) / df)
    )
    return x, log_target(x) - log_density
