"""Numbers of a rule as tensors, made once for every dtype and device."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from kullback.kernels.levels import tracer_active, transform_active


class Constants:
    """A list of numbers, or a table of them, as a tensor like another.

    Example:
        >>> halves = Constants([0.5, 1.5])
        >>> halves.like(torch.zeros(3, dtype=torch.float64))
        tensor([0.5000, 1.5000], dtype=torch.float64)
    """

    def __init__(self, numbers: Sequence[float] | Sequence[Sequence[float]]) -> None:
        self.numbers = numbers
        self._made = functools.cache(self._make)

    def like(self, tensor: Tensor) -> Tensor:
        """The numbers in the dtype and on the device of a tensor."""
        if torch.compiler.is_compiling() or transform_active() or tracer_active():
            return torch.tensor(self.numbers, dtype=tensor.dtype, device=tensor.device)
        return self._made(tensor.dtype, tensor.device)

    def _make(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        # A tensor made in inference mode could not be used for derivatives later.
        with torch.inference_mode(False):
            return torch.tensor(self.numbers, dtype=dtype, device=device)
