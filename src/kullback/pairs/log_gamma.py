"""Bregman divergences of log Γ, Stirling's main part apart; Dirichlet, LKJCholesky and Wishart call it.

B(a, b) = lgamma(b) − lgamma(a) − (b − a)·ψ(a) is M(a, b) + D(a, b) with the main part M = b·log(b/a) − b + a. Where
divergences are differences of B, their main parts cancel in a formula, and D is at most of the size of log(b/a)².
"""

from __future__ import annotations

import torch
from torch import Tensor

from kullback.special import binet, binet_bregman, expm1mx, log1pmx


def stirling_rest(a: Tensor, b: Tensor, gap: Tensor) -> Tensor:
    """D(a, b) ≥ 0, the divergence of −½·log x + R(x) with Binet's remainder R, for b − a = gap.

    The gap is given because a and b may be sums, which have lost digits of it.
    """
    near = gap.abs() < 0.5 * a
    log_ratio = torch.where(near, torch.log1p(torch.where(near, gap, 0.0) / a), torch.log(b) - torch.log(a))
    lost = gap - (b - a)
    return 0.5 * expm1mx(log_ratio) + binet_bregman(a, b) + lost * (binet(b, 1) - binet(a, 1))


def main_part_difference(a: Tensor, b: Tensor, gap: Tensor, s: Tensor) -> Tensor:
    """M(a, b) − M(a + s, b + s) for b − a = gap."""
    z = s * gap / (a * (b + s))  # 1 + z = b·(a + s)/(a·(b + s))
    v = gap / (a + s)
    return s * v * z + b * log1pmx(z) - s * log1pmx(v)
