"""`Mixture`: a weighted sum of univariate distributions of any families; `diagnose.notation` makes it from text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution
from torch.distributions.constraints import Constraint

from kullback._core.errors import ShapeError, explain_problem


class Mixture(Distribution):
    """Σ wᵢ pᵢ(x), of univariate distributions that need not be of one family.

    Attributes:
        weights: One per part, with sum 1.
        parts: Densities, or mass functions; their batch shapes broadcast.

    Example:
        >>> from torch.distributions import Normal, StudentT
        >>> p = Mixture(torch.tensor([0.5, 0.5]), [Normal(0.0, 1.0), StudentT(3.0)])
        >>> p.log_prob(torch.tensor(0.0)).exp()
        tensor(0.3832)

    Raises:
        ShapeError: If a part is not univariate.
        ValueError: If one part is a density and another a mass function.
    """

    arg_constraints: dict[str, Constraint] = {}  # noqa: RUF012 - as torch declares it

    def __init__(self, weights: Tensor, parts: Sequence[Distribution]) -> None:
        wrong = next((part for part in parts if part.event_shape), None)
        if wrong is not None:
            raise ShapeError(
                explain_problem(
                    "The parts of this mixture are univariate.",
                    got=f"{type(wrong).__name__} with event shape {tuple(wrong.event_shape)}",
                    expected="distributions of numbers; vectors of one family: MixtureSameFamily",
                )
            )
        batch = torch.broadcast_shapes(*(part.batch_shape for part in parts))  # type: ignore[no-untyped-call]
        self.weights = weights
        self.parts = [part.expand(batch) for part in parts]
        for part in self.parts:
            part._validate_args = False  # each is asked outside of its support, too
        super().__init__(batch, validate_args=False)
        _ = self.support

    @property
    def support(self) -> Constraint:
        """Where any part has mass."""
        supports = [part.support for part in self.parts]
        assert all(isinstance(support, Constraint) for support in supports)
        return _Union(supports)

    def expand(self, batch_shape: torch.Size | list[int] | tuple[int, ...], _instance: object = None) -> Mixture:
        """The same mixture for a larger batch."""
        return Mixture(self.weights, [part.expand(torch.Size(batch_shape)) for part in self.parts])

    def log_prob(self, value: Tensor) -> Tensor:
        """Log Σ wᵢ pᵢ(x)."""
        return torch.logsumexp(torch.stack([self._log_term(i, value) for i in range(len(self.parts))]), 0)

    def _log_term(self, i: int, value: Tensor) -> Tensor:
        part = self.parts[i]
        inside = part.support.check(value).bool()
        return torch.where(inside, part.log_prob(value) + self.weights[i].log(), -math.inf)

    def sample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = torch.Size()) -> Tensor:  # noqa: B008
        """Draws: a part by its weight, then a number of it."""
        shape = torch.Size([*sample_shape, *self.batch_shape])
        chosen = Categorical(self.weights).sample(shape)  # type: ignore[no-untyped-call]
        drawn = torch.stack([part.sample(torch.Size(sample_shape)).to(self.weights.dtype) for part in self.parts])
        return drawn.gather(0, chosen.unsqueeze(0)).squeeze(0)


class _Union(Constraint):
    """Inside any of several supports."""

    def __init__(self, supports: Sequence[Constraint]) -> None:
        self.supports = supports
        kinds = {bool(support.is_discrete) for support in supports}
        if len(kinds) > 1:
            raise ValueError("the parts of a mixture are all densities or all mass functions")
        self.is_discrete = kinds.pop()
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether each value is in one of them."""
        return torch.stack([support.check(value).bool() for support in self.supports]).any(0)  # type: ignore[no-untyped-call]
