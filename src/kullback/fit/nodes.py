"""Points and weights that stand in for a distribution: E[h(x)] = Σ wᵢ h(xᵢ). Called by `targets.py` and `reverse.py`.

For one dimension the points are Gauss–Legendre nodes that follow the distribution; the weights are its density at the
points, so that derivatives with respect to its parameters go through `log_prob`, at fixed points, as often as wanted.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    MixtureSameFamily,
    VonMises,
    biject_to,
    constraints,
)

from kullback._core.gauss_legendre import gauss_legendre
from kullback.fit.log_prob import log_prob

_PANEL_NODES = 16
# Panels of τ in x = centre + spread · sinh(τ). A density with polynomial tails decreases exponentially in τ.
_PANEL_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 22.0, 40.0)
MAX_PRODUCT_DIM = 3  # products of one-dimensional nodes up to here
_PILOT_SAMPLES = 256
_PILOT_SEED = 20
_MAX_OUTCOMES = 50_000
_LOG_NEGLIGIBLE = -120.0


def log_weighted_points(d: Distribution) -> tuple[Tensor, Tensor]:
    """Points (n, B) and logarithms of weights (n, B) of B distributions of one number; differentiable in the weights.

    The weights of a distribution that the points resolve sum to 1.
    """
    if isinstance(d, MixtureSameFamily):
        x, log_weight = log_weighted_points(d.component_distribution)
        log_weight = log_weight + d.mixture_distribution.logits
        return x.movedim(-1, 1).flatten(0, 1), log_weight.movedim(-1, 1).flatten(0, 1)
    while isinstance(d, Independent) and d.reinterpreted_batch_ndims == 0:
        d = d.base_dist
    with torch.no_grad():
        x, log_measure = _points(d)
    log_density = log_prob(d, x)
    usable = log_measure.isfinite() & ~log_density.isnan() & (log_density < torch.inf)
    log_weight = torch.where(usable, log_density, 0.0) + log_measure.nan_to_num(neginf=0.0)
    usable = usable & (log_weight > _LOG_NEGLIGIBLE)
    # Points without weight reach 1e300, whose squares overflow: the middle point takes their place.
    return torch.where(usable, x, x[len(x) // 2]), torch.where(usable, log_weight, -torch.inf)


def pilot_samples(d: Distribution, count: int = _PILOT_SAMPLES, seed: int = _PILOT_SEED) -> Tensor:
    """The same draws at every call, without touching the random state of the caller."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        return d.sample((count,))


def is_discrete(d: Distribution) -> bool:
    """Whether the support is a set of whole numbers or labels."""
    try:
        return bool(support_of(d).is_discrete)
    except NotImplementedError:
        return False


def support_of(d: Distribution) -> Any:
    """The support; torch's types allow None there, and call its methods untyped."""
    return d.support


def to_support_of(support: Any) -> Any:
    """A smooth map of all numbers onto a support."""
    upper = getattr(support, "upper_bound", None)
    if isinstance(upper, Tensor) and bool((upper == torch.inf).all()):
        return biject_to(constraints.greater_than_eq(support.lower_bound))  # type: ignore[no-untyped-call]
    return biject_to(support)


def _points(d: Distribution) -> tuple[Tensor, Tensor]:
    if is_discrete(d):
        return _outcomes(d)
    tau, weight = tau_nodes()
    if isinstance(d, VonMises):
        mode = d.loc.to(torch.float64)
        # Graded toward the mode: a large concentration leaves a narrow peak.
        width = (1 / d.concentration.to(torch.float64).sqrt()).clamp(max=1.0)
        end = torch.asinh(math.pi / width)
        column = (-1, *([1] * mode.dim()))
        scaled = tau.reshape(column) / _PANEL_EDGES[-1] * end
        x = mode + width * torch.sinh(scaled)
        measure = (weight.reshape(column) / _PANEL_EDGES[-1] * end * width).log() + log_cosh(scaled)
        return x, measure
    support = support_of(d)
    to_support = to_support_of(support)
    t = to_support.inv(pilot_samples(d).to(torch.float64))
    t = torch.where(t.isfinite(), t, 0.0)
    low, centre, high = torch.quantile(t, t.new_tensor([0.16, 0.5, 0.84]), dim=0)
    loc = getattr(d, "loc", None)
    if support is constraints.real and isinstance(loc, Tensor):
        centre = loc.to(t).expand_as(centre)  # a kink of the density lies there, on a panel's edge
    spread = ((high - low) / 2).clamp(min=1e-300)
    tau = tau.reshape(-1, *([1] * centre.dim()))
    t_nodes = centre + spread * torch.sinh(tau)
    log_measure = weight.log().reshape_as(tau) + log_cosh(tau) + spread.log()
    x = to_support(t_nodes)
    log_measure = log_measure + to_support.log_abs_det_jacobian(t_nodes, x)
    inside = x.isfinite() & support.check(x)
    # Points that rounding has moved to the end of the support would meet an infinite density there.
    inside = inside & (torch.ones_like(inside) if support is constraints.real else to_support.inv(x).isfinite())
    middle = to_support(centre).expand_as(x)
    return torch.where(inside, x, middle), torch.where(inside, log_measure, -torch.inf)


