"""Draws of a distribution as a function of uniform numbers, so that quasi-random points can stand for random ones.

`monte_carlo.py` calls `uniforms_needed` to learn whether and from how many uniforms a draw can be made, and `transport`
to make it. Gradients flow through the draw to the parameters.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Normal,
    TransformedDistribution,
)


def uniforms_needed(p: Distribution) -> int | None:
    """How many uniforms one draw of one batch element takes; None if p has no such map."""
    if isinstance(p, LowRankMultivariateNormal):
        return int(p.cov_factor.shape[-2] + p.cov_factor.shape[-1])
    if isinstance(p, MultivariateNormal):
        return int(p.loc.shape[-1])
    if isinstance(p, Independent):
        return _times(uniforms_needed(p.base_dist), _own_dimensions(p))
    if isinstance(p, TransformedDistribution):
        base = p.base_dist
        grown = len(p.event_shape) - len(base.event_shape)
        return _times(uniforms_needed(base), math.prod(base.batch_shape[len(base.batch_shape) - max(grown, 0) :]))
    if p.event_shape:
        return None
    return 1 if _has_quantile(p) else None


def transport(p: Distribution, uniforms: Tensor) -> Tensor:
    """Draws of shape (N, *batch, *event) from uniforms of shape (N, uniforms_needed(p))."""
    if isinstance(p, LowRankMultivariateNormal):
        rank = p.cov_factor.shape[-1]
        noise = _normals(uniforms, p)
        low, diagonal = noise[..., :rank, None], noise[..., rank:]
        return torch.as_tensor(p.loc + (p.cov_factor @ low).squeeze(-1) + p.cov_diag.sqrt() * diagonal)
    if isinstance(p, MultivariateNormal):
        return torch.as_tensor(p.loc + (p.scale_tril @ _normals(uniforms, p).unsqueeze(-1)).squeeze(-1))
    if isinstance(p, Independent):
        return _per_coordinate(p.base_dist, uniforms, p.reinterpreted_batch_ndims)
    if isinstance(p, TransformedDistribution):
        grown = max(len(p.event_shape) - len(p.base_dist.event_shape), 0)
        x = _per_coordinate(p.base_dist, uniforms, grown)
        for step in p.transforms:
            x = step(x)
        return x
    column = uniforms.reshape(len(uniforms), *[1] * len(p.batch_shape))
    return _quantile(p, column.expand(len(uniforms), *p.batch_shape))


def _per_coordinate(base: Distribution, uniforms: Tensor, dims: int) -> Tensor:
    """Draws of `base` whose last `dims` batch dimensions take uniforms of their own."""
    own = base.batch_shape[len(base.batch_shape) - dims :]
    if (
        isinstance(base, MultivariateNormal | LowRankMultivariateNormal | Independent | TransformedDistribution)
        or not dims
    ):
        if not dims:
            return transport(base, uniforms)
        each = uniforms.shape[1] // max(math.prod(own), 1)
        parts = uniforms.reshape(len(uniforms), -1, each).unbind(1)
        drawn = [transport(base, part) for part in parts]
        # Draw number i of the coordinates is read at coordinate i only.
        flat = [x.flatten(1 + len(base.batch_shape) - dims, len(base.batch_shape)) for x in drawn]
        axis = 1 + len(base.batch_shape) - dims
        picked = torch.stack([x.select(axis, i) for i, x in enumerate(flat)], axis)
        return picked.reshape(len(uniforms), *base.batch_shape, *base.event_shape)
    lead = [1] * (len(base.batch_shape) - dims)
    columns = uniforms.reshape(len(uniforms), *lead, *own)
    return _quantile(base, columns.expand(len(uniforms), *base.batch_shape))


def _normals(uniforms: Tensor, p: Distribution) -> Tensor:
    """Standard normals of shape (N, 1, …, 1, count)."""
    z: Tensor = torch.special.ndtri(uniforms)
    return z.reshape(len(z), *[1] * len(p.batch_shape), -1)


def _quantile(p: Distribution, uniforms: Tensor) -> Tensor:
    if isinstance(p, Normal):
        return torch.as_tensor(
            p.loc + p.scale * torch.special.ndtri(uniforms)
        )  # torch's own loses the lower tail to 2u − 1
    drawn: Tensor = p.icdf(uniforms)
    return drawn


def _has_quantile(p: Distribution) -> bool:
    if isinstance(p, Normal):
        return True
    if getattr(p.support, "is_discrete", True):
        return False
    try:
        with torch.no_grad():
            _quantile(p, torch.full(p.batch_shape, 0.5))
    except (NotImplementedError, ValueError, RuntimeError):
        return False
    return True


def _own_dimensions(p: Independent[Any]) -> int:
    shape = p.base_dist.batch_shape
    return math.prod(shape[len(shape) - p.reinterpreted_batch_ndims :])


def _times(count: int | None, copies: int) -> int | None:
    return None if count is None else count * copies
