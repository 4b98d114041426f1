"""Counts of the values of columns in bins or categories, from two passes over both tables; for `drift.py`.

The first pass finds what a column holds and where the edges of its bins are, the second one counts. Both see a chunk
at a time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kullback.comparison.tables import TableSource, column_values

MAX_SAMPLE = 1 << 16  # values of a column from which edges follow
_MAX_CATEGORIES = 1000  # bins of categories; the rarer ones share one
_MAX_KNOWN = 100_000  # categories that are told apart
REST = "all other categories"


@dataclass
class ColumnCounts:
    """What was counted of a column in base and other.

    Attributes:
        kind: "numbers" or "categories".
        labels: Names of the bins.
        counts: Counts of base and other in the bins.
        rows: Values that are not missing.
        missing: Shares of missing values.
        unseen: What only the other has, with counts.
        samples: Of numbers, up to `MAX_SAMPLE` values of base and other.
    """

    kind: str
    labels: Sequence[str]
    counts: tuple[np.ndarray, np.ndarray]
    rows: tuple[int, int]
    missing: tuple[float, float]
    unseen: dict[str, int]
    samples: tuple[np.ndarray, np.ndarray]


@dataclass
class _Scan:
    """What the first pass finds of one column of one table."""

    rows: int = 0
    missing: int = 0
    numbers: bool = True
    low: float = np.inf
    high: float = -np.inf
    step: int = 1
    seen: int = 0
    kept: list[np.ndarray] = field(default_factory=list)

    def add(self, values: np.ndarray) -> None:
        missing = _is_missing(values)
        self.missing += int(missing.sum())
        self.rows += len(values) - int(missing.sum())
        self.numbers = self.numbers and not values.dtype.hasobject
        if not self.numbers:
            self.kept = []
            return
        values = values[~missing]
        if not len(values):
            return
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self.kept.append(values[-self.seen % self.step :: self.step].copy())
        self.seen += len(values)
        while sum(map(len, self.kept)) > MAX_SAMPLE:  # every second one, of values spread over all rows
            self.kept, self.step = [np.concatenate(self.kept)[::2]], 2 * self.step

    @property
    def sample(self) -> np.ndarray:
        return np.concatenate(self.kept) if self.kept else np.empty(0)

    @property
    def missing_share(self) -> float:
        return self.missing / max(self.rows + self.missing, 1)


def count_columns(base: TableSource, other: TableSource, names: Sequence[str], bins: int) -> dict[str, ColumnCounts]:
    """Counts of these columns, which both tables have."""
    scans = [_scan(table, names) for table in (base, other)]
    counters: dict[str, _Bins | _Categories] = {}
    for name in names:
        first, second = scans[0][name], scans[1][name]
        numbers = first.numbers and second.numbers
        many = numbers and len(np.unique(first.sample)) > bins
        counters[name] = _Bins(first, bins) if many else _Categories(of_text=not numbers)
    for side, table in enumerate((base, other)):
        for chunk in table.chunks():
            for name, counter in counters.items():
                values = column_values(chunk[name], as_text=isinstance(counter, _Categories) and counter.of_text)
                counter.add(side, values[~_is_missing(values)])
    found = {}
    for name, counter in counters.items():
        both = scans[0][name], scans[1][name]
        labels, counts, unseen = counter.result()
        found[name] = ColumnCounts(
            kind="numbers" if isinstance(counter, _Bins) else "categories",
            labels=labels,
            counts=counts,
            rows=(both[0].rows, both[1].rows),
            missing=(both[0].missing_share, both[1].missing_share),
            unseen=unseen,
            samples=(both[0].sample, both[1].sample),
        )
    return found


def _scan(table: TableSource, names: Sequence[str]) -> dict[str, _Scan]:
    found = {name: _Scan() for name in names}
    for chunk in table.chunks():
        for name, scan in found.items():
            scan.add(column_values(chunk[name], as_text=not scan.numbers))
    return found


class _Bins:
    """Bins that hold equal shares of the base's sample; the outer ones are open."""

    def __init__(self, base: _Scan, bins: int) -> None:
        self._edges = np.unique(np.quantile(base.sample, np.linspace(0, 1, bins + 1)[1:-1]))
        self._range = base.low, base.high
        self._counts = [np.zeros(len(self._edges) + 1, dtype=np.int64) for _ in range(2)]
        self._outside = [0, 0]

    def add(self, side: int, values: np.ndarray) -> None:
        places = np.searchsorted(self._edges, values, side="right")
        self._counts[side] += np.bincount(places, minlength=len(self._edges) + 1)
        if side:
            self._outside[0] += int((values < self._range[0]).sum())
            self._outside[1] += int((values > self._range[1]).sum())

    def result(self) -> tuple[list[str], tuple[np.ndarray, np.ndarray], dict[str, int]]:
        text = [f"{edge:.4g}" for edge in self._edges]
        labels = [f"< {text[0]}", *(f"{a} to {b}" for a, b in itertools.pairwise(text)), f"≥ {text[-1]}"]
        outside = zip(("below the smallest of base", "above the largest of base"), self._outside, strict=True)
        return labels, (self._counts[0], self._counts[1]), {words: number for words, number in outside if number}


class _Categories:
    """Categories by their text; beyond `_MAX_KNOWN` of them, new ones are not told apart."""

    def __init__(self, *, of_text: bool) -> None:
        self.of_text = of_text
        self._counts: list[Counter[str]] = [Counter(), Counter()]

    def add(self, side: int, values: np.ndarray) -> None:
        known = self._counts[side]
        for value, number in Counter(values.tolist()).items():
            name = value if self.of_text else f"{value:.12g}"
            known[name if name in known or len(known) < _MAX_KNOWN else REST] += number

    def result(self) -> tuple[list[str], tuple[np.ndarray, np.ndarray], dict[str, int]]:
        base, other = self._counts
        labels = [name for name, _ in base.most_common(_MAX_CATEGORIES + 1) if name != REST]
        if len(base) > _MAX_CATEGORIES:
            labels = [*labels[: _MAX_CATEGORIES - 1], REST]
        # Where the base has more than it tells apart, nobody knows what it lacks.
        unseen = {} if REST in base else {name: number for name, number in other.items() if name not in base}
        counts = []
        for side in (base, other):
            row = [side[name] for name in labels]
            if labels and labels[-1] == REST:
                row[-1] = sum(side.values()) - sum(row[:-1]) - (sum(unseen.values()) if side is other else 0)
            counts.append(np.array(row, dtype=np.int64))
        return labels, (counts[0], counts[1]), unseen


def _is_missing(values: np.ndarray) -> np.ndarray:
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    finite: np.ndarray = np.isfinite(values)
    return ~finite
