"""Integrals of recorded programs by the native library: panels and refinement of every element on its own.

The steps are those of `grading` and `gauss_legendre` with their numbers; of an element nothing is kept but its results.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.integrate import gauss_legendre, grading
from kullback.kernels import native
from kullback.kernels.program import MOST, Packed

# The length of a panel in the stretched coordinate, and how many there may be at first, and with derivatives: they have
# stronger singularities than the integrand, for which panels are split.
_LENGTH, _FEWEST, _PANELS, _FOLLOWED = 0.5, 4, 48, 160
# The error of a panel in parts of the integral; into how many one that exceeds it is split, and how often.
_ENOUGH, _SPLIT, _ROUNDS = 1e-11, 4, 12
_RESULTS, _RUNGS = 5, 64
_PLACED, _TAIL = struct.Struct(f"={1 + MOST}q"), struct.Struct("=13q")
PARALLEL_FROM = 24  # elements
NOTHING = _PLACED.pack(*(0,) * (1 + MOST))  # where there is no program


class Placed(NamedTuple):
    """A program of what a table holds, of points and of the logarithms of their weights, in this order.

    Attributes:
        program: The program.
        rows: Where in the table its inputs are, the last two left out.
    """

    program: Packed
    rows: Sequence[int]

    def packed(self) -> bytes:
        """As the library reads it."""
        return _PLACED.pack(self.program.address, *self.rows, *(0,) * (MOST - len(self.rows)))


class Found(NamedTuple):
    """Integrals, one per element.

    Attributes:
        value: The integral.
        size: That of its absolute value.
        error: An estimate of the error.
        noise: The integral of the second output, and the size.
        state: 0 where the plain program held, 1 where the careful one had to, 2 where neither does: no result there.
        slopes: Integrals of the outputs of the program of slopes, stacked; None if there is none.
    """

    value: Tensor
    size: Tensor
    error: Tensor
    noise: Tensor
    state: Tensor
    slopes: Tensor | None


class RecordedIntegral:
    """The integral of one integrand, given as programs.

    Args:
        size: The logarithm of the integrand's size, and an argument whose turn around 0 counts if `follows` says so.
        plain: The integrand times its weight, and what its roundings are relative to; NaN where it does not hold.
        careful: The same, holding more often.
        marks: How many marks the table begins with: places first, then as many widths.
        kinks: How many kinks follow.
        follows: Whether panels are short where the argument turns.
        slopes: Derivatives of the integrand; with jumps, the last two outputs are that by the point, and itself.
        jumps: At how many of the last kinks the integrand jumps; for the last two outputs `Found.slopes` holds what the
            integral grows by for each unit that such a kink moves.
        crossings: Whether the integrand has kinks where the argument changes its sign.
    """

    def __init__(
        self,
        size: Placed,
        plain: Placed,
        careful: Placed,
        *,
        marks: int,
        kinks: int,
        follows: bool,
        slopes: Placed | None = None,
        jumps: int = 0,
        crossings: bool = False,
    ) -> None:
        self._programs = size, plain, careful, slopes  # keeps their bytes alive
        rule = _rule(_PANELS if slopes is None else _FOLLOWED)
        self._rule = rule
        last = NOTHING if slopes is None else slopes.packed()
        self._head = (
            struct.pack("=q", ctypes.addressof(rule)) + size.packed() + plain.packed() + careful.packed() + last
        )
        self._counts = marks, kinks, jumps
        self._follows, self._crossings = int(follows), int(crossings)
        self._slopes = 0 if slopes is None else slopes.program.outputs + (jumps - 2 if jumps else 0)

    def __call__(self, table: Tensor, elements: Tensor | None, *, plain_first: bool) -> Found:
        """Integrate over all columns of a table, or over those with an index."""
        library = native.library()
        assert library is not None
        count = table.shape[1] if elements is None else len(elements)
        out = table.new_empty(_RESULTS + self._slopes, count)
        address = out.data_ptr()
        tail = _TAIL.pack(
            *(table.data_ptr(), table.stride(0), *self._counts),
            *(0 if elements is None else elements.data_ptr(), count, self._follows, self._crossings, int(plain_first)),
            torch.get_num_threads() if count >= PARALLEL_FROM else 1,
            *(address, address + 8 * _RESULTS * count),
        )
        if library.kullback_integral_run(self._head + tail):
            raise RuntimeError("a recorded integral refused its arguments")
        value, size, error, noise, state = out[:_RESULTS].unbind(0)
        return Found(value, size, error, noise, state, out[_RESULTS:] if self._slopes else None)


@functools.cache
def _rule(panels: int) -> ctypes.Array[ctypes.c_char]:
    """All numbers, as the library reads them, with so many panels at first."""
    near, far = grading.INNER.numbers, grading.OUTER.numbers
    rungs = [*near, *far]
    numbers = [
        *gauss_legendre.NODES.numbers,
        *gauss_legendre.LOG_WEIGHTS.numbers,
        *(number for row in gauss_legendre.POLYNOMIALS.numbers for number in row),  # type: ignore[union-attr]
        math.exp(gauss_legendre.LOG_WEIGHTS.numbers[0]),  # type: ignore[arg-type]
        *(grading.NARROWEST, grading.NEGLIGIBLE, grading.FALL, grading.TURNED, grading.TURN, grading.STEEPEST),
        *(_LENGTH, _FEWEST, panels, _ENOUGH, _SPLIT, _ROUNDS),
        *(len(near), len(far), *rungs, *(0.0,) * (_RUNGS - len(rungs))),
    ]
    return ctypes.create_string_buffer(struct.pack(f"={len(numbers)}d", *numbers))
