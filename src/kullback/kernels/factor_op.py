"""Two Gaussians compared by the lower triangular factors of their covariances, in one native pass.

With L_p = L_q·(I + W) and y = L_q⁻¹Δμ the divergence is ½‖W‖² + Σ[wᵢᵢ − log(1+wᵢᵢ)] + ½‖y‖². Only the lower triangle
is computed, in float64 whatever the factors' dtype (`csrc/pairs/factors.cpp`). With G = W + diag(wᵢᵢ/(1+wᵢᵢ)), the
derivative in W, those in the parameters are

    L_p: tril(L_q⁻ᵀG),   L_q: −tril(L_q⁻ᵀ[G(I+W)ᵀ + yyᵀ]),   μ_p, μ_q: ±L_q⁻ᵀy.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kullback._core.dtypes import work_dtype
from kullback.kernels import native as _native
from kullback.kernels.face import Op
from kullback.kernels.levels import is_plain, tracer_active, transform_active

_DTYPES = {torch.float64: 0, torch.float32: 1}
_CALL = struct.Struct("=14q")
_PANEL = 24  # columns, as csrc/pairs/factors.h has it
_MATRICES = struct.Struct("=9qd")
_GRADIENTS = struct.Struct("=13q")
_LARGEST = 96  # rows, as csrc/pairs/factors.h has it; beyond, LAPACK's blocks are quicker than one loop
_KINDS = {"scale_tril": 0, "covariance_matrix": 1, "precision_matrix": 2}
Compared = tuple[Tensor, Tensor]
Parts = tuple[Tensor, Tensor, Tensor, Tensor]


class FactorOp:
    """KL of two Gaussians from means and factors; returns it, and ‖W‖² without derivatives, in working precision.

    Args:
        formula: The same, W and y in pure torch, for tensors in working precision: the meaning of the op. It also
            serves large matrices on processors whose native loops are slower than a BLAS.
    """

    def __init__(self, formula: Callable[..., Parts]) -> None:
        self.formula = formula
        self.op = Op(
            "compare_factors",
            "(Tensor loc_p, Tensor lower_p, Tensor loc_q, Tensor lower_q) -> (Tensor, Tensor, Tensor, Tensor)",
            reference=self._reference,
            native=self._forward,
            backward=self._backward,
            fake=self._fake,
            kept=2,
        )
        library = _native.library()
        if library is not None:
            self._compare = library.kullback_compare_factors

    def __call__(self, loc_p: Tensor, lower_p: Tensor, loc_q: Tensor, lower_q: Tensor) -> Compared:
        """Any shapes that broadcast; one native pass serves batches of one shape on both sides."""
        tensors: tuple[Tensor, ...] = (loc_p, lower_p, loc_q, lower_q)
        dtype = loc_p.dtype
        if dtype not in _DTYPES or any(t.dtype is not dtype for t in tensors):
            tensors = tuple(t.to(work_dtype(t.device)) for t in tensors)
        alike = loc_p.shape == loc_q.shape and lower_p.shape == lower_q.shape == (*loc_p.shape, loc_p.shape[-1])
        compared: Compared = self.op(*tensors) if alike else self._reference(*tensors)
        return compared

    def _reference(self, *tensors: Tensor) -> Compared:
        return self.formula(*(t.to(work_dtype(t.device)) for t in tensors))[:2]

    @staticmethod
    def _fake(loc_p: Tensor, lower_p: Tensor, loc_q: Tensor, lower_q: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        del loc_q, lower_q
        wide = loc_p.new_empty(loc_p.shape[:-1], dtype=torch.float64)
        return wide, torch.empty_like(wide), wide.new_empty(lower_p.shape), wide.new_empty(loc_p.shape)

    def without_derivatives(
        self, loc_p: Tensor, lower_p: Tensor, loc_q: Tensor, lower_q: Tensor, traces: Tensor | None = None
    ) -> Compared | None:
        """The same without keeping W; None for what is not served, as in `compare_matrices`.

        `traces`, (..., 4) in float64, receives those of Σ_q, Σ_q⁻¹ (estimated), Σ_p and Σ_p⁻¹.
        """
        if not is_served(loc_p, lower_p, loc_q, lower_q):
            return None
        if _is_for_blas(loc_p.shape[-1]):
            wide = [t.detach().double() for t in (loc_p, lower_p, loc_q, lower_q)]
            if traces is not None:
                torch.stack([*_traces(wide[3]), *_traces(wide[1])], -1, out=traces)
            return self.formula(*wide)[:2]
        value, square, _ = self._run(loc_p, lower_p, loc_q, lower_q, None, traces)
        return value, square

    def _forward(
        self, loc_p: Tensor, lower_p: Tensor, loc_q: Tensor, lower_q: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if _is_for_blas(loc_p.shape[-1]):
            return self.formula(*(t.detach().double() for t in (loc_p, lower_p, loc_q, lower_q)))
        w = lower_p.new_empty(lower_p.shape, dtype=torch.float64)
        value, square, y = self._run(loc_p, lower_p, loc_q, lower_q, w)
        return value, square, w, y

    def _run(  # noqa: PLR0917
        self,
        loc_p: Tensor,
        lower_p: Tensor,
        loc_q: Tensor,
        lower_q: Tensor,
        w: Tensor | None,
        traces: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        *batch, size = loc_p.shape
        shift = (loc_p.double() - loc_q.double()).contiguous()
        by_columns = lower_p.mT.is_contiguous() and lower_q.mT.is_contiguous()
        if not by_columns:
            lower_p, lower_q = _by_rows(lower_p), _by_rows(lower_q)
        y = torch.empty_like(shift)
        count, panels = math.prod(batch), -(-size // _PANEL)
        parts = shift.new_zeros(count, panels + 1, 3)
        packed = _CALL.pack(
            *(_DTYPES[lower_p.dtype], count, size, torch.get_num_threads()),
            *(lower_p.data_ptr(), lower_q.data_ptr(), int(by_columns), size * size, size * size),
            *(shift.data_ptr(), 0 if w is None else w.data_ptr(), y.data_ptr(), parts.data_ptr()),
            0 if traces is None else traces.data_ptr(),
        )
        status = self._compare(packed)
        assert status == 0
        square, gap, distance = parts.sum(1).unbind(-1)
        value = 0.5 * (square + distance) + gap
        return value.reshape(batch), square.reshape(batch), y

    @staticmethod
    def _backward(grads: Sequence[Tensor], saved: Sequence[Tensor], needs: Sequence[bool]) -> list[Tensor | None]:
        loc_p, lower_p, loc_q, lower_q, w, y = saved
        quick = matrix_gradients("scale_tril", grads[0], y, lower_p, lower_q, w)
        if quick is not None:
            return [g if need else None for g, need in zip(quick, needs, strict=True)]
        del loc_q
        single = lower_q.dtype is torch.float32 and lower_q.shape[-1] > _LARGEST and _is_well_conditioned(lower_q)
        work = torch.float32 if single else torch.float64
        grad = grads[0].to(work)[..., None]
        lower, w, y = lower_q.to(work), w.to(work), y.to(work)
        on_p, on_q = (t.diagonal(dim1=-2, dim2=-1).double() for t in (lower_p, lower_q))
        right = torch.cat([w, y.unsqueeze(-1)], -1)
        right.diagonal(dim1=-2, dim2=-1).add_((on_p - on_q) / on_p)
        solved = torch.linalg.solve_triangular(lower.mT, right.mul_(grad.unsqueeze(-1)), upper=True)
        through_w, through_y = solved[..., :-1], solved[..., -1]
        dtype = loc_p.dtype
        found: list[Tensor | None] = [None] * 4
        if needs[0]:
            found[0] = through_y.to(dtype)
        if needs[1]:
            found[1] = through_w.tril().to(dtype)
        if needs[2]:
            found[2] = -through_y.to(dtype)
        if needs[3]:
            whole = torch.cat([w, y.unsqueeze(-1)], -1)
            # I + W with a diagonal that survives wᵢᵢ = −1.
            whole.diagonal(dim1=-2, dim2=-1).copy_(on_p / on_q)
            found[3] = (solved @ whole.mT).tril().neg_().to(dtype)
        return found


def _by_rows(lower: Tensor) -> Tensor:
    """The lower triangle with contiguous rows; of factors by columns, as LAPACK makes them, the rest is undefined."""
    if lower.is_contiguous() or not lower.mT.is_contiguous():
        return lower.contiguous()
    library, size = _native.library(), lower.shape[-1]
    assert library is not None
    rows = torch.empty_like(lower, memory_format=torch.contiguous_format)
    count = lower.numel() // max(size * size, 1)
    library.kullback_transpose_lower(_DTYPES[lower.dtype], count, size, lower.data_ptr(), rows.data_ptr())
    return rows


# The largest product of mean eigenvalues of Σ and Σ⁻¹ for which float32 keeps enough digits.
_CONDITION, _PROBES = 100.0, 4


def are_well_conditioned(traces: Tensor, size: int) -> bool:
    """Whether Σ_p and Σ_q are, by the traces that `without_derivatives` found."""
    return bool((traces[..., ::2] * traces[..., 1::2] < _CONDITION * size**2).all())


def _is_well_conditioned(lower: Tensor) -> bool:
    """The same of one LLᵀ."""
    trace, of_inverse = _traces(lower)
    return bool((trace * of_inverse < _CONDITION * lower.shape[-1] ** 2).all())


def _traces(lower: Tensor) -> tuple[Tensor, Tensor]:
    """Those of LLᵀ, ‖L‖², and of its inverse, about E‖L⁻¹r‖², r random signs."""
    signs = _signs(lower.shape[-1]).to(lower.dtype).expand(*lower.shape[:-1], _PROBES)
    solved = torch.linalg.solve_triangular(lower, signs, upper=False)
    trace, of_inverse = (torch.linalg.vector_norm(x, dim=(-2, -1)).square() for x in (lower, solved))
    return trace, of_inverse / _PROBES


@functools.cache
def _is_wide() -> bool:
    return _native.status().instruction_set == "avx512"


def _is_for_blas(size: int) -> bool:
    """Whether matrices of so many rows are compared sooner by a BLAS, which has a kernel for every processor."""
    return size > _LARGEST and not _is_wide()


@functools.cache
def _signs(size: int) -> Tensor:
    return torch.randint(0, 2, (size, _PROBES), generator=torch.Generator().manual_seed(0)) * 2 - 1


def compare_matrices(  # noqa: PLR0917
    given: str, loc_p: Tensor, matrix_p: Tensor, loc_q: Tensor, matrix_q: Tensor, near: float
) -> Tensor | None:
    """KL of two Gaussians with small matrices, as given, in one native pass without derivatives; float64.

    Where ‖W‖² is below `near`, W is refined from the difference of the matrices. None for what is not served: large
    matrices, shapes that broadcast, tensors that need a gradient or are followed, matrices that are not positive
    definite.
    """
    dtype, size = loc_p.dtype, loc_p.shape[-1]
    if size > _LARGEST or not is_served(loc_p, matrix_p, loc_q, matrix_q):
        return None
    library = _native.library()
    assert library is not None
    shift = torch.sub(loc_p.double(), loc_q).contiguous()
    matrix_p, matrix_q = matrix_p.contiguous(), matrix_q.contiguous()
    value = shift.new_empty(shift.shape[:-1])
    packed = _MATRICES.pack(
        *(_DTYPES[dtype], value.numel(), size, torch.get_num_threads()),
        *(matrix_p.data_ptr(), matrix_q.data_ptr(), shift.data_ptr(), value.data_ptr(), _KINDS[given], near),
    )
    return value if library.kullback_compare_matrices(packed) == 0 else None


def matrix_gradients(  # noqa: PLR0917
    given: str, grad: Tensor, shift: Tensor, matrix_p: Tensor, matrix_q: Tensor, w: Tensor | None = None
) -> list[Tensor] | None:
    """Gradients to μ_p, p's matrix, μ_q and q's matrix, in one native pass; None for large or indefinite matrices.

    Args:
        given: What the matrices are.
        grad: The incoming gradient.
        shift: μ_p − μ_q in float64; y of a comparison of factors.
        matrix_p: Of float32 or float64.
        matrix_q: Of the same dtype and shape.
        w: Of a comparison of factors.
    """
    library, size = _native.library(), shift.shape[-1]
    if library is None or size > _LARGEST:
        return None
    matrix_p, matrix_q, shift, grad = (t.contiguous() for t in (matrix_p, matrix_q, shift, grad.double()))
    to_p, to_q = torch.empty_like(matrix_p), torch.empty_like(matrix_q)
    to_loc = torch.empty_like(shift, dtype=matrix_p.dtype)
    packed = _GRADIENTS.pack(
        *(_DTYPES[matrix_p.dtype], grad.numel(), size, torch.get_num_threads()),
        *(matrix_p.data_ptr(), matrix_q.data_ptr(), shift.data_ptr(), 0 if w is None else w.data_ptr()),
        *(grad.data_ptr(), to_p.data_ptr(), to_q.data_ptr(), to_loc.data_ptr(), _KINDS[given]),
    )
    return [to_loc, to_p, -to_loc, to_q] if library.kullback_matrix_gradients(packed) == 0 else None


def is_served(loc_p: Tensor, matrix_p: Tensor, loc_q: Tensor, matrix_q: Tensor) -> bool:
    """Dense tensors of one dtype and of matching shapes that nobody follows and no gradient is wanted of."""
    if torch.compiler.is_compiling() or transform_active() or tracer_active() or _native.library() is None:
        return False
    dtype, size = loc_p.dtype, loc_p.shape[-1]
    if dtype not in _DTYPES or loc_p.shape != loc_q.shape:
        return False
    if not matrix_p.shape == matrix_q.shape == (*loc_p.shape, size):
        return False
    recorded = torch.is_grad_enabled()
    for tensor in (loc_p, matrix_p, loc_q, matrix_q):
        if tensor.dtype is not dtype or (recorded and tensor.requires_grad) or not is_plain(tensor):
            return False
    return True
