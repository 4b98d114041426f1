"""Recorded formulas, packed for the native interpreter (`csrc/pairs/program.h`) and run on tensors.

A program reads parameters as they are stored, float32 or float64, broadcast or strided, computes in double and rounds
once. Its gradients are the ones autograd took of the formula while it was recorded, as a program of their own.
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
from kullback.kernels.graph import Graph
from kullback.kernels.levels import is_plain, tracer_active, transform_active
from kullback.kernels.pair_ops import common_count, lay_out

_DTYPES = {torch.float64: 0, torch.float32: 1}
MOST = 40  # inputs, and outputs
_FORMULA = 12  # of a formula with its gradient
_HEAD = struct.Struct(f"={6 + MOST}q")
_PARALLEL_FROM = 16384  # elements
_CODES = {"special": 1000, "pair": 2000, "slopes": 3000}


class TooLargeError(Exception):
    """More inputs or outputs than a program may have."""


class Program:
    """A function of parameters with its gradient.

    Args:
        graph: What was recorded.
        value: The node of the result.
        gradients: The nodes of its gradients, one per input; the incoming gradient is the input after the last.
        parts: How many inputs each tensor holds along its last dimension; 0 if it is one itself.
        formula: The same in pure torch, for tensors in working precision: what second derivatives are taken of.
    """

    def __init__(
        self,
        graph: Graph,
        value: int,
        gradients: Sequence[int],
        *,
        parts: Sequence[int],
        formula: Callable[..., Tensor],
    ) -> None:
        self.graph, self.value, self.gradients = graph, value, gradients
        self.parts, self.formula = parts, formula
        if len(gradients) > _FORMULA:
            raise TooLargeError
        self.forward = Packed(graph, [value], len(gradients))
        self._backward: dict[tuple[bool, ...], Packed] = {}

    def __call__(self, *tensors: Tensor) -> Tensor:
        """The value in the broadcast shape; float64 if any tensor is, else float32."""
        dtype = tensors[0].dtype
        for tensor in tensors:
            if tensor.dtype is not dtype or dtype not in _DTYPES:
                wide = [t.to(work_dtype(t.device)) for t in tensors]
                return self(*wide).to(result_dtype(*tensors))
        if torch.is_grad_enabled():
            for tensor in tensors:
                if tensor.requires_grad:
                    value: Tensor = _Recorded.apply(self, *tensors)
                    return value
        return self.run_forward(tensors)

    @property
    def is_flat(self) -> bool:
        """Whether every gradient is zero, as where the value is infinite whatever the parameters are."""
        return all(self.graph.nodes[node][:2] == ("number", 0.0) for node in self.gradients)

    def connected(self, value: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        """The value of a flat program with its gradients."""
        found: Tensor = _Flat.apply(self, value, *tensors)
        return found

    def unused(self) -> list[bool]:
        """Which tensors the value does not depend on; their shape and dtype count all the same."""
        nodes = self.graph.nodes
        needed = {nodes[n][1] for n in self.graph.needed([self.value]) if nodes[n][0] == "input"}
        found, at = [], 0
        for n in self.parts:
            found.append(needed.isdisjoint(range(at, at + (n or 1))))
            at += n or 1
        return found

    def run_forward(self, tensors: Sequence[Tensor]) -> Tensor:
        """The value alone."""
        inputs = self._inputs(tensors)
        count = common_count(inputs)
        if count < 0:
            value = tensors[0].new_empty(self.shape(tensors))
            rows, columns, operands, held = lay_out(inputs, value.shape)
        else:
            value, rows, columns, held = torch.empty_like(inputs[0]), 1, count, inputs
            operands = [number for t in inputs for number in (t.data_ptr(), count, 1)]
        self.forward.run(value.dtype, rows, columns, operands, (value.data_ptr(), 1))
        del held
        return value

    def run_backward(self, grad: Tensor, tensors: Sequence[Tensor], needs: Sequence[bool]) -> list[Tensor | None]:
        """The gradients that are needed, each in its tensor's shape."""
        shape = self.shape(tensors)
        rows, columns, operands, held = lay_out([*self._inputs(tensors), grad], shape)
        found = [
            grad.new_empty((*shape, n) if n else shape) if need else None
            for n, need in zip(self.parts, needs, strict=True)
        ]
        outputs: list[int] = []
        for g, n in zip(found, self.parts, strict=True):
            for i in range(n or 1):
                outputs += () if g is None else (g.data_ptr() + i * g.element_size(), n or 1)
        self._gradient_program(tuple(needs)).run(grad.dtype, rows, columns, operands, outputs)
        del held
        return [
            None if g is None else g if g.shape == t.shape else g.sum_to_size(t.shape)
            for g, t in zip(found, tensors, strict=True)
        ]

    def _gradient_program(self, needs: tuple[bool, ...]) -> Packed:
        if needs not in self._backward:
            wanted = [need for need, n in zip(needs, self.parts, strict=True) for _ in range(n or 1)]
            nodes = [node for node, want in zip(self.gradients, wanted, strict=True) if want]
            self._backward[needs] = Packed(self.graph, nodes, len(self.gradients) + 1)
        return self._backward[needs]

    def shape(self, tensors: Sequence[Tensor]) -> torch.Size:
        """The shape of the value."""
        return joint_shape(*(t.shape[:-1] if n else t.shape for t, n in zip(tensors, self.parts, strict=True)))

    def _inputs(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        if not any(self.parts):
            return tensors
        pairs = zip(tensors, self.parts, strict=True)
        return [part for t, n in pairs for part in ([t.select(-1, i) for i in range(n)] if n else [t])]


class Packed:
    """Some nodes of a graph, and what they depend on, as bytes that the interpreter reads in place."""

    def __init__(self, graph: Graph, outputs: Sequence[int], inputs: int) -> None:
        library = _native.library()
        assert library is not None
        if inputs > MOST or len(outputs) > MOST:
            raise TooLargeError
        order = graph.needed(outputs)
        numbers = [node for node in order if graph.nodes[node][0] == "number"]
        register, words, count = _allocate(graph, order, outputs, numbers, inputs)
        constants = [float(graph.nodes[node][1]) for node in numbers]  # type: ignore[arg-type]
        found = [register[node] for node in outputs]
        pair = _single_pair(graph, outputs, inputs)
        self.is_one_pair = pair >= 0
        head = _HEAD.pack(
            *(inputs, len(numbers), count, len(words), len(outputs), *found, *[0] * (MOST - len(found))),
            pair,
        )
        self._bytes = head + struct.pack(f"={len(constants)}d{len(words)}i", *constants, *words)
        self._buffer = ctypes.create_string_buffer(self._bytes, len(self._bytes))
        self.address = ctypes.addressof(self._buffer)
        self.inputs, self.outputs = inputs, len(outputs)
        # What is not there is null.
        absent, unwanted = 24 * (MOST - inputs), 16 * (MOST - len(outputs))
        self._call = struct.Struct(f"=5q{3 * inputs}q{absent}x{2 * len(outputs)}q{unwanted}x")
        self._run = library.kullback_program_run
        self.entry = ctypes.cast(library.kullback_program_run, ctypes.c_void_p).value or 0
        status = library.kullback_program_check(self._buffer)
        assert status == 0, "a recorded program is not well formed"

    def run(self, dtype: torch.dtype, rows: int, columns: int, operands: Sequence[int], outputs: Sequence[int]) -> None:
        """Evaluate all elements: address and strides per operand, address and stride per output."""
        threads = torch.get_num_threads() if rows * columns >= _PARALLEL_FROM else 1
        if self._run(self._call.pack(self.address, _DTYPES[dtype], rows, columns, threads, *operands, *outputs)):
            raise RuntimeError("a recorded program refused its arguments")


class _Recorded(torch.autograd.Function):
    """Native forward and first-order backward; a recorded or transformed backward goes through the formula."""

    @staticmethod
    def forward(ctx: Any, program: Program, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.program = program
        return program.run_forward(tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        program, saved, needs = ctx.program, ctx.saved_tensors, ctx.needs_input_grad[1:]
        if torch.is_grad_enabled() or transform_active() or tracer_active() or not is_plain(grad):
            return (None, *_through_formula(program, grad, saved, needs))
        return (None, *program.run_backward(grad, saved, needs))


class _Flat(torch.autograd.Function):
    """A value found already, whose gradients are zero whatever the parameters are."""

    @staticmethod
    def forward(ctx: Any, program: Program, value: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.program = program
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad[2:]
        if torch.is_grad_enabled() or transform_active() or tracer_active() or not is_plain(grad):
            return (None, None, *_through_formula(ctx.program, grad, saved, needs))
        return (None, None, *(torch.zeros_like(t) if need else None for t, need in zip(saved, needs, strict=True)))


def _through_formula(
    program: Program, grad: Tensor, tensors: Sequence[Tensor], needs: Sequence[bool]
) -> list[Tensor | None]:
    def of_wanted(*values: Tensor) -> Tensor:
        given = iter(values)
        every = [next(given) if need else t for t, need in zip(tensors, needs, strict=True)]
        value = program.formula(*(t.to(work_dtype(t.device)) for t in every))
        return value.to(tensors[0].dtype).expand(program.shape(tensors))

    pull_back = torch.func.vjp(of_wanted, *(t for t, need in zip(tensors, needs, strict=True) if need))[1]
    found = iter(pull_back(grad))
    return [next(found) if need else None for need in needs]


def _allocate(
    graph: Graph, order: Sequence[int], outputs: Sequence[int], numbers: Sequence[int], inputs: int
) -> tuple[dict[int, int], list[int], int]:
    """The register of every node, the instructions, and how many registers there are; a register is used again."""
    register = {node: int(graph.nodes[node][1]) for node in order if graph.nodes[node][0] == "input"}  # type: ignore[call-overload]
    register |= {node: inputs + i for i, node in enumerate(numbers)}
    parts: dict[int, list[int]] = {}
    for node in order:
        name, *rest = graph.nodes[node]
        if name == "part":
            parts.setdefault(int(rest[0]), []).append(node)  # type: ignore[call-overload]
    last = {node: len(graph.nodes) for node in outputs}
    for node in order:
        for operand in graph.operands(node):
            last[operand] = max(last.get(operand, 0), node)
    free: list[int] = []
    words: list[int] = []
    count = inputs + len(numbers)

    def take() -> int:
        nonlocal count
        if free:
            return free.pop()
        count += 1
        return count - 1

    ends: dict[int, list[int]] = {}
    for node in order:
        name, *_ = graph.nodes[node]
        if name in {"input", "number", "part"}:
            continue
        operands = graph.operands(node)
        kind, _, function = str(name).partition(":")
        if kind == "slopes":
            results = [take() for _ in operands[1:]]
            for part in parts.get(node, []):
                register[part] = results[graph.nodes[part][2]]  # type: ignore[call-overload]
            used = {register[part] for part in parts.get(node, [])}
            for part in parts.get(node, []):
                ends.setdefault(last.get(part, node), []).append(register[part])
            ends.setdefault(node, []).extend(r for r in results if r not in used)
        else:
            results = [take()]
            register[node] = results[0]
            ends.setdefault(last[node], []).extend(results)
        words += [_opcode(kind, function), len(results), len(operands), *results, *(register[o] for o in operands)]
        free.extend(ends.pop(node, []))
    return register, words, count


def _opcode(kind: str, function: str) -> int:
    library = _native.library()
    assert library is not None
    find = library.kullback_program_opcode
    if kind in _CODES:
        find = library.kullback_function_index if kind == "special" else library.kullback_pair_index
    found = int(find((function or kind).encode()))
    assert found >= 0, f"the native library has no {kind} {function}"
    return found + _CODES.get(kind, 0)


def _single_pair(graph: Graph, outputs: Sequence[int], inputs: int) -> int:
    """The pair function whose value, of the inputs in order, is all there is to compute; -1 if there is more."""
    name, *operands = graph.nodes[outputs[0]]
    kind, _, function = str(name).partition(":")
    if kind != "pair" or len(outputs) != 1:
        return -1
    if [graph.nodes[o] for o in operands] != [("input", i) for i in range(inputs)]:  # type: ignore[call-overload]
        return -1
    library = _native.library()
    assert library is not None
    return int(library.kullback_pair_index(function.encode()))
