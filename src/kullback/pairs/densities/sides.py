"""The two sides of a recorded integral: examples with leaves for their parameters, and how an object's are read.

A mixture has leaves for each component and its log-share. An integral over a mixture p is taken in the coordinate of
one component at a time; that one is a side of its own, with the parameters of all components along a last dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import torch
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily

from kullback.kernels.recorder import LENGTH, RefusedError
from kullback.pairs.densities.describe import describe
from kullback.pairs.densities.joined import joined_law
from kullback.pairs.densities.law import Law
from kullback.pairs.densities.reading import Lift
from kullback.pairs.densities.shares import log_shares
from kullback.pairs.parameters import made
from kullback.pairs.recording import Example

Get = Callable[[Distribution], Tensor]


class Side:
    """A law that is no mixture.

    Attributes:
        law: An example.
        leaves: Its parameters.
        getters: Where an object of the same structure has them, one for each, or for each column.
    """

    def __init__(self, distribution: Distribution) -> None:
        example = Example(distribution)
        self.law = example.law
        self.leaves = list(example.leaves.values())
        self.getters: list[Get] = [
            _Getter(path, None if leaf.dim() < 2 else column)
            for path, leaf in example.leaves.items()
            for column in range(leaf.shape[1] if leaf.dim() == 2 else 1)
        ]

    def describe(self, lift: Lift) -> Law:
        """What integrals see."""
        return describe(self.law, lift)


class MixedSide:
    """A mixture of laws that are none; see `Side`.

    Attributes:
        parts: The components.
        shares: Leaves of their log-shares.
    """

    def __init__(self, mixture: MixtureSameFamily) -> None:
        component = mixture.component_distribution
        shares = log_shares(mixture).reshape(-1, component.batch_shape[-1])[0].tolist()
        self.parts = [Side(_one(component, k)) for k in range(len(shares))]
        self.shares = [_leaf(share) for share in shares]
        self.leaves, self.getters = list[Tensor](), list[Get]()
        for k, (part, share) in enumerate(zip(self.parts, self.shares, strict=True)):
            if any(leaf.dim() > 1 for leaf in part.leaves):
                raise RefusedError("a component with vectors for parameters")
            self.leaves += [*part.leaves, share]
            self.getters += [*(_OfComponent(get, k) for get in part.getters), ShareOf(k)]

    def describe(self, lift: Lift) -> Law:
        """What integrals see."""
        return joined_law([part.describe(lift) for part in self.parts], [lift(share) for share in self.shares])


def _leaf(number: float) -> Tensor:
    return torch.full((LENGTH,), number, dtype=torch.float64, device="cpu", requires_grad=True)


class OneOf:
    """The component of a mixture in whose coordinate the nodes are; see `Side`.

    Attributes:
        log_share: The leaf of its share.
    """

    def __init__(self, mixture: MixtureSameFamily) -> None:
        part = Side(_one(mixture.component_distribution, 0))
        self._part, self.log_share = part, _leaf(0.0)
        self.leaves = [*part.leaves, self.log_share]
        self.getters: list[Get] = [*(_OfComponent(get, None) for get in part.getters), ShareOf(None)]

    def describe(self, lift: Lift) -> Law:
        """What integrals see."""
        return self._part.describe(lift)


def side_of(distribution: Distribution) -> Side | MixedSide:
    """Of either kind."""
    return MixedSide(distribution) if isinstance(distribution, MixtureSameFamily) else Side(distribution)


def columns_of(sides: Sequence[Side | MixedSide | OneOf]) -> list[tuple[int, Get]]:
    """The side and the way to read it, input by input."""
    return [(at, get) for at, side in enumerate(sides) for get in side.getters]


def _one(law: Distribution, k: int) -> Distribution:
    """The component with this number."""
    state, dim = dict(vars(law)), -1 - len(law.event_shape)
    for name, value in state.items():
        if isinstance(value, Tensor) and value.dim():
            # A Beta keeps its parameters as the vector of a Dirichlet.
            state[name] = value.select(dim, k)
        elif isinstance(value, Distribution):
            state[name] = _one(value, k)
    return made(type(law), state, law.batch_shape[:-1])


class _Getter:
    """A parameter, or one of several along its last dimension."""

    def __init__(self, path: str, column: int | None) -> None:
        self._get, self._column = attrgetter(path), column

    def __call__(self, distribution: Distribution) -> Tensor:
        tensor: Tensor = self._get(distribution)
        return tensor if self._column is None else tensor.select(-1, self._column)


class _OfComponent:
    """A parameter of a component, or of all of them along the last dimension."""

    def __init__(self, get: Get, k: int | None) -> None:
        self._get, self._k = get, k

    def __call__(self, mixture: Distribution) -> Tensor:
        assert isinstance(mixture, MixtureSameFamily)
        tensor = self._get(mixture.component_distribution)
        return tensor if self._k is None or not tensor.dim() else tensor.select(-1, self._k)


class ShareOf:
    """The log-share of a component, or of all of them along the last dimension."""

    def __init__(self, k: int | None) -> None:
        self._k = k

    def __call__(self, mixture: Distribution) -> Tensor:
        """Of a mixture."""
        assert isinstance(mixture, MixtureSameFamily)
        return self.among(log_shares(mixture))

    def among(self, shares: Tensor) -> Tensor:
        """The same of all log-shares."""
        return shares if self._k is None else shares.select(-1, self._k)
