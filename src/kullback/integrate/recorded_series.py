"""Sums of recorded programs over counts by the native library, each element over the counts that matter to it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.integrate.recorded import NOTHING, PARALLEL_FROM, Placed
from kullback.kernels import native

_RESULTS = 5
_TAIL = struct.Struct("=4qqq3d5q")


class Window(NamedTuple):
    """Which counts matter.

    Attributes:
        steps: From a mean, in deviations, where probabilities are looked at.
        negligible: By how much the logarithm of a probability that does not matter is below the largest.
        head: A sum that ends before this count begins at 0.
        longest: The largest count less the smallest one of a sum.
    """

    steps: Sequence[float]
    negligible: float
    head: float
    longest: float


class Sums(NamedTuple):
    """Sums, one per element.

    Attributes:
        value: The sum.
        size: That of absolute values.
        noise: The sum of the second output.
        lacking: The largest third output.
        lost: Whether there are too many counts, or the programs do not hold: no result there.
        slopes: Sums of the outputs of the program of slopes, stacked; None if there is none.
    """

    value: Tensor
    size: Tensor
    noise: Tensor
    lacking: Tensor
    lost: Tensor
    slopes: Tensor | None


class RecordedSeries:
    """Sums of one summand, given as programs.

    Args:
        log_p: The logarithm of the probability of a count.
        log_q: Likewise of the other law where its counts matter, too.
        terms: The summand, what its roundings are relative to, and whether there must not be such a count.
        slopes: Derivatives of the summand.
        marks: How many means of p and of q the table holds behind the largest counts of both.
        window: Which counts matter.
    """

    def __init__(
        self,
        log_p: Placed,
        log_q: Placed | None,
        terms: Placed,
        slopes: Placed | None,
        *,
        marks: tuple[int, int],
        window: Window,
    ) -> None:
        self._programs = log_p, log_q, terms, slopes  # keeps their bytes alive
        self._head = b"".join(NOTHING if part is None else part.packed() for part in self._programs)
        self._marks, self._window = marks, window
        self._steps = ctypes.create_string_buffer(struct.pack(f"={len(window.steps)}d", *window.steps))
        self._slopes = 0 if slopes is None else slopes.program.outputs

    def __call__(self, table: Tensor, elements: Tensor | None) -> Sums:
        """Sum for all columns of a table, or for those with an index."""
        library = native.library()
        assert library is not None
        count = table.shape[1] if elements is None else len(elements)
        out = table.new_empty(_RESULTS + self._slopes, count)
        address, window = out.data_ptr(), self._window
        tail = _TAIL.pack(
            *(table.data_ptr(), table.stride(0), *self._marks),
            *(ctypes.addressof(self._steps), len(window.steps)),
            *(window.negligible, window.head, window.longest),
            *(0 if elements is None else elements.data_ptr(), count),
            torch.get_num_threads() if count >= PARALLEL_FROM else 1,
            *(address, address + 8 * _RESULTS * count),
        )
        if library.kullback_series_run(self._head + tail):
            raise RuntimeError("a recorded series refused its arguments")
        value, size, noise, lacking, lost = out[:_RESULTS].unbind(0)
        return Sums(value, size, noise, lacking, lost != 0, out[_RESULTS:] if self._slopes else None)
