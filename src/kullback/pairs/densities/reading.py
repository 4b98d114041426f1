"""Parameters of a distribution in the shape that integrals use: a dimension for the nodes behind the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.pairs.parameters import read

Lift = Callable[[Tensor], Tensor]


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

    def constant(self, value: float, like: Tensor) -> Tensor:
        """A number as a tensor of the same shape."""
        return torch.full_like(like, value)
