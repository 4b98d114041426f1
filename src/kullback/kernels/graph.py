"""Elementwise operations that depend on one another: what a recorded formula is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

Key = tuple[object, ...]


class Graph:
    """Operations that depend on one another, each kept once.

    A node is `(name, *operands)`; `("input", k)`, `("number", x)`, and `("part", node, k)` for one of several results.
    """

    def __init__(self) -> None:
        self.nodes: list[Key] = []
        self._index: dict[Key, int] = {}

    def add(self, name: str, *operands: object) -> int:
        """The node, simplified where a displacement that is zero takes part.

        Formulas hang derivatives on differences x − x; what is multiplied by one is finite by construction.
        """
        if name == "number" and operands[0] == 0:
            sign = math.copysign(1.0, float(operands[0]))
            operands = (sign * 0.0, sign)  # −0 and 0 are one key otherwise
        key: Key = (name, *operands)
        simple = self._simplified(name, *operands)  # type: ignore[arg-type]
        if simple is not None:
            return simple
        if key not in self._index:
            self._index[key] = len(self.nodes)
            self.nodes.append(key)
        return self._index[key]

    def number(self, node: int) -> float | None:
        """The value of a node that is a number."""
        name, *operands = self.nodes[node]
        return operands[0] if name == "number" else None  # type: ignore[return-value]

    def operands(self, node: int) -> list[int]:
        """The nodes that one is made of."""
        name, *operands = self.nodes[node]
        if name in {"input", "number"}:
            return []
        return operands[:1] if name == "part" else operands  # type: ignore[return-value]

    def needed(self, outputs: Sequence[int]) -> list[int]:
        """What the outputs depend on, themselves included, operands before results."""
        seen: set[int] = set()
        waiting = list(outputs)
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += self.operands(node)
        return sorted(seen)  # a node is added after its operands

    def renumber(self, inputs: dict[int, int]) -> None:
        """Give inputs other numbers; those that have none are not used."""
        for node, (name, *operands) in enumerate(self.nodes):
            if name == "input":
                self.nodes[node] = ("input", inputs.get(operands[0], -1))  # type: ignore[call-overload]

    def _simplified(self, name: str, *operands: int) -> int | None:
        if name == "sub" and operands[0] == operands[1]:
            return self.add("number", 0.0)
        if name not in {"add", "sub", "mul", "div"}:
            return None
        left, right = (self.number(operand) for operand in operands)
        if (name in {"add", "sub"} and right == 0) or (name in {"mul", "div"} and right == 1):
            return operands[0]
        if (name == "add" and left == 0) or (name == "mul" and left == 1):
            return operands[1]
        if name == "mul" and 0 in {left, right}:
            return self.add("number", 0.0)
        return None
