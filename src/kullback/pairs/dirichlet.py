r"""KL(Dirichlet ‖ q); called by `pairs.dispatch`, and by `closed.beta`: a Beta is a Dirichlet of two classes.

With B(a, b) = lgamma(b) − lgamma(a) − (b−a)·ψ(a) and index 0 for sums, KL(Dir(α) ‖ Dir(β)) = Σ B(αᵢ, βᵢ) − B(α₀, β₀).
The terms are non-negative but cancel at large concentrations by Stirling's main part, which is therefore taken out:

    Σᵢ βᵢ·[xᵢ − log(1+xᵢ)] + Σᵢ D(αᵢ, βᵢ) − D(α₀, β₀),    xᵢ = (αᵢβ₀ − βᵢα₀)/(βᵢα₀).

D is the divergence of log Γ(x) − x·log x + x (`log_gamma`); the first sum is β₀ times a categorical divergence.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Dirichlet

from kullback.kernels.dirichlet_op import DirichletOp
from kullback.pairs.log_gamma import stirling_rest
from kullback.pairs.registry import register
from kullback.special import kl_div, log1pmx


@register(
    Dirichlet,
    Dirichlet,
    source="β₀·KL(β/β₀ ‖ α/α₀) + Σ D(αᵢ, βᵢ) − D(α₀, β₀), D the Bregman divergence of log Γ(x) − x·log x + x",
    finished=True,
)
def kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    """See the head of this file."""
    return dirichlet_op(p.concentration, q.concentration)


def dirichlet_kl(alpha: Tensor, beta: Tensor) -> Tensor:
    """KL(Dir(α) ‖ Dir(β)) over the last dimension."""
    alpha, beta = torch.broadcast_tensors(alpha, beta)  # type: ignore[no-untyped-call]
    gap = beta - alpha
    alpha0, beta0, gap0 = (t.sum(-1, keepdim=True) for t in (alpha, beta, gap))
    x = (alpha * (gap0 / alpha0) - gap) / beta
    near = x.abs() < 0.5
    scaled = torch.where(near, beta, alpha * (beta0 / alpha0))
    categorical = torch.where(near, -beta * log1pmx(torch.where(near, x, 0.0)), kl_div(beta, scaled))
    rest = stirling_rest(alpha, beta, gap).sum(-1) - stirling_rest(alpha0, beta0, gap0).squeeze(-1)
    value = categorical.sum(-1) + rest
    return torch.where(value < 0, 0.0, value)


dirichlet_op = DirichletOp(dirichlet_kl)