def _outcomes(d: Distribution) -> tuple[Tensor, Tensor]:
    """All whole numbers that carry mass."""
    if d.has_enumerate_support:
        try:
            x = d.enumerate_support(expand=True).to(torch.float64)
        except NotImplementedError:  # numbers of trials that differ
            x = torch.empty(0)
        if x.numel():
            return x, torch.zeros_like(x)
    draws = pilot_samples(d).to(torch.float64)
    spread = (draws.amax(0) - draws.amin(0)).clamp(min=8.0)
    low = (draws.amin(0) - 8 * spread).clamp(min=0.0).floor()
    length = int(min((draws.amax(0) + 10 * spread - low).max().item() + 1, _MAX_OUTCOMES))
    x = low + torch.arange(length, dtype=torch.float64).reshape(-1, *([1] * low.dim()))
    inside = support_of(d).check(x)
    return torch.where(inside, x, low), torch.where(inside, 0.0, -torch.inf)


@cache
def tau_nodes() -> tuple[Tensor, Tensor]:
    """Nodes of τ from −40 to 40 and their weights."""
    rule = gauss_legendre(_PANEL_NODES)
    nodes, weights = torch.tensor(rule.nodes, dtype=torch.float64), torch.tensor(rule.weights, dtype=torch.float64)
    edges = torch.tensor(_PANEL_EDGES, dtype=torch.float64)
    width = (edges[1:] - edges[:-1])[:, None]
    right = (edges[:-1, None] + width * nodes).flatten()
    weight = (width * weights).flatten()
    return torch.cat([-right.flip(0), right]), torch.cat([weight.flip(0), weight])


def log_cosh(tau: Tensor) -> Tensor:
    """Log cosh τ without overflow: the derivative of sinh in a logarithm."""
    return tau.abs() + torch.log1p(torch.exp(-2 * tau.abs())) - math.log(2)


def normal_points(dim: int, seed: int = 0, order_factor: float = 1.0) -> tuple[Tensor, Tensor]:
    """Points (n, d) and weights (n,) of a standard normal in d dimensions.

    Products of Gauss–Hermite nodes up to three dimensions, scrambled Sobol points above.
    """
    if dim <= MAX_PRODUCT_DIM:
        import numpy as np

        order = int({1: 96, 2: 40, 3: 20}[dim] * order_factor)
        nodes, weights = np.polynomial.hermite_e.hermegauss(order)
        axis, weight = torch.from_numpy(nodes), torch.from_numpy(weights / weights.sum())
        points = torch.cartesian_prod(*[axis] * dim).reshape(-1, dim)
        products = torch.cartesian_prod(*[weight] * dim).reshape(-1, dim).prod(-1)
        keep = products > 1e-18
        return points[keep], products[keep] / products[keep].sum()
    count = int(4096 * order_factor)
    sobol = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    u = sobol.draw(count, dtype=torch.float64).clamp(1e-10, 1 - 1e-10)
    z = torch.special.ndtri(u)
    # Points and their mirror images have mean exactly 0; the second moments are set to 1.
    z = torch.cat([z, -z])
    factor = torch.linalg.cholesky(z.mT @ z / len(z))
    return torch.linalg.solve_triangular(factor, z.mT, upper=False).mT, z.new_full((len(z),), 1 / len(z))
