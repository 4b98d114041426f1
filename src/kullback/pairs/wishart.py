"""KL(Wishart ‖ q). Called by `pairs.dispatch`.

With a = n_p/2, b = n_q/2, V_q⁻¹V_p similar to MMᵀ, M = I + W lower triangular, the terms of the textbook formula that
cancel at many degrees of freedom combine to

    Σᵢ [b·log(b/(a·mᵢᵢ²)) − b + a·mᵢᵢ²] + a·Σ_{i>j} wᵢⱼ² + Σ_{j<d} [B(a − j/2, b − j/2) − b·log(b/a) + b − a],

B the Bregman divergence of log Γ; every term is non-negative.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Wishart

from kullback._core.special.exp_log import log_ratio
from kullback.densities.parameters import read
from kullback.pairs.dirichlet import main_part_difference, stirling_rest
from kullback.pairs.gaussian.relative_factor import SCALES, lower_factor, relative_factor
from kullback.pairs.registry import register
from kullback.special import log1pmx


@register(
    Wishart, Wishart, source="Σᵢ kl_div(b, a·mᵢᵢ²) + a·Σ wᵢⱼ² + Bregman divergences of log Γ less Stirling's main part"
)
def kl_wishart_wishart(p: Wishart, q: Wishart) -> Tensor:
    """See the head of this file."""
    (df_p,), (df_q,) = read(p, "df"), read(q, "df")
    a, b, gap = df_p / 2, df_q / 2, (df_q - df_p) / 2
    w, log_diagonal = relative_factor(p, q, lower_factor(q))
    diagonal = w.diagonal(dim1=-2, dim2=-1)
    below = w.tril(-1).square().sum((-2, -1))
    scales = _scale_terms(a.unsqueeze(-1), b.unsqueeze(-1), gap.unsqueeze(-1), diagonal, log_diagonal).sum(-1)
    return scales + a * below + _shape_terms(a, b, gap, w.shape[-1])


def _scale_terms(a: Tensor, b: Tensor, gap: Tensor, w: Tensor, log_m: Tensor) -> Tensor:
    """b·log(b/m) − b + m for m = a·(1+w)², from m − b = a·w·(2+w) − gap; on another scale from m itself."""
    apart = log_m.detach().abs() >= SCALES
    inner, log_apart = torch.where(apart, 0.0, w), torch.where(apart, log_m, 0.0)
    excess = torch.where(apart, a * torch.exp(2 * log_apart) - b, a * inner * (2 + inner) - gap)
    x = excess / b
    near = x.abs() < 0.5
    far = excess - b * (log_ratio(a, b) + 2 * log_m)
    return torch.where(near, -b * log1pmx(torch.where(near, x, 0.0)), far)


def _shape_terms(a: Tensor, b: Tensor, gap: Tensor, dimension: int) -> Tensor:
    s = 0.5 * torch.arange(dimension, dtype=a.dtype, device=a.device)
    low_p, low_q = a.unsqueeze(-1) - s, b.unsqueeze(-1) - s
    gap = gap.unsqueeze(-1)
    return (main_part_difference(low_p, low_q, gap, s) + stirling_rest(low_p, low_q, gap)).sum(-1)
