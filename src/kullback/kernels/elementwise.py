"""Elementwise ops of one or two tensors: promotion, broadcasting and strides around one native driver.

Small dense tensors take a short way in, written in C (`csrc/python/dense_call.cpp`); it declines whatever is not
ordinary, and everything else is settled here.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from kullback._core.shapes import joint_shape
from kullback.kernels import native as _native
from kullback.kernels.arguments import constant, one, two
from kullback.kernels.face import Op

_DTYPES = {torch.float64: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}


class Elementwise:
    """A pointwise function of one or two tensors, called like a function.

    Args:
        name: Name of the native function, and of the op.
        reference: The function in pure torch, for arguments of one dtype.
        arguments: Names of the arguments in the op's schema.
        gradients: Native functions `(grad, *arguments) -> grad times the partial derivative`, one per argument.
        public: What the caller calls it, if not by its name.
        constants: How many leading arguments have no derivative; one that needs a gradient is refused.

    Attributes:
        call: What a call does, as a plain function: small tensors feel what calling an object costs.
    """

    def __init__(
        self,
        name: str,
        reference: Callable[..., Tensor],
        *,
        arguments: Sequence[str],
        gradients: Sequence[str],
        public: str = "",
        constants: int = 0,
    ) -> None:
        self.name, self.public, self.arguments, self.constants = name, public or name, arguments, constants
        self.reference = reference
        self.dense = dense_kernel(name, len(arguments))
        forward, slopes = kernel(name), [kernel(gradient) for gradient in gradients]

        def backward(grads: Sequence[Tensor], saved: Sequence[Tensor], needs: Sequence[bool]) -> list[Tensor | None]:
            return [
                slope(grads[0], *saved).sum_to_size(tensor.shape) if need else None
                for slope, tensor, need in zip(slopes, saved, needs, strict=True)
            ]

        self.op = Op(
            name,
            f"({', '.join(f'Tensor {argument}' for argument in arguments)}) -> Tensor",
            reference=reference,
            native=forward,
            backward=backward,
            fake=_fake,
        )
        self.call = _call_of_one(self) if len(arguments) == 1 else _call_of_two(self)

    def __call__(self, *arguments: Tensor | float) -> Tensor:
        """The function of floating-point tensors on one device that broadcast; one of two may be a Python number."""
        return self.call(*arguments)


def _call_of_one(function: Elementwise) -> Callable[..., Tensor]:
    name, argument, op, dense = function.public, function.arguments[0], function.op, function.dense or _decline

    def call(x: Tensor) -> Tensor:
        if not is_dynamo_compiling():
            found = dense(x)
            if found is not NotImplemented:
                return found
        result: Tensor = op(one(name, argument, x))
        return result

    return call


def _call_of_two(function: Elementwise) -> Callable[..., Tensor]:
    name, names, op, dense = function.public, function.arguments, function.op, function.dense or _decline
    constants = function.constants

    def call(x: Tensor | float, y: Tensor | float) -> Tensor:
        if not is_dynamo_compiling():
            found = dense(x, y)
            if found is not NotImplemented:
                return found
        x, y = two(name, names, x, y)
        if constants:
            constant(name, names[0], x)
        if x.dtype is not y.dtype:
            dtype = torch.promote_types(x.dtype, y.dtype)
            x, y = x.to(dtype), y.to(dtype)
        result: Tensor = op(x, y)
        return result

    return call


def _decline(*_: object) -> Any:
    return NotImplemented


def dense_kernel(name: str, arity: int) -> Callable[..., Tensor] | None:
    """The short way to a native function: takes what is ordinary, answers NotImplemented to everything else.

    Ordinary are float32 or float64 tensors of one shape, contiguous, that need no gradient while nobody follows.
    None where the extension module was not built for this interpreter.
    """
    library = _native.library()
    if library is None:
        return None
    try:
        from kullback.kernels import _dense_call
    except ImportError:
        return None
    address = ctypes.cast(library.kullback_elementwise_dense, ctypes.c_void_p).value
    assert address is not None
    return _dense_call.bind(address, library.kullback_function_index(name.encode()), arity)


def kernel(name: str) -> Callable[..., Tensor]:
    """The native function `name` on plain CPU tensors of one dtype that broadcast together; contiguous result."""
    library = _native.library()
    if library is None:
        return _unavailable
    function = library.kullback_function_index(name.encode())
    if function < 0:
        raise ValueError(f"the native library has no function {name!r}")
    call = library.kullback_elementwise
    threads = torch.get_num_threads

    def run(*tensors: Tensor) -> Tensor:
        first = tensors[0]
        shape = first.shape
        for tensor in tensors:
            if tensor.shape != shape or not tensor.is_contiguous():
                output, operands, layout = _lay_out(tensors)
                break
        else:
            output, operands, layout = torch.empty_like(first), tensors, None
        pointers = [t.data_ptr() for t in operands]
        pointers += [0] * (3 - len(pointers))
        dtype = _DTYPES[first.dtype]
        status = call(function, dtype, output.numel(), *pointers, output.data_ptr(), threads(), layout)
        if status:
            raise RuntimeError(f"the native function {name!r} refused its arguments (status {status})")
        return output

    return run


def _lay_out(tensors: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor], Any]:
    """An output, operands, and the layout that lets the kernel read them in place where two strides suffice."""
    shape = _broadcast(tensors)
    output = tensors[0].new_empty(shape)
    expanded = [t.expand(shape) for t in tensors]
    merged = _merge([[size, *(t.stride(d) for t in expanded)] for d, size in enumerate(shape) if size != 1])
    if len(merged) > 2 or not output.numel():
        return output, [t.contiguous() for t in expanded], None
    sizes = [[1, *(0 for _ in tensors)]] * (2 - len(merged)) + merged
    strides = itertools.chain.from_iterable(zip(sizes[0][1:], sizes[1][1:], strict=True))
    values = [sizes[0][0], sizes[1][0], *strides]
    return output, expanded, (ctypes.c_int64 * len(values))(*values)


def _merge(dimensions: list[list[int]]) -> list[list[int]]:
    """Join neighbouring dimensions `[size, stride, ...]` that every operand walks through without a jump."""
    merged: list[list[int]] = []
    for size, *strides in dimensions:
        if merged and all(outer == size * inner for outer, inner in zip(merged[-1][1:], strides, strict=True)):
            merged[-1] = [merged[-1][0] * size, *strides]
        else:
            merged.append([size, *strides])
    return merged


def _fake(*tensors: Tensor) -> Tensor:
    return tensors[0].new_empty(_broadcast(tensors))


def _broadcast(tensors: Sequence[Tensor]) -> torch.Size:
    return joint_shape(*(t.shape for t in tensors))


def _unavailable(*_: Tensor) -> Tensor:
    raise RuntimeError(f"no native library: {_native.status().reason}")
