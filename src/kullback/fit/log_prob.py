"""The log-density of a member at float64 points, also where torch's own fails. Called for every likelihood."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution


def log_prob(q: Distribution, x: Tensor) -> Tensor:
    """Log q(x).

    torch's GeneralizedPareto compares a float64 shape with a float32 zero and raises, so its formula stands here.
    """
    if type(q).__name__ != "GeneralizedPareto":
        return q.log_prob(x)
    loc, scale, shape = (getattr(q, name).to(torch.float64) for name in ("loc", "scale", "concentration"))
    z = (x - loc) / scale
    small = shape.abs() < 1e-8
    safe = torch.where(small, 1.0, shape)
    inside = (z >= 0) & (1 + shape * z > 0)
    z = torch.where(inside, z, 0.0)
    value = torch.where(small, -z, -(1 / safe + 1) * torch.log1p(safe * z)) - scale.log()
    return torch.where(inside, value, -torch.inf)
