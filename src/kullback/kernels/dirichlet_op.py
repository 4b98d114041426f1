"""The divergence of two Dirichlet laws as one native pass over rows of concentrations (`csrc/pairs/dirichlet.h`)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kullback._core.dtypes import result_dtype, work_dtype
from kullback._core.shapes import joint_shape
from kullback.kernels import native as _native
from kullback.kernels.face import Op

_DTYPES = {torch.float64: 0, torch.float32: 1}
_CALL = struct.Struct("=10q")


class DirichletOp:
    """KL(Dir(α) ‖ Dir(β)) over the last dimension.

    Args:
        formula: The same in pure torch, for tensors in working precision: the meaning of the op.
    """

    def __init__(self, formula: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.formula = formula
        self.op = Op(
            "dirichlet",
            "(Tensor alpha, Tensor beta) -> Tensor",
            reference=self._reference,
            native=self._forward,
            backward=self._backward,
            fake=lambda alpha, beta: alpha.new_empty(joint_shape(alpha.shape, beta.shape)[:-1]),
        )
        library = _native.library()
        if library is not None:
            self._run_forward, self._run_backward = (
                library.kullback_dirichlet_forward,
                library.kullback_dirichlet_backward,
            )

    def __call__(self, alpha: Tensor, beta: Tensor) -> Tensor:
        """One value per row of the broadcast shape; float64 if either tensor is, else float32."""
        if alpha.dtype is beta.dtype and alpha.dtype in _DTYPES:
            value: Tensor = self.op(alpha, beta)
            return value
        wide: Tensor = self.op(*(t.to(work_dtype(t.device)) for t in (alpha, beta)))
        return wide.to(result_dtype(alpha, beta))

    def _reference(self, alpha: Tensor, beta: Tensor) -> Tensor:
        value = self.formula(*(t.to(work_dtype(t.device)) for t in (alpha, beta)))
        return value.to(alpha.dtype).expand(joint_shape(alpha.shape, beta.shape)[:-1])

    def _forward(self, alpha: Tensor, beta: Tensor) -> Tensor:
        alpha, beta = _rows(alpha, beta)
        value = alpha.new_empty(alpha.shape[:-1])
        self._call(self._run_forward, alpha, beta, value.data_ptr(), 0, 0, 0)
        return value

    def _backward(self, grads: Sequence[Tensor], saved: Sequence[Tensor], needs: Sequence[bool]) -> list[Tensor | None]:
        grad = grads[0].contiguous()
        rows = _rows(*saved)
        found = [torch.empty_like(t) if need else None for t, need in zip(rows, needs, strict=True)]
        addresses = [0 if g is None else g.data_ptr() for g in found]
        self._call(self._run_backward, *rows, 0, grad.data_ptr(), *addresses)
        return [None if g is None else g.sum_to_size(t.shape) for g, t in zip(found, saved, strict=True)]

    @staticmethod
    def _call(run: Callable[[bytes], int], alpha: Tensor, beta: Tensor, *addresses: int) -> None:
        *batch, classes = alpha.shape
        packed = _CALL.pack(
            *(_DTYPES[alpha.dtype], math.prod(batch), classes, torch.get_num_threads()),
            *(alpha.data_ptr(), beta.data_ptr(), *addresses),
        )
        if run(packed):
            raise RuntimeError("the native function 'dirichlet' refused its arguments")


def _rows(alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    shape = joint_shape(alpha.shape, beta.shape)
    return alpha.expand(shape).contiguous(), beta.expand(shape).contiguous()
