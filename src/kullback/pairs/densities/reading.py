"""Parameters of a distribution in the shape that integrals use: a dimension for the nodes behind the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.numbers import as_tensor
from kullback._core.shapes import joint_shape
from kullback.pairs.parameters import read

Lift = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Chosen:
    """A lift that takes some elements of a batch only, in one dimension before those of the nodes.

    Attributes:
        batch: The shape that tensors are expanded to.
        index: Which elements, counted through the whole batch.
        dims: How many dimensions are appended.
        component: Which component of a mixture for each element; None for all.
    """

    batch: torch.Size
    index: Tensor
    dims: int
    component: Tensor | None = None

    def __call__(self, tensor: Tensor) -> Tensor:
        """One value per element."""
        return self.rows(tensor, 0).reshape(-1, *(1,) * self.dims)

    def rows(self, tensor: Tensor, trailing: int) -> Tensor:
        """The elements of a tensor whose last dimensions, so many, belong to each element."""
        inner = tensor.shape[tensor.ndim - trailing :]
        whole = tensor.expand((*self.batch, *inner)).reshape(-1, *inner)
        found = whole.index_select(0, self.index)
        return found if self.component is None else found.gather(-1, self.component.unsqueeze(-1))


def component_lift(lift: Lift) -> Lift:
    """The same for parameters of components: batch, the other dimensions of the nodes, components, nodes."""
    if isinstance(lift, Chosen):
        ones, count = (1,) * (lift.dims - 1), lift.index.shape[0]

        def chosen(tensor: Tensor) -> Tensor:
            return lift.rows(tensor, 1).reshape(count, *ones, -1, 1)

        return chosen
    extra = lift(as_tensor(0.0)).ndim - 1
    return lambda tensor: tensor.reshape(*tensor.shape[:-1], *(1,) * extra, tensor.shape[-1], 1)


class Given(NamedTuple):
    """A distribution and how its parameters are shaped.

    Attributes:
        distribution: The torch object.
        lift: Appends the dimensions of the nodes to a tensor of the distribution's batch shape.
    """

    distribution: Distribution
    lift: Lift

    def read(self, *names: str) -> tuple[Tensor, ...]:
        """The named parameters in working precision."""
        return tuple(self.shaped(value) for value in read(self.distribution, *names))

    def shaped(self, value: Tensor) -> Tensor:
        """A tensor that broadcasts against the batch shape, in the shape of the integrals."""
        return self.lift(value.expand(self.distribution.batch_shape))

    def wide(self, other: Distribution) -> Lift:
        """The same for parameters of another distribution, one of a map say, whose batch is part of this one's."""
        batch = joint_shape(self.distribution.batch_shape, other.batch_shape)
        return lambda tensor: self.lift(tensor.expand(batch))

    def constant(self, value: float, like: Tensor) -> Tensor:
        """A number as a tensor of the same shape."""
        return torch.full_like(like, value)
