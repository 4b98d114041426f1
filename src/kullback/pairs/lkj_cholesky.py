"""KL(LKJCholesky ‖ q). The law is a one-parameter exponential family in η.

Its log-normaliser is Σ_{i=1}^{d−1} [lgamma(x − i/2) − lgamma(x)], x = η + (d−1)/2, from the Beta laws of the onion
construction, so that KL = Σᵢ [B(x_p − i/2, x_q − i/2) − B(x_p, x_q)] with B the Bregman divergence of log Γ.

References:
    Lewandowski, Kurowicka, Joe, "Generating random correlation matrices based on vines and extended onion method",
    Journal of Multivariate Analysis 100 (2009).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import LKJCholesky

from kullback.pairs.lgamma_gap import Corners, bregman_difference, curvature, slope_differences
from kullback.pairs.parameters import read
from kullback.pairs.registry import register


@register(
    LKJCholesky,
    LKJCholesky,
    source="Σᵢ B(x_p − i/2, x_q − i/2) − B(x_p, x_q), x = η + (d−1)/2, each difference taken analytically",
)
def kl_lkj_lkj(p: LKJCholesky, q: LKJCholesky) -> Tensor:
    """Non-negative terms; η_q − η_p is formed before anything is added to η."""
    (eta_p,), (eta_q,) = read(p, "concentration"), read(q, "concentration")
    eta_p, eta_q = torch.broadcast_tensors(eta_p, eta_q)  # type: ignore[no-untyped-call]
    at_p, at_q = eta_p.detach().unsqueeze(-1), eta_q.detach().unsqueeze(-1)
    s = 0.5 * torch.arange(1, p.dim, dtype=at_p.dtype, device=at_p.device)
    top = 0.5 * (p.dim - 1)
    spread = torch.zeros_like(at_p + s)
    gap = (at_q - at_p) + spread
    points = (at_p + (top - s), at_q + (top - s), at_p + top + spread, at_q + top + spread)
    c = Corners(*points, gap, gap, s + spread, s + spread, spread, s * gap)
    slope_p, slope_q = (slope.sum(-1) for slope in slope_differences(c))
    step_p, step_q = eta_p - at_p.squeeze(-1), eta_q - at_q.squeeze(-1)
    bent = curvature(c.a, c.b, gap, step_p.unsqueeze(-1), step_q.unsqueeze(-1))
    bent = bent - curvature(c.a0, c.b0, gap, step_p.unsqueeze(-1), step_q.unsqueeze(-1))
    value: Tensor = bregman_difference(c).sum(-1).clamp_min(0.0)
    derivatives: Tensor = step_p * slope_p + step_q * slope_q + 0.5 * bent.sum(-1)
    return value + derivatives
