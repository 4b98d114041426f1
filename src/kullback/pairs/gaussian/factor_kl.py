"""KL of two Gaussians from their means and Cholesky factors, with first derivatives in one solve and one product.

With L_p = L_q·(I + W) and y = L_q⁻¹(μ_p − μ_q) the divergence is ½‖W‖² + Σ[wᵢᵢ − log(1+wᵢᵢ)] + ½‖y‖², every term
non-negative. With G = W + diag(wᵢᵢ/(1+wᵢᵢ)), its derivative in W, the derivatives in the parameters are

    L_p: tril(L_q⁻ᵀG),   L_q: −tril(L_q⁻ᵀ[G(I+W)ᵀ + yyᵀ]),   μ_p, μ_q: ±L_q⁻ᵀy.

`multivariate_normal` calls it for every pair of dense Gaussians.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kullback.kernels.levels import is_plain, is_traced
from kullback.pairs.gaussian.relative_factor import BLOCK, compared_in, factor_difference, log1p_gaps
from kullback.special import log1pmx

# Between these ratios of diagonals L_p − L_q loses at most three of sixteen digits of L_p.
_LEAST_RATIO, _LARGEST_RATIO = 2.0**-10, 2.0**10


def factor_kl(loc_p: Tensor, lower_p: Tensor, loc_q: Tensor, lower_q: Tensor) -> tuple[Tensor, Tensor]:
    """The divergence, and W without derivatives, of tensors whose shapes broadcast."""
    tensors = loc_p, lower_p, loc_q, lower_q
    if is_traced() or not _is_served(tensors):
        value, w = _formula(*tensors)
        return value, w.detach()
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        value, both = _FactorKL.apply(*tensors)
    else:
        value, both = _eager(*tensors)
    return value, both[..., :-1]


def _is_served(tensors: Sequence[Tensor]) -> bool:
    """Whether all are plain tensors of one batch shape, with diagonals that are not on different scales."""
    loc_p, lower_p, loc_q, lower_q = tensors
    if not lower_p.shape == lower_q.shape == (*loc_p.shape, loc_p.shape[-1]) or loc_p.shape != loc_q.shape:
        return False
    if loc_p.numel() == 0 or not all(map(is_plain, tensors)):
        return False
    ratio = lower_p.detach().diagonal(0, -2, -1) / lower_q.detach().diagonal(0, -2, -1)
    least, largest = ratio.aminmax()
    return least.item() > _LEAST_RATIO and largest.item() < _LARGEST_RATIO


def _formula(*tensors: Tensor) -> tuple[Tensor, Tensor]:
    """The divergence and W in plain torch, to any derivative."""
    dtype = compared_in(*tensors)
    loc_p, lower_p, loc_q, lower_q = (t.to(dtype) for t in tensors)
    y = torch.linalg.solve_triangular(lower_q, (loc_p - loc_q).unsqueeze(-1), upper=False)
    w, log_diagonal = factor_difference(lower_p, lower_q)
    return 0.5 * (w.square().sum((-2, -1)) + y.square().sum((-2, -1))) + log1p_gaps(w, log_diagonal), w


def _eager(*tensors: Tensor) -> tuple[Tensor, Tensor]:
    """The divergence and [W y] in fewer operations, without history."""
    dtype = compared_in(*tensors)
    loc_p, lower_p, loc_q, lower_q = (t if t.dtype is dtype else t.to(dtype) for t in tensors)
    difference, shift = _lower_triangle_(lower_p - lower_q), (loc_p - loc_q).unsqueeze(-1)
    both = _solve(lower_q, torch.cat([difference.mT, shift.mT], -2).mT)  # by columns, as LAPACK wants them
    half = 0.5 * torch.linalg.vector_norm(both, dim=(-2, -1)).square()
    diagonal = difference.diagonal(0, -2, -1) / lower_q.diagonal(0, -2, -1)
    return half - log1pmx(diagonal).sum(-1), both


class _FactorKL(torch.autograd.Function):
    """First-order backward by the formulas above; a backward pass that is recorded itself differentiates `_formula`."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        value, both = _eager(*tensors)
        ctx.save_for_backward(*tensors, both)
        ctx.mark_non_differentiable(both)
        ctx.set_materialize_grads(False)
        return value, both

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        *tensors, both = ctx.saved_tensors
        if grad is None:
            return (None,) * len(tensors)
        if torch.is_grad_enabled() or is_traced() or not is_plain(grad):
            found: Sequence[Tensor] = torch.func.vjp(lambda *t: _formula(*t)[0], *tensors)[1](grad)
        else:
            found = _gradients(grad, both, tensors[1].to(both.dtype), tensors[3].to(both.dtype))
        needed = zip(found, tensors, ctx.needs_input_grad, strict=True)
        return tuple(g.to(t.dtype) if need else None for g, t, need in needed)


def _gradients(grad: Tensor, both: Tensor, lower_p: Tensor, lower_q: Tensor) -> tuple[Tensor, ...]:
    diagonal_p, diagonal_q = lower_p.diagonal(0, -2, -1), lower_q.diagonal(0, -2, -1)
    slopes = both * grad[..., None, None]
    slopes.diagonal(0, -2, -1).add_((diagonal_p - diagonal_q) / diagonal_p * grad[..., None])
    solved = _solve(lower_q, slopes, transposed=True)
    whole = both.clone()
    whole.diagonal(0, -2, -1).copy_(diagonal_p / diagonal_q)
    size = lower_q.shape[-1]
    if size <= BLOCK:
        to_q = solved @ whole.mT
    else:
        # Of the product of two lower triangular matrices, S·(I+W)ᵀ, only the lower triangle is wanted.
        to_q = solved[..., -1:] @ whole[..., -1:].mT
        for start in range(0, size, BLOCK):
            end = min(start + BLOCK, size)
            to_q[..., start:end, :end] += solved[..., start:end, :end] @ whole[..., :end, :end].mT
    to_loc, to_p = solved[..., -1], solved[..., :-1]
    return to_loc, _lower_triangle_(to_p), -to_loc, _lower_triangle_(to_q.neg_())


def _lower_triangle_(x: Tensor) -> Tensor:
    """The rest becomes 0 in place, for matrices stored by columns, too, as `torch.linalg.cholesky` makes them."""
    return x.mT.triu_().mT if x.mT.is_contiguous() else x.tril_()


def _solve(lower: Tensor, right: Tensor, *, transposed: bool = False) -> Tensor:
    """The lower triangle and last column of L⁻¹R or L⁻ᵀR, R = [a lower triangle, a column], which may be overwritten.

    Large matrices by blocks of rows: most of the work becomes products, which a BLAS does sooner than solving, and none
    is done for what lies above the diagonal.
    """
    solve = torch.linalg.solve_triangular
    size = lower.shape[-1]
    if size <= BLOCK:
        found: Tensor = solve(lower.mT if transposed else lower, right, upper=transposed)
        return found
    starts = range(0, size, BLOCK)
    for start in reversed(starts) if transposed else starts:
        end = min(start + BLOCK, size)
        block, rows = lower[..., start:end, start:end], right[..., start:end, :end]
        if transposed:
            rows -= lower[..., end:, start:end].mT @ right[..., end:, :end]
        else:
            rows[..., :start] -= lower[..., start:end, :start] @ right[..., :start, :start]
        rows.copy_(solve(block.mT if transposed else block, rows, upper=transposed))
    column = right[..., -1:]
    column.copy_(solve(lower.mT if transposed else lower, column, upper=transposed))
    return right
