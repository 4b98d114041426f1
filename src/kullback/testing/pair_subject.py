"""A pair of distributions under test: how to make it from parameters, and how its numbers are judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputTypeError
from kullback.testing.exact import expected_got
from kullback.testing.pair_oracle import exact_kl
from kullback.testing.pair_parameters import parameters
from kullback.testing.runner import Problem

Example = tuple[Tensor, ...]
Make = Callable[..., tuple[Distribution, Distribution]]

TINY = 1e-300
"""Below this a float64 is subnormal: two such numbers count as equal."""


@dataclass
class PairSubject:
    """The function under test, a way to make p and q from parameters, and single examples to do it with."""

    kl: Callable[[Distribution, Distribution], Tensor]
    make: Make
    examples: Sequence[Example]
    varied: tuple[bool, ...]
    """Which parameters are real numbers, to be perturbed and differentiated; a total count is not."""
    names: tuple[str, ...]
    given: tuple[Distribution, Distribution] | None = None
    """The user's own batched pair, where there is one; its elements are the examples."""
    expected: Sequence[float] | None = None
    reference: Callable[[Distribution, Distribution], Any] | None = None
    rtol: dict[torch.dtype, float] = field(default_factory=dict)
    gradient_rtol: float = 1e-7
    compile_backend: str = "aot_eager"
    _last: str = ""

    def value(self, p: Distribution, q: Distribution) -> Tensor:
        """Call the function under test and remember the pair."""
        self._last = f"p = {show(p)}, q = {show(q)}"
        result = self.kl(p, q)
        if not isinstance(result, Tensor):
            raise TypeError(f"the function returned {type(result).__name__}, not a Tensor")
        return result

    def of(self, *values: Tensor) -> Tensor:
        """The divergence as a function of all parameters."""
        return self.value(*self.make(*values))

    def exact(self, p: Distribution, q: Distribution) -> tuple[float, float] | None:
        """The true value of a single pair and the error of that number, if anything knows it."""
        if self.reference is not None:
            return float(self.reference(p, q)), 0.0
        return exact_kl(p, q)

    def last_inputs(self) -> str:
        """The latest pair."""
        return self._last

    def judge(
        self, p: Distribution, q: Distribution, expected: float, error: float, note: str = ""
    ) -> Iterator[Problem]:
        """Compare one single value with the true one."""
        result = self.value(p, q)
        if result.shape != ():
            yield Problem(f"expected a scalar, got shape {list(result.shape)}", self._last, result.shape, ())
            return
        got = result.item()
        expected = math.inf if expected > torch.finfo(result.dtype).max else expected
        allowed = self.rtol.get(result.dtype, 1e-2) * abs(expected) + 2 * error + TINY
        if got == expected or (abs(got - expected) <= allowed and got >= 0 and math.isfinite(expected)):
            return
        badness = abs(got - expected) / abs(expected) if expected and math.isfinite(got - expected) else math.inf
        message = expected_got(expected, got) + note
        yield Problem(message, self._last, got, expected, badness)

    def cast(self, example: Example, dtype: torch.dtype) -> Example:
        """The example with its real parameters in another dtype."""
        return tuple(x.to(dtype) if vary else x for x, vary in zip(example, self.varied, strict=True))

    def scaled(self, example: Example, factor: float) -> Example:
        """The example with every real parameter multiplied by about `factor`, unequally within a vector."""
        return tuple(
            x * (1 + (factor - 1) * weights(x)) if vary else x for x, vary in zip(example, self.varied, strict=True)
        )

    def nudged(self, example: Example, step: float) -> Example:
        """The example moved by `step` relative to its own size; a 0 moves by the size of the others."""
        sizes = [
            x.abs()[(x != 0) & x.isfinite()].min().item()
            for x, vary in zip(example, self.varied, strict=True)
            if vary and bool(((x != 0) & x.isfinite()).any())
        ]
        unit = step * min(sizes, default=1.0)
        moved = self.scaled(example, 1 + step)
        return tuple(
            torch.where((x == 0) & (x.dim() < 2), unit * weights(x), y) if vary else x
            for x, y, vary in zip(example, moved, self.varied, strict=True)
        )

    def stacked(self, example: Example, factors: Sequence[float], shape: tuple[int, ...]) -> Example:
        """A batch of the example scaled by each factor, of the given batch shape."""
        rows = [self.scaled(example, factor) for factor in factors]
        return tuple(torch.stack(column).reshape(shape + column[0].shape) for column in zip(*rows, strict=True))


def weights(x: Tensor) -> Tensor:
    """Positive weights that tell the entries of a vector apart, and treat a matrix as a whole to keep it valid."""
    if x.dim() != 1:
        return torch.ones_like(x)
    return torch.linspace(1.0, 0.5, x.numel(), dtype=x.dtype)


def show(distribution: Distribution) -> str:
    """Write a distribution with its parameters where they are few, else with their shapes."""
    kind = type(distribution).__name__
    try:
        items = parameters(distribution).items()
        texts = [f"{name}={_numbers(x)}" if x.numel() <= 8 else f"{name} {list(x.shape)}" for name, x in items]
    except (InputTypeError, RuntimeError):  # composed of others; or inside vmap, where there is nothing to read
        return kind
    dtype = str(next(iter(items))[1].dtype).removeprefix("torch.")
    return f"{kind}({', '.join(texts)}; {dtype})"


def _numbers(x: Tensor) -> str:
    # The shortest decimals that read back as the stored floats.
    array = x.detach().numpy() if x.dtype in (torch.float32, torch.float64) else x.detach().double().numpy()
    return " ".join(np.array2string(array, separator=", ", floatmode="unique").split())


@contextmanager
def without_validation() -> Iterator[None]:
    """Switch the argument validation of distributions off: under a transform it reads values that are not there."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)
