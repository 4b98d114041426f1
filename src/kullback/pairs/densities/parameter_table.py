"""What recorded programs take of parameters, computed once per element, and derivatives by these parameters.

A program is recorded for two classes; the tensors of two objects are its inputs, one number per element each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily

from kullback.kernels.graph import Graph
from kullback.kernels.levels import is_plain
from kullback.kernels.program import MOST
from kullback.pairs.densities.shares import log_shares
from kullback.pairs.densities.sides import Get, ShareOf
from kullback.pairs.densities.watch import cut
from kullback.pairs.parameters import made, tensors_of, working

Again = Callable[[Distribution, Distribution], Tensor]
OWN = 2  # the side whose parameters have a dimension of components


class Filled(NamedTuple):
    """The table of two objects.

    Attributes:
        table: One column per element, or per component of it.
        inputs: All inputs, flat, with their history; empty if no derivatives are asked for.
        components: How many columns each element has.
    """

    table: Tensor
    inputs: Sequence[Tensor]
    components: int


class ParameterTable:
    """Nodes of a graph that depend on parameters only.

    Args:
        graph: What was recorded.
        rows: The nodes.
        inputs: The side and the way to read it, input by input.
        mixed: Whether each component of p has a column of its own.
        followed: Whether derivatives by the inputs are asked for.
    """

    def __init__(
        self, graph: Graph, rows: Sequence[int], inputs: Sequence[tuple[int, Get]], *, mixed: bool, followed: bool
    ) -> None:
        used = [node for node in graph.needed(rows) if graph.nodes[node][0] == "input"]
        self._programs = [cut(graph, rows[i : i + MOST], used) for i in range(0, len(rows), MOST)]
        self._used: list[int] = [graph.nodes[node][1] for node in used]  # type: ignore[misc]
        self._rows, self._inputs, self._mixed, self._followed = len(rows), inputs, mixed, followed

    def fill(self, p: Distribution, q: Distribution, batch: torch.Size) -> Filled | None:
        """The rows for two objects; None if their parameters are not ordinary tensors."""
        sides = p, q, p
        wanted = range(len(self._inputs)) if self._followed else self._used
        shares: dict[int, Tensor] = {}
        read = {k: _read(sides[self._inputs[k][0]], self._inputs[k][1], shares) for k in wanted}
        if not all(is_plain(tensor) for tensor in read.values()):
            return None
        components = 1
        if self._mixed:
            assert isinstance(p, MixtureSameFamily)
            components = p.component_distribution.batch_shape[-1]
            batch = torch.Size([*batch, components])
            read = {k: t if self._inputs[k][0] == OWN else t.unsqueeze(-1) for k, t in read.items()}
        flat = {k: working(tensor).expand(batch).reshape(-1) for k, tensor in read.items()}
        given = [flat[k] for k in self._used]
        operands = [number for tensor in given for number in (tensor.data_ptr(), 0, tensor.stride(0))]
        count = batch.numel()
        table = torch.empty(self._rows, count, dtype=torch.float64, device="cpu")
        begin, step = table.data_ptr(), 8 * count
        for program in self._programs:
            outputs = [n for k in range(program.outputs) for n in (begin + k * step, 1)]
            program.run(table.dtype, 1, count, operands, outputs)
            begin += program.outputs * step
        return Filled(table, list(flat.values()) if self._followed else (), components)


def _read(law: Distribution, get: Get, shares: dict[int, Tensor]) -> Tensor:
    """What a law has for an input; its log-shares are found once for all components."""
    if not isinstance(get, ShareOf):
        return get(law)
    assert isinstance(law, MixtureSameFamily)
    if id(law) not in shares:
        shares[id(law)] = log_shares(law)
    return get.among(shares[id(law)])


def is_followed(p: Distribution, q: Distribution) -> bool:
    """Whether derivatives by a parameter may be asked for."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for side in (p, q) for tensor in tensors_of(side))


class Attached(NamedTuple):
    """How a value depends on the inputs of a program.

    Attributes:
        filled: The inputs.
        slopes: The derivative by each, in a column per element or component of it.
        laws: The two objects.
        again: The value by torch's operations, for derivatives of derivatives.
    """

    filled: Filled
    slopes: Tensor
    laws: tuple[Distribution, Distribution]
    again: Again

    def to(self, value: Tensor) -> Tensor:
        """The value, flat, with its history."""
        held: dict[int, tuple[Tensor, Tensor]] = {}
        for law in self.laws:
            _renamed(law, held)
        sources = [source for source, _ in held.values()]
        found: Tensor = _Slopes.apply(self, value, self.slopes, len(sources), *sources, *self.filled.inputs)
        return found


def _renamed(law: Distribution, held: dict[int, tuple[Tensor, Tensor]]) -> Distribution:
    """The law with another name for each tensor that asks for derivatives; by address, the tensor and that name.

    A law may hold what it made of its parameters beside them. A derivative by a name leaves out what comes by others.
    """
    state = dict(vars(law))
    for name, value in state.items():
        if isinstance(value, Tensor) and value.requires_grad:
            if id(value) not in held:
                held[id(value)] = value, value.view_as(value)
            state[name] = held[id(value)][1]
        elif isinstance(value, Distribution):
            state[name] = _renamed(value, held)
    return made(type(law), state, law.batch_shape)


class _Slopes(torch.autograd.Function):
    """A value whose derivatives are known; those of derivatives are taken of torch's operations.

    It hangs on the inputs of the program, which are made of what the laws hold, and on that itself.
    """

    @staticmethod
    def forward(ctx: Any, attached: Attached, value: Tensor, slopes: Tensor, held: int, *tensors: Tensor) -> Tensor:
        del tensors
        ctx.attached, ctx.held = attached, held
        ctx.save_for_backward(slopes)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        attached: Attached = ctx.attached
        inputs = ctx.needs_input_grad[4 + ctx.held :]
        if torch.is_grad_enabled():
            held: dict[int, tuple[Tensor, Tensor]] = {}
            p, q = (_renamed(law, held) for law in attached.laws)
            again, names = attached.again(p, q).reshape(-1), [name for _, name in held.values()]
            by_name = torch.autograd.grad(again, names, grad, create_graph=True, allow_unused=True)
            return (*(None,) * 4, *by_name, *(None,) * len(inputs))
        (found,) = ctx.saved_tensors
        components = attached.filled.components
        weight = grad if components == 1 else grad.unsqueeze(-1).expand(-1, components).reshape(-1)
        by_input = (weight * slope if need else None for slope, need in zip(found, inputs, strict=True))
        return (*(None,) * (4 + ctx.held), *by_input)
