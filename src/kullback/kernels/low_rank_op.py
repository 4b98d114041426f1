"""Two Gaussians with covariances Σ = D + UUᵀ compared, in one native pass (`csrc/pairs/low_rank.h`).

With Δ = Σ_p − Σ_q = D_p − D_q + ΔU·U_pᵀ + U_q·ΔUᵀ and δ = μ_p − μ_q the derivatives are

    Σ_p: ½Σ_q⁻¹ΔΣ_p⁻¹,   Σ_q: −½Σ_q⁻¹(Δ + δδᵀ)Σ_q⁻¹,   μ_p, μ_q: ±Σ_q⁻¹δ,

in which Δ is a factor, so that they are as accurate near equality as elsewhere; U takes twice the matrix times U, and D
the diagonal. Where U_p and U_q have little in common, ΔU has the rounding errors of the larger, and the derivatives are
½(Σ_q⁻¹ − Σ_p⁻¹) and ½(Σ_q⁻¹ − Σ_q⁻¹(Σ_p + δδᵀ)Σ_q⁻¹) as they stand. No n × n matrix is formed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.dtypes import work_dtype
from kullback.kernels import native as _native
from kullback.kernels.face import Op

_DTYPES = {torch.float64: 0, torch.float32: 1}
_CALL = struct.Struct("=12qd")
# ‖ΔU‖² as a share of ‖U_p‖² + ‖U_q‖² from which nothing is gained by taking the difference first.
_UNLIKE = 0.5
LARGEST_RANK = 16  # columns of U, as csrc/pairs/factors.h has it


class LowRank(NamedTuple):
    """A Gaussian with the covariance D + UUᵀ.

    Attributes:
        loc: Its mean.
        factor: U.
        diagonal: D.
    """

    loc: Tensor
    factor: Tensor
    diagonal: Tensor


class LowRankOp:
    """KL of two such Gaussians, in working precision.

    Args:
        formula: The same in pure torch, for tensors in working precision: the meaning of the op.
        near: Where tr M² is below this, the divergence is found by its expansion to second order.
    """

    def __init__(self, formula: Callable[[LowRank, LowRank], Tensor], near: float) -> None:
        self.formula, self.near = formula, near
        names = [f"Tensor {name}_{side}" for side in "pq" for name in LowRank._fields]
        self.op = Op(
            "compare_low_rank",
            f"({', '.join(names)}) -> Tensor",
            reference=self._reference,
            native=self._forward,
            backward=_backward,
            fake=_fake,
        )

    def __call__(self, p: LowRank, q: LowRank) -> Tensor:
        """Any shapes that broadcast; one native pass serves batches of one shape and moderate rank on both sides."""
        *batch, size, rank = p.factor.shape
        shapes = (*batch, size), p.factor.shape, (*batch, size)
        alike = all(t.shape == shape for side in (p, q) for t, shape in zip(side, shapes, strict=True))
        dtype = p.loc.dtype
        tensors: Sequence[Tensor] = (*p, *q)
        if dtype not in _DTYPES or any(t.dtype is not dtype for t in tensors):
            tensors = [t.to(work_dtype(t.device)) for t in tensors]
        value: Tensor = self.op(*tensors) if alike and 1 <= rank <= LARGEST_RANK else self._reference(*tensors)
        return value

    def _reference(self, *tensors: Tensor) -> Tensor:
        wide = [t.to(work_dtype(t.device)) for t in tensors]
        return self.formula(LowRank(*wide[:3]), LowRank(*wide[3:]))

    def _forward(self, *tensors: Tensor) -> Tensor:
        library = _native.library()
        assert library is not None
        *batch, size, rank = tensors[1].shape
        value = tensors[0].new_empty(batch, dtype=torch.float64)
        held = [tensor.contiguous() for tensor in tensors]
        packed = _CALL.pack(
            *(_DTYPES[tensors[0].dtype], value.numel(), size, rank, torch.get_num_threads()),
            *(tensor.data_ptr() for tensor in held),
            *(value.data_ptr(), self.near),
        )
        # A capacitance matrix that overflows is left to the formula.
        return value if library.kullback_compare_low_rank(packed) == 0 else self._reference(*tensors)


def _fake(*tensors: Tensor) -> Tensor:
    return tensors[0].new_empty(tensors[0].shape[:-1], dtype=torch.float64)


class _Inverse(NamedTuple):
    """Σ⁻¹ = D^{-½}FFᵀD^{-½}, F = I − oᵀi, as in `low_rank_multivariate_normal`.

    Attributes:
        scale: D^{-½} as a column.
        outer: o, k × n.
        inner: i, k × n.
        times_factor: Σ⁻¹U.
    """

    scale: Tensor
    outer: Tensor
    inner: Tensor
    times_factor: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Σ⁻¹x."""
        half = self.scale * x
        half = half - self.inner.mT @ (self.outer @ half)
        return self.scale * (half - self.outer.mT @ (self.inner @ half))

    def diagonal(self) -> Tensor:
        """That of Σ⁻¹."""
        return self.scale.squeeze(-1).square() * (1 - self.outer.square().sum(-2))


