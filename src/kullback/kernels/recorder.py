"""A torch formula as a program: its elementwise operations, recorded while it runs once on example tensors.

Formulas of pairs are branch-free functions of parameters, a hundred small torch operations each. `Recorder` watches
one evaluation, and the gradient that autograd takes of it, from below autograd. What it saw is the formula: every
operand is an input, a number, or the result of an earlier operation. Anything else (a sum, a sort, a tensor it has not
seen made, a number read out of a tensor) is refused, and the pair keeps to torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from kullback.kernels.graph import Graph, Key
from kullback.kernels.graph_rules import RULES, log_sigmoid

LENGTH = 7  # elements of the example tensors: a size no formula uses for anything else
Value = int | tuple[int, ...]  # a node, or nodes along the last dimension


class RefusedError(Exception):
    """The formula did something that is no elementwise operation on its inputs."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows what happens to its inputs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self._known: dict[Key, Value] = {}
        self._alive: list[Tensor] = []  # an address names a tensor only while the tensor lives
        self._paused = False
        self._inputs = 0
        self._spans: list[range] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # To keep the compiler off this class torch would import all of it, for seconds, at the first recording.
        return False

    def input(self, tensor: Tensor) -> None:
        """Take a tensor of the example length as an input, or as several, along its last dimension."""
        count = tensor.shape[1] if tensor.dim() == 2 else 1
        span = range(self._inputs, self._inputs + count)
        nodes = tuple(self.graph.add("input", i) for i in span)
        self._inputs += count
        self._spans.append(span)
        self._keep(tensor, nodes if tensor.dim() == 2 else nodes[0])

    def node(self, tensor: Tensor | None) -> Value:
        """What a tensor was found to be; nothing at all is zero."""
        return self.graph.add("number", 0.0) if tensor is None else self._value(tensor)

    def keep_inputs(self, outputs: Sequence[int], required: Sequence[int]) -> list[bool]:
        """Which inputs the outputs depend on, tensor by tensor, the incoming gradient left out; renumbers the others.

        Args:
            outputs: Nodes.
            required: Numbers of tensors that are kept in any case.
        """
        needed = {self.graph.nodes[n][1] for n in self.graph.needed(outputs) if self.graph.nodes[n][0] == "input"}
        *tensors, gradient = self._spans
        kept = [i in required or not needed.isdisjoint(span) for i, span in enumerate(tensors)]
        order = [k for span, keep in zip(tensors, kept, strict=True) if keep for k in span]
        self.graph.renumber({old: new for new, old in enumerate([*order, *gradient])})
        return kept

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        if not self._paused:
            self._note(func.overloadpacket.__name__, args, kwargs or {}, result)
        return result

    def special(self, op: Any, tensors: Sequence[Tensor]) -> Any:
        """A native op with a derivative of its own, as one operation."""
        return _Special.apply(self, op, *tensors)

    def instruction(self, name: str, tensor: Tensor, formula: Callable[[Tensor], Tensor]) -> Tensor:
        """What a formula makes of a tensor, as one instruction of the native interpreter."""
        result: Tensor = self.run_unseen(formula, tensor)
        value = self._value(tensor)
        found = tuple(self.graph.add(name, node) for node in _nodes(value))
        self._keep(result, found if isinstance(value, tuple) else found[0])
        return result

    def note_special(self, op: Any, tensors: Sequence[Tensor], result: Tensor) -> None:
        """Record what a native op returned."""
        operands = self._flat(tensors)
        name = op.name[5:] if op.name.startswith("pair_") else op.name
        kind = "pair" if op.name.startswith("pair_") else "special"
        self._keep(result, self.graph.add(f"{kind}:{name}", *operands))

    def note_slopes(self, op: Any, grad: Tensor, tensors: Sequence[Tensor], found: Sequence[Tensor | None]) -> None:
        """Record the gradients that a native op returned."""
        node, operands = self._value(grad), self._flat(tensors)
        if op.name.startswith("pair_"):
            whole = self.graph.add(f"slopes:{op.name[5:]}", node, *operands)
            parts = iter(range(len(operands)))
            for tensor, result in zip(tensors, found, strict=True):
                nodes = tuple(self.graph.add("part", whole, next(parts)) for _ in self._flat([tensor]))
                if result is not None:
                    self._keep(result, nodes if tensor.dim() == 2 else nodes[0])
            return
        for slope, result in zip(op.slopes, found, strict=True):
            if result is not None:
                self._keep(result, self.graph.add(f"special:{slope}", node, *operands))

    def run_unseen(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call something whose inner operations are not recorded."""
        before, self._paused = self._paused, True
        try:
            return function(*args)
        finally:
            self._paused = before

    def _flat(self, tensors: Sequence[Tensor]) -> list[int]:
        return [node for tensor in tensors for node in _nodes(self._value(tensor))]

    def _keep(self, tensor: Tensor, value: Value) -> None:
        self._known[_key(tensor)] = value
        self._alive.append(tensor)

    def _value(self, given: object) -> Value:
        if isinstance(given, Tensor):
            if _key(given) not in self._known:
                raise RefusedError("a tensor that was made elsewhere")
            return self._known[_key(given)]
        if isinstance(given, bool | int | float):
            return self.graph.add("number", float(given))
        raise RefusedError(f"an operand of type {type(given).__name__}")

    def _note(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        if name == "log_sigmoid_forward":
            out, decay = log_sigmoid(self.graph, self._single(args[0]))
            self._keep(result[0], out)
            self._keep(result[1], decay)
            return
        if not isinstance(result, Tensor):
            raise RefusedError(f"{name} returns no tensor")
        self._check_shape(name, result)
        value = self._constant(name, args, result)
        if value is None:
            value = self._operation(name, args, kwargs, result)
        self._keep(result, value)

    @staticmethod
    def _check_shape(name: str, result: Tensor) -> None:
        shape = tuple(result.shape)
        if shape not in {(), (LENGTH,)} and not (len(shape) == 2 and shape[0] == LENGTH and shape[1] <= 4):
            raise RefusedError(f"{name} returns the shape {shape}")

    def _constant(self, name: str, args: Sequence[Any], result: Tensor) -> Value | None:
        """A tensor of numbers: made by a factory, or from nothing but numbers."""
        made = name in _FACTORIES
        if not made and name in _SHAPED:
            return None
        operands = [self._value(a) for a in args if isinstance(a, Tensor)] if not made else []
        is_number = all(self.graph.number(n) is not None for value in operands for n in _nodes(value))
        if not made and not (operands and is_number):
            return None
        first = result.detach().reshape(result.shape[0] if result.dim() else 1, -1)[0].tolist()
        nodes = tuple(self.graph.add("number", float(x)) for x in first)
        return nodes if result.dim() == 2 else nodes[0]

    def _operation(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Value:
        # A choice between two numbers is float32 by torch's default, and exact.
        of_numbers = name == "where" and all(
            self.graph.number(n) is not None for a in args[1:] for n in _nodes(self._value(a))
        )
        if result.dtype not in {torch.float64, torch.bool} and not of_numbers:
            raise RefusedError(f"{name} returns {result.dtype}")
        if name in _SHAPED:
            return self._shaped(name, args)
        if name == "pow" and isinstance(args[1], Tensor):
            name = "pow_of_tensors"
        rule = RULES.get(name)
        if rule is None:
            raise RefusedError(f"{name} is not known")
        kwargs = {k: v for k, v in kwargs.items() if k not in {"dtype", "device", "layout", "memory_format"}}
        plain = [a if i in _OPTIONS.get(name, ()) or a is None else self._value(a) for i, a in enumerate(args)]
        if result.dim() < 2:
            found: int = rule(self.graph, *plain, **kwargs)
            return found
        # Along the last dimension one by one.
        each = [[a[k % len(a)] if isinstance(a, tuple) else a for a in plain] for k in range(result.shape[1])]
        return tuple(int(rule(self.graph, *part, **kwargs)) for part in each)

    def _shaped(self, name: str, args: Sequence[Any]) -> Value:
        if name == "stack":
            return tuple(self._single(t) for t in args[0])
        if name == "cat":
            raise RefusedError("parts of a batch")
        value = self._value(args[0])
        if name == "select":
            if not isinstance(value, tuple) or args[1] not in {1, -1}:
                raise RefusedError("select from a batch")
            return int(value[args[2]])
        sizes, _, index = args[1], args[2], args[3]
        zero = self.graph.add("number", 0.0)
        return tuple(self._single(args[0]) if k == index else zero for k in range(sizes[-1]))

    def _single(self, given: object) -> int:
        value = self._value(given)
        if isinstance(value, tuple):
            raise RefusedError("several values where one was expected")
        return value


class _Special(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, recorder: Recorder, op: Any, *tensors: Tensor) -> Tensor:
        result: Tensor = recorder.run_unseen(op._native, *tensors)
        recorder.note_special(op, tensors, result)
        ctx.save_for_backward(*tensors)
        ctx.recorder, ctx.op = recorder, op
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        recorder, op, saved = ctx.recorder, ctx.op, ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        found = recorder.run_unseen(op._first_order, (grad,), saved, needs, ())
        recorder.note_slopes(op, grad, saved, found)
        return (None, None, *found)


def active_recorder() -> Recorder | None:
    """The recorder that follows the current call."""
    mode = _get_current_dispatch_mode()
    return mode if isinstance(mode, Recorder) else None


def _key(tensor: Tensor) -> Key:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _nodes(value: Value) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


_FACTORIES = {"scalar_tensor", "full", "zeros", "ones", "new_zeros", "new_ones", "new_full"}
_FACTORIES |= {"zeros_like", "ones_like", "full_like", "lift_fresh"}
_SHAPED = {"stack", "select", "select_backward", "cat"}
# Operands that are no values: exponents, and sizes and dtypes of what changes nothing else.
_OPTIONS = {"pow": (1,), "expand": (1,), "view": (1,), "_to_copy": (1,), "clone": (1,)}
