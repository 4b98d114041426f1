r"""KL(Dirichlet ‖ q).

With B(a, b) = lgamma(b) − lgamma(a) − (b−a)·ψ(a) and index 0 for sums, KL(Dir(α) ‖ Dir(β)) = Σ B(αᵢ, βᵢ) − B(α₀, β₀).
The terms are non-negative but cancel among each other, at large concentrations by Stirling's main part and next to an
outweighing concentration m by everything. Exact rearrangements that do not:

    large:  Σᵢ βᵢ·[x − log(1+x)]ᵢ + Σ_{i≠m} D(αᵢ, βᵢ) + [D(α_m, β_m) − D(α₀, β₀)],    xᵢ = (αᵢβ₀ − βᵢα₀)/(βᵢα₀)
    small:  Σ_{i≠m} B(αᵢ, βᵢ) + [B(α_m, β_m) − B(α₀, β₀)]

D is the divergence of log Γ(x) − x·log x + x; the first sum is β₀ times a categorical divergence; the differences in
brackets are taken analytically (`lgamma_gap`). m is the largest concentration of p.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Dirichlet

from kullback._core.special._double_double import two_difference, two_product, two_sum
from kullback.kernels.dirichlet_op import DirichletOp
from kullback.pairs.lgamma_gap import (
    Corners,
    bregman_difference,
    curvature,
    h_difference,
    slope_differences,
    stirling_difference,
)
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.special import binet_bregman, expm1mx, kl_div, lgamma_bregman, log1pmx

# Above this the main part of Stirling's formula outweighs what is left of B, so it has to be cancelled exactly.
_LARGE = 48.0
# Concentrations whose sum is below this leave the largest one nearly alone.
_ALONE = 1e-3


@register(
    Dirichlet,
    Dirichlet,
    source="β₀·KL(β/β₀ ‖ α/α₀) + Bregman divergences of log Γ(x) − x·log x + x, differenced analytically",
    finished=True,
)
def kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    """See the head of this file."""
    return dirichlet_op(p.concentration, q.concentration)


def dirichlet_kl(alpha: Tensor, beta: Tensor) -> Tensor:
    """KL(Dir(α) ‖ Dir(β)) over the last dimension, with first and second derivatives by formula."""
    alpha, beta = torch.broadcast_tensors(alpha, beta)  # type: ignore[no-untyped-call]
    at_p, at_q = alpha.detach(), beta.detach()
    corners, is_top = _corners(at_p, at_q)
    value = _value(corners, is_top)
    slope_p, slope_q = slope_differences(corners)
    return _with_derivatives(value, alpha - at_p, beta - at_q, slope_p, slope_q, corners)


dirichlet_op = DirichletOp(dirichlet_kl)


def _corners(alpha: Tensor, beta: Tensor) -> tuple[Corners, Tensor]:
    """Each concentration beside the sums, and which one is the largest.

    The sums carry their rounding errors along, so that N = β·α₀ − β₀·α is right to the last digit: near equality at
    concentrations of 1e12 it decides the answer.
    """
    classes = torch.arange(alpha.shape[-1], device=alpha.device)
    is_top = classes == alpha.argmax(-1, keepdim=True)
    gap, gap_low = two_difference(beta, alpha)
    others = [_total(torch.where(is_top, 0.0, t)) for t in (alpha, beta, gap)]
    tops = [torch.where(is_top, t, 0.0).sum(-1, keepdim=True) for t in (alpha, beta, gap, gap_low)]
    (s, s_low), (t, t_low), (gap_s, gap_s_low) = others
    gap_s, gap_s_low = two_sum(gap_s, gap_s_low + torch.where(is_top, 0.0, gap_low).sum(-1, keepdim=True))
    a0, a0_low = _plus(tops[0], s, s_low)
    b0, b0_low = _plus(tops[1], t, t_low)
    gap0, gap0_low = two_sum(*_plus(tops[2], gap_s, gap_s_low + tops[3]))
    n_top = cross_difference(tops[1], s, s_low, tops[0], t, t_low)
    # Near equality (β − α)·α₀ − α·(β₀ − α₀), where the small differences are not lost beside large sums.
    near = (gap.abs() < 0.5 * alpha) & (gap0.abs() < 0.5 * a0)
    close = cross_difference(gap, a0, a0_low, alpha, gap0, gap0_low) + gap_low * a0
    n = torch.where(near, close, cross_difference(beta, a0, a0_low, alpha, b0, b0_low))
    n = torch.where(is_top, n_top, n)
    rest_p, rest_q = torch.where(is_top, s, a0 - alpha), torch.where(is_top, t, b0 - beta)
    spread = torch.zeros_like(alpha)
    points = (alpha, beta, a0 + spread, b0 + spread, gap, gap0 + spread)
    return Corners(*points, rest_p, rest_q, torch.where(is_top, gap_s, gap0 - gap), n), is_top


def _total(x: Tensor) -> tuple[Tensor, Tensor]:
    """Σx over the last dimension with its rounding error, by halves."""
    high, low = x, torch.zeros_like(x)
    while high.shape[-1] > 1:
        half = (high.shape[-1] + 1) // 2
        pad = 2 * half - high.shape[-1]
        right, right_low = (torch.nn.functional.pad(t[..., half:], (0, pad)) for t in (high, low))
        high, error = two_sum(high[..., :half], right)
        low = low[..., :half] + right_low + error
    return high, low


def _plus(x: Tensor, y: Tensor, y_low: Tensor) -> tuple[Tensor, Tensor]:
    high, low = two_sum(x, y)
    return high, low + y_low


def cross_difference(  # noqa: PLR0917
    b: Tensor, s: Tensor, s_low: Tensor, a: Tensor, t: Tensor, t_low: Tensor
) -> Tensor:
    """b·s − a·t, the products exact; plain where an exact product would overflow."""
    left, left_low = two_product(b, s)
    right, right_low = two_product(a, t)
    exact = (left - right) + ((left_low - right_low) + (b * s_low - a * t_low))
    return torch.where(exact.isfinite(), exact, b * s - a * t)


def _value(c: Corners, is_top: Tensor) -> Tensor:
    top = Corners(*(torch.where(is_top, field, 0.0).sum(-1) for field in c))
    a, b = torch.where(is_top, 1.0, c.a), torch.where(is_top, 1.0, c.b)
    small = lgamma_bregman(a, b).sum(-1) + bregman_difference(top)
    x = -c.n / c.b / c.a0
    far = kl_div(c.b, c.a * (c.b0 / c.a0))
    categorical = torch.where(x.abs() < 0.5, -c.b * log1pmx(torch.where(x.abs() < 0.5, x, 0.0)), far).sum(-1)
    rest = (0.5 * expm1mx(log_ratio(b, a)) + binet_bregman(a, b)).sum(-1)
    is_tail = top.is_large()
    apart = binet_bregman(top.a, top.b) - binet_bregman(top.a0, top.b0)
    at_top = torch.where(is_tail, stirling_difference(top), 0.5 * h_difference(top) + apart)
    large = categorical + (rest + at_top)
    # Beside a top that is nearly alone the two Binet remainders of `apart` would cancel.
    is_large = (torch.maximum(top.a0, top.b0) > _LARGE) & (torch.maximum(top.s, top.t) > _ALONE)
    return torch.where(is_tail | is_large, large, small).clamp_min(0.0)


def _with_derivatives(  # noqa: PLR0917
    value: Tensor, step_p: Tensor, step_q: Tensor, slope_p: Tensor, slope_q: Tensor, c: Corners
) -> Tensor:
    """Hang the gradient and the Hessian on the value: displacements that are zero carry them.

    Each block of the Hessian is a diagonal minus a constant, the same expression at the sums.
    """
    first = (step_p * slope_p + step_q * slope_q).sum(-1)
    inner = curvature(c.a, c.b, c.gap, step_p, step_q).sum(-1)
    sums = (c.a0[..., 0], c.b0[..., 0], c.gap0[..., 0], step_p.sum(-1), step_q.sum(-1))
    return value + first + 0.5 * (inner - curvature(*sums))
