"""The log-density of a member at float64 points, also where torch's own is wrong. Called for every likelihood."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily, VonMises


def log_prob(q: Distribution, x: Tensor) -> Tensor:
    """Log q(x), by our own formula for the two families whose `log_prob` has no float64 digits, and mixtures of them.

    torch's VonMises takes the Bessel function from polynomials with seven digits, too few for second derivatives;
    torch's GeneralizedPareto compares a float64 shape with a float32 zero and raises.
    """
    if isinstance(q, VonMises):
        # log I₀(κ) = log(e^{−κ} I₀(κ)) + κ, and κ goes to the cosine: 1 − cos t = 2 sin²(t/2) does not cancel.
        loc, kappa = torch.as_tensor(q.loc), torch.as_tensor(q.concentration)
        value: Tensor = -2 * kappa * torch.sin((x - loc) / 2).square() - torch.special.i0e(kappa).log()
        return value - math.log(2 * math.pi)
    if isinstance(q, MixtureSameFamily) and _is_ours(q.component_distribution):
        inner = log_prob(q.component_distribution, x.unsqueeze(-1))
        return torch.logsumexp(inner + q.mixture_distribution.logits.log_softmax(-1), dim=-1)
    return _generalized_pareto(q, x) if _is_ours(q) else q.log_prob(x)


def _is_ours(q: Distribution) -> bool:
    return isinstance(q, VonMises) or type(q).__name__ == "GeneralizedPareto"


def _generalized_pareto(q: Distribution, x: Tensor) -> Tensor:
    loc, scale, shape = (getattr(q, name).to(torch.float64) for name in ("loc", "scale", "concentration"))
    z = (x - loc) / scale
    small = shape.abs() < 1e-8
    safe = torch.where(small, 1.0, shape)
    inside = (z >= 0) & (1 + shape * z > 0)
    z = torch.where(inside, z, 0.0)
    value = torch.where(small, -z, -(1 / safe + 1) * torch.log1p(safe * z)) - scale.log()
    return torch.where(inside, value, -torch.inf)
