"""`Summary`: count, exact sums, quantiles and block sums of one number per row; `KLAccumulator` keeps one per measure.

Everything in it merges exactly and in any order: sums are integers, quantiles are counts of buckets. So 1, 2 and 4
processes give the same digits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from kullback._core.errors import InputValueError

# A float64 is an integer times 2^(exponent - 53), and the smallest exponent of frexp is -1073.
_UNIT_EXPONENT = 1126
_UNIT = 1 << _UNIT_EXPONENT
# Neighbouring buckets of the sketch differ by the factor (1 + a) / (1 - a); a is the relative error of a quantile.
RELATIVE_ERROR = 1e-3
_LOG_RATIO = math.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
# Up to this many rows the values themselves are kept, and quantiles are exact.
MAX_KEPT = 1 << 16
# More blocks than this are merged in pairs.
MAX_BLOCKS = 4096


def exact_sums(values: np.ndarray, groups: np.ndarray) -> dict[int, int]:
    """The sum of the finite float64 numbers of each group without rounding, in units of 2^-1126."""
    if not len(values):
        return {}
    mantissa, exponent = np.frexp(values.astype(np.float64))
    order = np.lexsort((exponent, groups))
    digits, exponent, groups = (mantissa * 2.0**53).astype(np.int64)[order], exponent[order], groups[order]
    starts = np.ones(len(values), bool)
    starts[1:] = (exponent[1:] != exponent[:-1]) | (groups[1:] != groups[:-1])
    starts = np.flatnonzero(starts)
    # Two halves, so that the sum of up to 2^36 of them stays inside 64 bits.
    upper = np.add.reduceat(digits >> 27, starts).tolist()
    lower = np.add.reduceat(digits & ((1 << 27) - 1), starts).tolist()
    totals: dict[int, int] = {}
    for group, high, low, power in zip(groups[starts].tolist(), upper, lower, exponent[starts].tolist(), strict=True):
        totals[group] = totals.get(group, 0) + (((high << 27) + low) << (power - 53 + _UNIT_EXPONENT))
    return totals


def exact_sum(values: np.ndarray) -> int:
    """The sum of finite float64 numbers without rounding, in units of 2^-1126.

    Example:
        >>> exact_to_float(exact_sum(np.array([1e16, 1.0, -1e16])))
        1.0
    """
    return exact_sums(values, np.zeros(len(values), np.int64)).get(0, 0)


def exact_to_float(total: int, count: int = 1) -> float:
    """The nearest float64 to an exact sum, divided by a count."""
    return total / (_UNIT * count)


class Summary:
    """What is kept of one number per row.

    Attributes:
        count: Finite numbers.
        infinite: Numbers that are +inf.
        total: Exact sum of the finite ones.
        squares: Exact sum of their squares, each rounded once.
        low: The smallest.
        high: The largest finite one.
        buckets: How many numbers fall into each bucket of the sketch.
        kept: The numbers themselves while there are at most `MAX_KEPT`, else None.
        blocks: Per block of rows: count and exact sum.
        level: How often blocks were merged in pairs.
    """

    def __init__(self) -> None:
        self.count = 0
        self.infinite = 0
        self.total = 0
        self.squares = 0
        self.low = math.inf
        self.high = -math.inf
        self.buckets: dict[int, int] = {}
        self.kept: list[float] | None = []
        self.blocks: dict[int, tuple[int, int]] = {}
        self.level = 0

    def add(self, values: np.ndarray, blocks: np.ndarray) -> None:
        """Add one number per row; `blocks` says which block (document, chunk) each row belongs to."""
        values = values.astype(np.float64)
        finite = np.isfinite(values)
        self.infinite += int((~finite).sum())
        values, blocks = values[finite], blocks[finite] >> self.level
        if not len(values):
            return
        self.count += len(values)
        rows = Counter(blocks.tolist())
        for block, part in exact_sums(values, blocks).items():
            self.total += part
            count, total = self.blocks.get(block, (0, 0))
            self.blocks[block] = (count + rows[block], total + part)
        self.squares += exact_sum(values * values)
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        for key, number in Counter(_bucket(values).tolist()).items():
            self.buckets[key] = self.buckets.get(key, 0) + number
        if self.kept is not None:
            self.kept.extend(values.tolist())
            self.kept = None if self.count > MAX_KEPT else self.kept
        self._coarsen(self.level)

    def merge(self, other: Summary) -> None:
        """Add what another summary holds."""
        if other.count + other.infinite == 0:
            return
        self.count += other.count
        self.infinite += other.infinite
        self.total += other.total
        self.squares += other.squares
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        for key, number in other.buckets.items():
            self.buckets[key] = self.buckets.get(key, 0) + number
        both = None if self.kept is None or other.kept is None else [*self.kept, *other.kept]
        self.kept = None if both is None or len(both) > MAX_KEPT else both
        level = max(self.level, other.level)
        self._coarsen(level)
        for block, (count, total) in other.blocks.items():
            place = block >> (level - other.level)
            before = self.blocks.get(place, (0, 0))
            self.blocks[place] = (before[0] + count, before[1] + total)
        self._coarsen(level)

    def _coarsen(self, level: int) -> None:
        """Merge neighbouring blocks until the level is reached and there are few enough."""
        while self.level < level or len(self.blocks) > MAX_BLOCKS:
            merged: dict[int, tuple[int, int]] = {}
            for block, (count, total) in self.blocks.items():
                before = merged.get(block >> 1, (0, 0))
                merged[block >> 1] = (before[0] + count, before[1] + total)
            self.blocks, self.level = merged, self.level + 1

    def mean(self) -> float:
        """The mean; infinite if one number is."""
        if self.infinite:
            return math.inf
        return exact_to_float(self.total, self.count) if self.count else math.nan

    def variance(self) -> float:
        """Sample variance of the finite numbers; NaN for fewer than two."""
        if self.count < 2:
            return math.nan
        # squares - total²/count, with both in integers: nothing cancels but the rounding of the squares.
        scaled = self.squares * self.count * _UNIT - self.total * self.total
        return max(scaled, 0) / (_UNIT * _UNIT * self.count * (self.count - 1))

    def quantile(self, share: float) -> float:
        """The quantile by linear interpolation at place share·(n - 1), as numpy and llama.cpp have it.

        Exact while the numbers are kept; afterwards within `RELATIVE_ERROR` of a number of that rank.
        """
        if self.count + self.infinite == 0:
            return math.nan
        place = share * (self.count + self.infinite - 1)
        low, high = math.floor(place), math.ceil(place)
        below, above = self._ranked(low), self._ranked(high)
        if below == above or math.isinf(below):
            return below
        return above if math.isinf(above) else below + (place - low) * (above - below)

    def _ranked(self, rank: int) -> float:
        """The number with this rank, from 0."""
        if rank >= self.count:
            return math.inf
        if self.kept is not None:
            self.kept.sort()  # nearly nothing once it is sorted
            return self.kept[rank]
        passed = 0
        for key in sorted(self.buckets):
            passed += self.buckets[key]
            if passed > rank:
                return min(max(bucket_value(key), self.low), self.high)
        return self.high

    def block_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Counts and sums of the blocks, in the order of the rows."""
        ordered = [self.blocks[key] for key in sorted(self.blocks)]
        counts = np.array([count for count, _ in ordered], dtype=np.float64)
        return counts, np.array([exact_to_float(total) for _, total in ordered])

    def state(self) -> dict[str, Any]:
        """Everything as numbers, strings and lists, for JSON."""
        return {
            "count": self.count,
            "infinite": self.infinite,
            "total": hex(self.total),
            "squares": hex(self.squares),
            "low": self.low.hex(),
            "high": self.high.hex(),
            "buckets": [[key, number] for key, number in sorted(self.buckets.items())],
            "kept": self.kept,
            "blocks": [[key, count, hex(total)] for key, (count, total) in sorted(self.blocks.items())],
            "level": self.level,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Summary:
        """The summary that `state()` described; the numbers must agree with each other."""
        self = cls()
        try:
            self.count, self.infinite = int(state["count"]), int(state["infinite"])
            self.total, self.squares = int(state["total"], 16), int(state["squares"], 16)
            self.low, self.high = float.fromhex(state["low"]), float.fromhex(state["high"])
            self.buckets = {int(key): int(number) for key, number in state["buckets"]}
            self.kept = None if state["kept"] is None else [float(value) for value in state["kept"]]
            self.blocks = {int(key): (int(count), int(total, 16)) for key, count, total in state["blocks"]}
            self.level = int(state["level"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputValueError(f"This is not the state of a summary: {error}.") from error
        counted = sum(self.buckets.values()), sum(count for count, _ in self.blocks.values())
        if counted != (self.count, self.count) or sum(total for _, total in self.blocks.values()) != self.total:
            raise InputValueError("The state is damaged: its counts and sums do not agree.")
        return self


def _bucket(values: np.ndarray) -> np.ndarray:
    """The bucket of each number: 0 for zero, positive keys for positive numbers, negative ones for negative."""
    size = np.abs(values)
    with np.errstate(divide="ignore"):
        index = np.ceil(np.log(size) / _LOG_RATIO)
    # Shifted, so that the bucket of the smallest positive float64 is 1.
    shifted = np.where(size > 0, index + _SHIFT, 0).astype(np.int64)
    return np.where(values < 0, -shifted, shifted)


_SHIFT = math.ceil(745.2 / _LOG_RATIO) + 1


def bucket_value(key: int) -> float:
    """The number that stands for a bucket, within `RELATIVE_ERROR` of all in it."""
    if key == 0:
        return 0.0
    upper = math.exp((abs(key) - _SHIFT) * _LOG_RATIO)
    return math.copysign(upper * (1 - RELATIVE_ERROR), key)
