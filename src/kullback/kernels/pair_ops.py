"""Divergences of two univariate distributions as functions of their parameters: one native pass, one backward pass.

An op reads parameters as they are stored, float32 or float64, broadcast or strided, and computes inside in whatever
precision its formula needs (`csrc/pairs/`). Other dtypes, and mixtures of the two, are widened first: the answer is
float64 if any parameter is, else float32.

Of many elements whose gradient is wanted, value and slopes are found in one pass: they share their logarithms, and the
parameters are read once.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kullback._core.dtypes import result_dtype, work_dtype
from kullback._core.shapes import joint_shape
from kullback.kernels import native as _native
from kullback.kernels.face import Op
from kullback.kernels.levels import is_plain, tracer_active, transform_active

_DTYPES = {torch.float64: 0, torch.float32: 1}
_CALL = struct.Struct("=30q")
_MOST = 4  # parameters of both sides together
_ABSENT = (0, 0, 0)
_UNWANTED = (0, 1)
_PARALLEL_FROM = 16384  # elements
_TOGETHER_FROM = 4096  # elements


class PairOp:
    """KL(p ‖ q) as a function of the parameters of p and q, called with tensors.

    Args:
        name: Name of the native function; the op is called `pair_<name>`.
        formula: The same in pure torch, for tensors in working precision: the meaning of the op.
        arguments: Names of the parameters, those of p first.
        parts: How many parameters an argument holds, along its last dimension; 0 if it is one itself.
    """

    def __init__(self, name: str, formula: Callable[..., Tensor], *, arguments: Sequence[str], parts: int = 0) -> None:
        self.formula = formula
        self.parts = parts
        self.op = Op(
            f"pair_{name}",
            f"({', '.join(f'Tensor {argument}' for argument in arguments)}) -> Tensor",
            reference=self._reference,
            native=self._forward,
            backward=self._backward,
            fake=self._fake,
        )
        library = _native.library()
        if library is not None:
            self._function = library.kullback_pair_index(name.encode())
            if self._function < 0:
                raise ValueError(f"the native library has no pair {name!r}")
            self._run_forward, self._run_backward = library.kullback_pair_forward, library.kullback_pair_backward
            self._run_together = library.kullback_pair_together

    def __call__(self, *tensors: Tensor) -> Tensor:
        """The divergence in the broadcast shape; float64 if any parameter is, else float32."""
        dtype = tensors[0].dtype
        for tensor in tensors:  # a loop, not a generator: small inputs feel the difference
            if tensor.dtype is not dtype or dtype not in _DTYPES:
                return self._widened(tensors)
        value: Tensor = _Together.apply(self, *tensors) if self._is_together(tensors) else self.op(*tensors)
        return value

    def _is_together(self, tensors: Sequence[Tensor]) -> bool:
        """Whether value and slopes are to be found in one pass: many elements, a gradient wanted, nobody following."""
        if max(t.numel() for t in tensors) < _TOGETHER_FROM or not torch.is_grad_enabled() or not self.op.live:
            return False
        if torch.compiler.is_compiling() or transform_active() or tracer_active():
            return False
        return any(t.requires_grad for t in tensors) and all(map(is_plain, tensors))

    def together(self, tensors: Sequence[Tensor], needs: Sequence[bool]) -> tuple[Tensor, list[Tensor | None] | None]:
        """The value and its slopes to what is needed; None for slopes that lost digits when they were rounded."""
        shape = self._shape(tensors)
        parameters = self._parameters(tensors)
        value = tensors[0].new_empty(shape)
        rows, columns, operands, held = lay_out(parameters, shape)
        slopes, outputs = self._outputs(value, needs)
        unused = _MOST - len(parameters)
        lost = ctypes.c_int64(0)
        packed = _CALL.pack(
            *(self._function, _DTYPES[value.dtype], rows, columns, torch.get_num_threads(), value.data_ptr()),
            *_ABSENT,
            *operands,
            *_ABSENT * unused,
            *outputs,
            *_UNWANTED * unused,
            ctypes.addressof(lost),
        )
        status = self._run_together(packed)
        del held
        if status:
            raise RuntimeError(f"the native function {self.op.name!r} refused its arguments")
        return value, None if lost.value else slopes

    def _outputs(self, like: Tensor, needs: Sequence[bool]) -> tuple[list[Tensor | None], list[int]]:
        """A tensor for each gradient that is needed; address and stride for each parameter."""
        shape = (*like.shape, self.parts) if self.parts else like.shape
        found = [like.new_empty(shape) if need else None for need in needs]
        outputs: list[int] = []
        for g in found:
            for i in range(self.parts or 1):
                outputs += _UNWANTED if g is None else (g.data_ptr() + i * g.element_size(), self.parts or 1)
        return found, outputs

    def _widened(self, tensors: Sequence[Tensor]) -> Tensor:
        value: Tensor = self.op(*(t.to(work_dtype(t.device)) for t in tensors))
        return value.to(result_dtype(*tensors))

    def _reference(self, *tensors: Tensor) -> Tensor:
        value = self.formula(*(t.to(work_dtype(t.device)) for t in tensors))
        return value.to(tensors[0].dtype).expand(self._shape(tensors))

    def _shape(self, tensors: Sequence[Tensor]) -> torch.Size:
        shape = joint_shape(*(t.shape for t in tensors))
        return shape[:-1] if self.parts else shape

    def _fake(self, *tensors: Tensor) -> Tensor:
        return tensors[0].new_empty(self._shape(tensors))

    def _parameters(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        return [t.select(-1, i) for t in tensors for i in range(self.parts)] if self.parts else tensors

    def _forward(self, *tensors: Tensor) -> Tensor:
        first = tensors[0]
        parameters = self._parameters(tensors)
        count = common_count(parameters)
        if count < 0:
            value = first.new_empty(self._shape(tensors))
            rows, columns, operands, held = lay_out(parameters, value.shape)
        else:
            value, rows, columns, held = torch.empty_like(parameters[0]), 1, count, parameters
            operands = [number for t in parameters for number in (t.data_ptr(), count, 1)]
        threads = torch.get_num_threads() if rows * columns >= _PARALLEL_FROM else 1
        packed = _CALL.pack(
            *(self._function, _DTYPES[first.dtype], rows, columns, threads, value.data_ptr()),
            *_ABSENT,
            *operands,
            *_ABSENT * (_MOST - len(parameters)),
            *_UNWANTED * _MOST,
            0,
        )
        status = self._run_forward(packed)
        del held
        if status:
            raise RuntimeError(f"the native function {self.op.name!r} refused its arguments")
        return value

    def _backward(self, grads: Sequence[Tensor], saved: Sequence[Tensor], needs: Sequence[bool]) -> list[Tensor | None]:
        (grad,), shape = grads, grads[0].shape
        parameters = self._parameters(saved)
        rows, columns, operands, held = lay_out([grad, *parameters], shape)
        found, outputs = self._outputs(grad, needs)
        threads = torch.get_num_threads() if rows * columns >= _PARALLEL_FROM else 1
        unused = _MOST - len(parameters)
        packed = _CALL.pack(
            *(self._function, _DTYPES[grad.dtype], rows, columns, threads, 0),
            *operands,
            *_ABSENT * unused,
            *outputs,
            *_UNWANTED * unused,
            0,
        )
        status = self._run_backward(packed)
        del held
        if status:
            raise RuntimeError(f"the native function {self.op.name!r} refused its arguments")
        return _in_shape_of(saved, found)


class _Together(torch.autograd.Function):
    """Value and slopes in the forward pass; the first backward pass multiplies the slopes and hands them out.

    A later one through the same graph finds them anew, since whoever received them may have changed them. A recorded or
    transformed backward goes through the reference.
    """

    @staticmethod
    def forward(ctx: Any, pair: PairOp, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.pair = pair
        value, ctx.slopes = pair.together(tensors, ctx.needs_input_grad[1:])
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        pair, saved, needs = ctx.pair, ctx.saved_tensors, ctx.needs_input_grad[1:]
        if torch.is_grad_enabled() or transform_active() or tracer_active() or not is_plain(grad):
            return (None, *pair.op._through_reference((grad,), saved, needs, ()))
        slopes, ctx.slopes = ctx.slopes, None
        if slopes is None:
            return (None, *pair._backward((grad,), saved, needs))
        if any(grad.stride()):
            slopes = [None if s is None else s.mul_(grad.unsqueeze(-1) if pair.parts else grad) for s in slopes]
        else:
            factor = float(grad[(0,) * grad.dim()])
            slopes = slopes if factor == 1 else [None if s is None else s.mul_(factor) for s in slopes]
        return (None, *_in_shape_of(saved, slopes))


def _in_shape_of(tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [
        None if g is None else g if g.shape == t.shape else g.sum_to_size(t.shape)
        for g, t in zip(gradients, tensors, strict=True)
    ]


def common_count(tensors: Sequence[Tensor]) -> int:
    """The number of elements if all tensors are contiguous and of one shape, else -1."""
    shape = tensors[0].shape
    for tensor in tensors:
        if tensor.shape != shape or not tensor.is_contiguous():
            return -1
    return tensors[0].numel()


def lay_out(tensors: Sequence[Tensor], shape: torch.Size) -> tuple[int, int, list[int], Sequence[Tensor]]:
    """Rows and columns of the result; pointer, row and column stride of each operand; the tensors pointed into.

    Operands are read in place where two strides suffice.
    """
    if 0 in shape:
        return 0, 0, [0] * (3 * len(tensors)), tensors
    expanded = [t if t.shape == shape else t.expand(shape) for t in tensors]
    strides = [t.stride() for t in expanded]
    merged: list[list[int]] = []
    for d in range(len(shape) - 1, -1, -1):
        size = shape[d]
        if size == 1:
            continue
        steps = [s[d] for s in strides]
        if merged and all(outer == merged[-1][0] * inner for outer, inner in zip(steps, merged[-1][1:], strict=True)):
            merged[-1][0] *= size
        else:
            merged.append([size, *steps])
    if len(merged) > 2:
        return lay_out([t.contiguous() for t in expanded], shape)
    one = [1, *(0 for _ in tensors)]
    columns, rows = (*merged, one, one)[:2]
    operands: list[int] = []
    for i, t in enumerate(expanded, 1):
        # A single row follows itself: the kernels then see elements without gaps, and read them where they are.
        operands += (t.data_ptr(), columns[0] * columns[i] if rows is one else rows[i], columns[i])
    return rows[0], columns[0], operands, expanded
