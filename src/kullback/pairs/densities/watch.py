"""Watching the evaluation of an integrand, and cutting what was seen into programs.

What depends on parameters only is computed once per element, what depends on nodes at every node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback.kernels.graph import Graph
from kullback.kernels.program import MOST, Packed, TooLargeError
from kullback.kernels.recorder import LENGTH, Recorder, RefusedError, Value
from kullback.pairs.visible import Assuming

_WIDEST = 96
# What operations cost, in additions.
_COSTS = {"special": 20, "pair": 50, "exp": 4, "expm1": 5, "log": 5, "log1p": 6, "pow": 20, "sigmoid": 5, "sin": 20}


class Watch(Recorder, Assuming):  # type: ignore[no-untyped-call]
    """Follows the description of an integrand; what is looked at is noted as an assumption."""

    def __init__(self) -> None:
        super().__init__()
        self.guards: list[int] = []
        self.optimistic = False

    def assume(self, mask: Tensor) -> bool:
        """Whether it holds in the example; if so, it is a condition of the program from here on."""
        if not self.run_unseen(lambda: bool(mask.all())):
            return False
        value = self.node(mask)
        self.guards += [n for n in (value if isinstance(value, tuple) else (value,)) if self.graph.number(n) is None]
        return True

    def assume_at_most(self, values: Tensor, bound: float) -> bool:
        """Likewise, where the program may assume anything about nodes."""
        return self.optimistic and self.assume(values <= bound)

    @staticmethod
    def _check_shape(name: str, result: Tensor) -> None:
        shape = tuple(result.shape)
        if shape not in {(), (1,), (LENGTH,)} and not (len(shape) == 2 and shape[0] == LENGTH and shape[1] <= _WIDEST):
            raise RefusedError(f"{name} returns the shape {shape}")

    def _shaped(self, name: str, args: Sequence[Any]) -> Any:
        if name != "cat":
            return super()._shaped(name, args)
        values = [self._value(tensor) for tensor in args[0]]
        return tuple(n for value in values for n in (value if isinstance(value, tuple) else (value,)))

    def note_special(self, op: Any, tensors: Sequence[Tensor], result: Tensor) -> None:
        """Record what a native op returned, column by column."""
        values = [self.columns(tensor) for tensor in tensors]
        count = max(len(value) for value in values)
        found = tuple(
            self.graph.add(f"special:{op.name}", *(value[k % len(value)] for value in values)) for k in range(count)
        )
        self._keep(result, found if result.dim() == 2 else found[0])

    def note_slopes(self, op: Any, grad: Tensor, tensors: Sequence[Tensor], found: Sequence[Tensor | None]) -> None:
        """Record the gradients that a native op returned, column by column."""
        values = [self.columns(tensor) for tensor in (grad, *tensors)]
        count = max(len(value) for value in values)
        for slope, result in zip(op.slopes, found, strict=True):
            if result is None:
                continue
            if result.dim() == 2 and result.shape[1] != count:
                raise RefusedError("a sum of derivatives")
            nodes = tuple(
                self.graph.add(f"special:{slope}", *(value[k % len(value)] for value in values)) for k in range(count)
            )
            self._keep(result, nodes if result.dim() == 2 else nodes[0])

    def slopes(self, value: Tensor, leaves: Sequence[Tensor]) -> list[int]:
        """The derivatives of a value by every column of the leaves."""
        if not value.requires_grad:
            return [self.graph.add("number", 0.0)] * sum(leaf.shape[1] if leaf.dim() == 2 else 1 for leaf in leaves)
        weight = torch.ones_like(value)
        total = self.run_unseen(_dot, value, weight)
        found = torch.autograd.grad(total, leaves, allow_unused=True, retain_graph=True)
        nodes: list[int] = []
        for slope, leaf in zip(found, leaves, strict=True):
            columns = self.columns(torch.zeros_like(leaf) if slope is None else slope)
            nodes += columns * (leaf.shape[1] if leaf.dim() == 2 and len(columns) == 1 else 1)
        return nodes

    def _keep(self, tensor: Tensor, value: Value) -> None:
        single = tensor.dim() < 2 and isinstance(value, tuple) and len(value) == 1
        super()._keep(tensor, value[0] if single and isinstance(value, tuple) else value)

    def columns(self, tensor: Tensor) -> list[int]:
        """The nodes along the last dimension."""
        value = self.node(tensor)
        return list(value) if isinstance(value, tuple) else [value]


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum()


class Points(NamedTuple):
    """Which nodes are the points and their weights."""

    graph: Graph
    parameters: int

    def node(self, at: int) -> int:
        """The points are at 0, their weights at 1."""
        return self.graph.add("input", self.parameters + at)


def guarded(graph: Graph, outputs: Sequence[int], guards: Sequence[int]) -> list[int]:
    """The outputs where all conditions hold, else NaN."""
    if not guards:
        return list(outputs)
    whole = guards[0]
    for guard in dict.fromkeys(guards[1:]):
        whole = graph.add("and", whole, guard)
    nowhere = graph.add("number", float("nan"))
    return [graph.add("where", whole, output, nowhere) for output in outputs]


class Split:
    """The part of a graph that depends on nodes, as a program of them and of what the parameters say.

    Attributes:
        needs: The nodes of the graph that it takes, points and weights left out.
        program: Of those, of points and of their weights.
    """

    def __init__(self, graph: Graph, outputs: Sequence[int], at: Points) -> None:
        points = [at.node(0), at.node(1)]
        moving: set[int] = set(points)
        order = graph.needed(outputs)
        for node in order:
            if any(operand in moving for operand in graph.operands(node)):
                moving.add(node)
        given = {
            operand
            for node in order
            if node in moving
            for operand in graph.operands(node)
            if operand not in moving and graph.number(operand) is None
        }
        given |= {node for node in outputs if node not in moving and graph.number(node) is None}
        self.needs = _fewer(graph, given, MOST - 2)
        self.program = cut(graph, outputs, [*self.needs, *points])


def _fewer(graph: Graph, given: set[int], most: int) -> list[int]:
    """As many of these nodes as inputs may be: the dearest ones, and the parameters of which the others are made."""
    if len(given) <= most:
        return sorted(given)
    dearest = sorted(given, key=lambda node: (-_cost(graph, node), node))
    for count in range(most, -1, -1):
        kept = set(dearest[:count])
        rest = graph.needed(dearest[count:])
        found = kept | {node for node in rest if graph.nodes[node][0] == "input"}
        if len(found) <= most:
            return sorted(found)
    raise TooLargeError


def _cost(graph: Graph, node: int) -> int:
    names = (str(graph.nodes[n][0]).partition(":")[0] for n in graph.needed([node]))
    return sum(_COSTS.get(name, 1) for name in names)


def cut(graph: Graph, outputs: Sequence[int], inputs: Sequence[int]) -> Packed:
    """A program of these inputs."""
    part = Graph()
    known = {node: part.add("input", i) for i, node in enumerate(inputs)}
    waiting = list(outputs)
    while waiting:
        node = waiting[-1]
        missing = [] if node in known else [n for n in graph.operands(node) if n not in known]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if node not in known:
            name, *rest = graph.nodes[node]
            operands = rest if name == "number" else [known[n] for n in graph.operands(node)]
            known[node] = part.add(str(name), *(operands[:1] if name == "number" else operands))
    return Packed(part, [known[node] for node in outputs], len(inputs))
