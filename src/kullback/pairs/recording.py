"""Copies of distributions on which integrands are recorded; called by `densities.sides`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Size, Tensor
from torch.distributions import Distribution

from kullback._core.shapes import joint_shape
from kullback.kernels.recorder import LENGTH, RefusedError
from kullback.pairs.parameters import gives_logits, made, working

_CHOICES = ("probs", "logits")  # of which a maker gives one, and torch adds the other


class Reading(NamedTuple):
    """Which tensors of a distribution a program takes.

    Attributes:
        paths: Where they are, by attribute names joined with dots.
        parts: How many parameters each holds along its last dimension, 0 if it is one itself.
        choices: Of two names for one parameter: the attributes that lead to their owner, the given one, the other.
    """

    paths: tuple[str, ...]
    parts: tuple[int, ...]
    choices: tuple[tuple[str, ...], ...]


def _parts(leaf: Tensor) -> int:
    return leaf.shape[1] if leaf.dim() == 2 else 0


class Example:
    """A copy of a distribution whose parameters are leaves of the example length.

    Attributes:
        leaves: By the path under which an object of this class has the parameter.
        law: The copy.
    """

    def __init__(self, d: Distribution) -> None:
        self.leaves: dict[str, Tensor] = {}
        self._choices: list[tuple[str, ...]] = []
        self.law = self._copy(d, "")
        if not self.leaves:
            raise RefusedError("a law without parameters")

    def reading(self, used: Sequence[bool]) -> Reading:
        """How an object of this class is read."""
        kept = [(path, _parts(leaf)) for (path, leaf), keep in zip(self.leaves.items(), used, strict=True) if keep]
        return Reading(tuple(path for path, _ in kept), tuple(part for _, part in kept), tuple(self._choices))

    def rebuilt(self, tensors: Sequence[Tensor]) -> Distribution:
        """The same law with other parameters."""
        return _replaced(self.law, dict(zip(map(id, self.leaves.values()), tensors, strict=True)))

    def _copy(self, d: Distribution, prefix: str) -> Distribution:
        state = dict(vars(d))
        given = ""
        if any(name in state for name in _CHOICES):
            given, other = ("logits", "probs") if gives_logits(d) else ("probs", "logits")
            state.pop(other, None)
            state.pop("_param", None)  # torch's second name for the given one
            self._choices.append((*prefix.split(".")[:-1], given, other))
        # Tensors of its own first, so that a parameter is read where it is nearest.
        for name, value in sorted(state.items(), key=lambda item: not isinstance(item[1], Tensor)):
            if isinstance(value, Tensor) and value.is_floating_point():
                state[name] = self._leaf(value, prefix + name, value.dim() - len(d.batch_shape))
            elif isinstance(value, Distribution):
                state[name] = self._copy(value, f"{prefix}{name}.")
        if given:
            state["_param"] = state[given]
        return made(type(d), state, Size([LENGTH]))

    def _leaf(self, value: Tensor, path: str, event_dims: int) -> Tensor:
        """One leaf per path, even if a maker handed the same tensor over twice."""
        if event_dims not in {0, 1}:
            raise RefusedError("a parameter that is no vector")
        first = value.detach().reshape(-1, *value.shape[value.dim() - event_dims :])[:1]
        self.leaves[path] = working(first).expand(LENGTH, *first.shape[1:]).clone().requires_grad_()
        return self.leaves[path]


def _replaced(d: Distribution, tensors: dict[int, Tensor]) -> Distribution:
    state = dict(vars(d))
    for name, value in state.items():
        if isinstance(value, Tensor):
            state[name] = tensors.get(id(value), value)
        elif isinstance(value, Distribution):
            state[name] = _replaced(value, tensors)
    event_dims = len(d.event_shape)
    shapes = [t.shape[: t.dim() - event_dims] for t in state.values() if isinstance(t, Tensor)]
    inner = [part.batch_shape for part in state.values() if isinstance(part, Distribution)]
    return made(type(d), state, joint_shape(*shapes, *inner))
