"""KL(LKJCholesky ‖ q). The distribution is a one-parameter exponential family in η; called by `pairs.dispatch`.

Its log-normaliser is Σ_{i=1}^{d−1} [lgamma(x − i/2) − lgamma(x)], x = η + (d−1)/2, from the Beta distributions of the
onion construction, so that KL = Σᵢ [B(x_p − i/2, x_q − i/2) − B(x_p, x_q)] with B the Bregman divergence of log Γ.

References:
    Lewandowski, Kurowicka, Joe, "Generating random correlation matrices based on vines and extended onion method",
    Journal of Multivariate Analysis 100 (2009).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import LKJCholesky

from kullback.pairs.log_gamma import main_part_difference, stirling_rest
from kullback.pairs.parameters import read
from kullback.pairs.registry import register


@register(
    LKJCholesky,
    LKJCholesky,
    source="Σᵢ B(x_p − i/2, x_q − i/2) − B(x_p, x_q), x = η + (d−1)/2, Stirling's main parts differenced by a formula",
)
def kl_lkj_lkj(p: LKJCholesky, q: LKJCholesky) -> Tensor:
    """η_q − η_p is formed before anything is added to η."""
    eta_p, eta_q = (read(side, "concentration")[0].unsqueeze(-1) for side in (p, q))
    s = 0.5 * torch.arange(1, p.dim, dtype=eta_p.dtype, device=eta_p.device)
    top = 0.5 * (p.dim - 1)
    a, b, gap = eta_p + (top - s), eta_q + (top - s), eta_q - eta_p
    rest = stirling_rest(a, b, gap) - stirling_rest(eta_p + top, eta_q + top, gap)
    return (main_part_difference(a, b, gap, s) + rest).sum(-1)