def _inverse(factor: Tensor, diagonal: Tensor) -> _Inverse:
    scale = diagonal.rsqrt().unsqueeze(-1)
    a = factor * scale
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    capacitance = torch.linalg.cholesky(a.mT @ a + eye)
    solve = torch.linalg.solve_triangular
    outer, inner = solve(capacitance, a.mT, upper=False), solve(capacitance + eye, a.mT, upper=False)
    return _Inverse(scale, outer, inner, scale * solve(capacitance.mT, outer, upper=True).mT)


def _between(a: _Inverse, change: Tensor, b: _Inverse) -> Tensor:
    """The diagonal of Σ_a⁻¹·change·Σ_b⁻¹ for a diagonal change."""
    rows_a, rows_b = a.scale * a.outer.mT, b.scale * b.outer.mT
    share_a, share_b = a.outer.square().sum(-2), b.outer.square().sum(-2)
    plain = change * (1 - share_a - share_b) * (a.scale * b.scale).squeeze(-1).square()
    return plain + ((rows_a @ (rows_a.mT @ (change.unsqueeze(-1) * rows_b))) * rows_b).sum(-1)


def _backward(grads: Sequence[Tensor], saved: Sequence[Tensor], needs: Sequence[bool]) -> list[Tensor | None]:
    wide = [t.double() for t in saved]
    p, q = LowRank(*wide[:3]), LowRank(*wide[3:])
    scale = q.diagonal.unsqueeze(-1)
    moved, whole = ((x / scale).sum((-2, -1)) for x in _squares(p.factor, q.factor))
    apart = moved > _UNLIKE * whole
    if bool(apart.all()):
        found = _gradients_apart(p, q, needs)
    else:
        found = _gradients(p, q, needs)
        if bool(apart.any()):
            pairs = zip(found, _gradients_apart(p, q, needs), strict=True)
            found = [g if g is None or h is None else _chosen(apart, h, g) for g, h in pairs]
    grad = grads[0].double()
    return [
        (g * _columns(grad, g)).to(t.dtype) if need and g is not None else None
        for g, t, need in zip(found, saved, needs, strict=True)
    ]


def _squares(u: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return (u - w).square(), u.square() + w.square()


def _columns(x: Tensor, like: Tensor) -> Tensor:
    return x.reshape(*x.shape, *[1] * (like.dim() - x.dim()))


def _chosen(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    return torch.where(_columns(condition, yes), yes, no)


def _gradients(p: LowRank, q: LowRank, needs: Sequence[bool]) -> list[Tensor | None]:
    of_q = _inverse(q.factor, q.diagonal)
    offset, moved, change = (p.loc - q.loc).unsqueeze(-1), p.factor - q.factor, p.diagonal - q.diagonal
    both = of_q.apply(torch.cat([offset, moved], -1))
    pulled, by_q = both[..., :1], both[..., 1:]
    of_offset, column = pulled.squeeze(-1), change.unsqueeze(-1)

    def times_change(z: Tensor) -> Tensor:
        """Σ_q⁻¹Δz."""
        return of_q.apply(column * z) + by_q @ (p.factor.mT @ z) + of_q.times_factor @ (moved.mT @ z)

    found: list[Tensor | None] = [of_offset, None, None, -of_offset, None, None]
    if needs[1] or needs[2]:
        of_p = _inverse(p.factor, p.diagonal)
        z = of_p.times_factor
        found[1] = times_change(z)
        found[2] = 0.5 * (_between(of_q, change, of_p) + (by_q * z + of_q.times_factor * of_p.apply(moved)).sum(-1))
    if needs[4] or needs[5]:
        z = of_q.times_factor
        found[4] = -times_change(z) - pulled @ (offset.mT @ z)
        around = _between(of_q, change, of_q) + (by_q * (by_q + 2 * z)).sum(-1)
        found[5] = -0.5 * (around + of_offset.square())
    return found


def _gradients_apart(p: LowRank, q: LowRank, needs: Sequence[bool]) -> list[Tensor | None]:
    of_q = _inverse(q.factor, q.diagonal)
    both = of_q.apply(torch.cat([(p.loc - q.loc).unsqueeze(-1), p.factor], -1))
    pulled, by_q = both[..., :1], both[..., 1:]
    of_offset = pulled.squeeze(-1)
    found: list[Tensor | None] = [of_offset, None, None, -of_offset, None, None]
    if needs[1] or needs[2]:
        of_p = _inverse(p.factor, p.diagonal)
        found[1] = by_q - of_p.times_factor
        found[2] = 0.5 * (of_q.diagonal() - of_p.diagonal())
    if needs[4] or needs[5]:
        z = of_q.times_factor
        through = of_q.apply(p.diagonal.unsqueeze(-1) * z) + by_q @ (p.factor.mT @ z)
        found[4] = z - through - pulled @ ((p.loc - q.loc).unsqueeze(-2) @ z)
        around = _between(of_q, p.diagonal, of_q) + by_q.square().sum(-1)
        found[5] = 0.5 * (of_q.diagonal() - around - of_offset.square())
    return found
