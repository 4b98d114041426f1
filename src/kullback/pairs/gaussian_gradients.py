"""Derivatives of KL between Gaussians in the matrices their makers gave, covariances or precisions, in a few products.

Autograd would go back through two factorisations and a triangular solve. Written down, with Δ = μ_p − μ_q, the
derivatives in covariances are

    Σ_p: ½·Σ_q⁻¹DΣ_p⁻¹,   Σ_q: −½·(Σ_q⁻¹DΣ_q⁻¹ + uuᵀ),   μ_p, μ_q: ±u,   D = Σ_p − Σ_q, u = Σ_q⁻¹Δ,

and in precisions

    P_q: ½·(P_p⁻¹DP_q⁻¹ + ΔΔᵀ),   P_p: −½·P_p⁻¹DP_p⁻¹,   μ_p, μ_q: ±P_qΔ,   D = P_q − P_p.

Both start from a difference of what is stored, so that nothing cancels near equality.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from kullback.kernels.factor_op import matrix_gradients
from kullback.kernels.levels import is_plain, tracer_active, transform_active

# Rows up to which matrices are inverted in float64 whatever their dtype.
_SMALL = 96
Divergence = Callable[[MultivariateNormal, MultivariateNormal], Tensor]


def with_derivatives(
    value: Tensor,
    way: str,
    p: MultivariateNormal,
    q: MultivariateNormal,
    divergence: Divergence,
    *,
    by_factors: bool,
) -> Tensor:
    """The value, differentiable in means and matrices.

    Args:
        value: The divergence.
        way: The name of the matrices that were given.
        p: The first law.
        q: The second law.
        divergence: What second derivatives are taken of.
        by_factors: Whether the factors that torch made are good enough, however large they are.
    """
    tensors = [tensor for law in (p, q) for tensor in (law.loc, getattr(law, way))]
    trusted = value.dtype is p.loc.dtype or (by_factors and p.loc.shape[-1] > _SMALL)
    factors = [law._unbroadcasted_scale_tril.detach() if trusted else None for law in (p, q)]
    found: Tensor = _Given.apply(value, way, factors, divergence, *tensors)
    return found


class _Given(torch.autograd.Function):
    """First-order backward by the formulas above; a recorded or transformed backward goes through the divergence."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, way: str, factors: Sequence[Tensor | None], divergence: Divergence, *tensors: Tensor
    ) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.way, ctx.factors, ctx.divergence = way, factors, divergence
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors, needs = ctx.saved_tensors, ctx.needs_input_grad[4:]
        if torch.is_grad_enabled() or transform_active() or tracer_active() or not is_plain(grad):
            found: Sequence[Tensor] = _through_divergence(ctx.divergence, ctx.way, grad, tensors)
        else:
            found = _gradients(ctx.way, grad, ctx.factors, tensors)
        kept = (g if need else None for g, need in zip(found, needs, strict=True))
        return (None, None, None, None, *kept)


def _gradients(way: str, grad: Tensor, factors: Sequence[Tensor | None], tensors: Sequence[Tensor]) -> list[Tensor]:
    loc_p, matrix_p, loc_q, matrix_q = tensors
    quick = matrix_gradients(way, grad, torch.sub(loc_p.double(), loc_q), matrix_p, matrix_q)
    if quick is not None:
        return quick
    inverse_p, inverse_q = (_inverse(way, *both) for both in ((matrix_p, factors[0]), (matrix_q, factors[1])))
    dtype = inverse_p.dtype
    shift = (loc_p.double() - loc_q.double()).to(dtype).unsqueeze(-1)
    half = (0.5 * grad).to(dtype)[..., None, None]
    covariances = way == "covariance_matrix"
    minuend, subtrahend = (matrix_p, matrix_q) if covariances else (matrix_q, matrix_p)
    gap = torch.sub(minuend.to(dtype), subtrahend).mul_(half)
    mixed = (inverse_q if covariances else inverse_p) @ gap
    to_loc = (inverse_q if covariances else matrix_q.to(dtype)) @ shift
    outer = to_loc if covariances else shift
    to_p, to_q = mixed @ inverse_p, (mixed @ inverse_q).add_((half * outer) @ outer.mT)
    (to_q if covariances else to_p).neg_()
    to_loc = 2 * half.squeeze(-1) * to_loc.squeeze(-1)
    return [g.to(t.dtype) for g, t in zip((to_loc, to_p, -to_loc, to_q), tensors, strict=True)]


def _inverse(way: str, matrix: Tensor, factor: Tensor | None) -> Tensor:
    """The inverse of a stored matrix; `factor` is torch's, of the covariance, where it can be trusted."""
    if factor is None:
        return torch.cholesky_inverse(torch.linalg.cholesky(matrix.double()))
    return torch.cholesky_inverse(factor) if way == "covariance_matrix" else factor @ factor.mT


def _through_divergence(divergence: Divergence, way: str, grad: Tensor, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    def of_tensors(loc_p: Tensor, matrix_p: Tensor, loc_q: Tensor, matrix_q: Tensor) -> Tensor:
        p = MultivariateNormal(loc_p, **{way: matrix_p}, validate_args=False)
        q = MultivariateNormal(loc_q, **{way: matrix_q}, validate_args=False)
        return divergence(p, q)

    found: Sequence[Tensor] = torch.func.vjp(of_tensors, *tensors)[1](grad)
    return found
