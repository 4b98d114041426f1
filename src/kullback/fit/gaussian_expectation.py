"""KL(q ‖ f) for multivariate normal q and mixtures of them, at nodes that move with q. Called by `reverse.py`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, LowRankMultivariateNormal, MixtureSameFamily

from kullback.fit.families import Coordinates
from kullback.fit.log_density import LogTarget
from kullback.fit.newton import Objective
from kullback.fit.nodes import MAX_PRODUCT_DIM, normal_points


def gaussian_objective(coordinates: Coordinates, log_target: LogTarget, order_factor: float = 1.0) -> Objective:
    """U ↦ Σ wᵢ (log q(xᵢ) − log f(xᵢ)) with xᵢ = loc + L zᵢ; above three dimensions with a part of the points."""
    dim = log_target.event_shape[0]
    z, weight = normal_points(dim, order_factor=order_factor if dim > MAX_PRODUCT_DIM else 1.0)

    def objective(u: Tensor) -> Tensor:
        return expected_log_ratio(coordinates.construct(u), log_target, z, weight)

    return objective


def expected_log_ratio(q: Distribution, log_target: LogTarget, z: Tensor, weight: Tensor) -> Tensor:
    """E_q[log q − log f] at the points z (n, d) of a standard normal, for a batch of q."""
    if isinstance(q, MixtureSameFamily):
        x = _moved(q.component_distribution, z)  # (n, B, K, d)
        n, batch, components, dim = x.shape
        log_q: Tensor = q.log_prob(x.movedim(2, 1).reshape(n * components, batch, dim))  # type: ignore[no-untyped-call]
        ratio = log_q.reshape(n, components, batch).movedim(1, -1) - log_target(x)
        mean: Tensor = (weight[:, None, None] * q.mixture_distribution.probs * ratio).sum((0, -1))
        return mean
    log_f = log_target(_moved(q, z))
    return -_entropy(q, z.shape[-1]) - (weight[:, None] * log_f).sum(0)


def _moved(q: Distribution, z: Tensor) -> Tensor:
    loc, factor = q.mean, _factor(q)
    shape = (len(z), *([1] * (loc.dim() - 1)), z.shape[-1], 1)
    return loc + (factor @ z.reshape(shape))[..., 0]


def _factor(q: Distribution) -> Tensor:
    if isinstance(q, Independent):
        return torch.diag_embed(q.base_dist.stddev)
    if isinstance(q, LowRankMultivariateNormal):
        lower: Tensor = torch.linalg.cholesky(q.covariance_matrix)
        return lower
    factor: Tensor = q.scale_tril  # type: ignore[attr-defined]
    return factor


def _entropy(q: Distribution, dim: int) -> Tensor:
    log_det = _factor(q).diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return log_det + 0.5 * dim * (1 + math.log(2 * math.pi))
