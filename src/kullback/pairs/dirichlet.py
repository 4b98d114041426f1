r"""KL(Dirichlet ‖ q), and KL(LKJCholesky ‖ q), whose formula has the same parts; `closed.beta` and `wishart` call them.

With B(a, b) = lgamma(b) − lgamma(a) − (b−a)·ψ(a) and index 0 for sums, KL(Dir(α) ‖ Dir(β)) = Σ B(αᵢ, βᵢ) − B(α₀, β₀).
The terms are non-negative but cancel at large concentrations by Stirling's main part M(a, b) = b·log(b/a) − b + a,
which is therefore taken out:

    Σᵢ βᵢ·[xᵢ − log(1+xᵢ)] + Σᵢ D(αᵢ, βᵢ) − D(α₀, β₀),    xᵢ = (αᵢβ₀ − βᵢα₀)/(βᵢα₀),

D = B − M being at most of the size of log(b/a)²; the first sum is β₀ times a categorical divergence.

LKJCholesky is an exponential family in η with the log-normaliser Σ_{i=1}^{d−1} [lgamma(x − i/2) − lgamma(x)],
x = η + (d−1)/2, from the Beta distributions of the onion construction: KL = Σᵢ [B(x_p − i/2, x_q − i/2) − B(x_p, x_q)].

References:
    Lewandowski, Kurowicka, Joe, "Generating random correlation matrices based on vines and extended onion method",
    Journal of Multivariate Analysis 100 (2009).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Beta, Dirichlet, LKJCholesky, LogisticNormal, Normal, TransformedDistribution
from torch.distributions.transforms import SigmoidTransform

from kullback.densities.parameters import read, working
from kullback.kernels.dirichlet_op import DirichletOp
from kullback.pairs.registry import Reduced, register
from kullback.special import binet, binet_bregman, expm1mx, kl_div, log1pmx


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


_FRACTIONS = "Σ KL of the stick-breaking fractions, which are independent: Beta, and logit-normal"


@register(Dirichlet, LogisticNormal, method="structure", source=_FRACTIONS)
def kl_dirichlet_logistic_normal(p: Dirichlet, q: LogisticNormal) -> Reduced:
    """The i-th piece of a stick is the fraction zᵢ of what the pieces before it left: zᵢ ~ Beta(αᵢ, αᵢ₊₁ + … + α_K)."""
    return Reduced(_betas(p), _logit_normals(q), summed=1)


@register(LogisticNormal, Dirichlet, method="structure", source=_FRACTIONS)
def kl_logistic_normal_dirichlet(p: LogisticNormal, q: Dirichlet) -> Reduced:
    """Under torch's LogisticNormal, logit zᵢ is Normal(μᵢ − log(K − i), σᵢ)."""
    return Reduced(_logit_normals(p), _betas(q), summed=1)


def _betas(p: Dirichlet) -> Beta:
    concentration = working(p.concentration)
    left = concentration.flip(-1).cumsum(-1).flip(-1)
    return Beta(concentration[..., :-1], left[..., 1:], validate_args=False)


def _logit_normals(q: LogisticNormal) -> TransformedDistribution:
    loc, scale = read(q, "loc", "scale")
    pieces_left = torch.arange(loc.shape[-1], 0, -1, dtype=loc.dtype, device=loc.device)
    logits = Normal(loc - torch.log(pieces_left), scale, validate_args=False)
    return TransformedDistribution(logits, [SigmoidTransform()])
