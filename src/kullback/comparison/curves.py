"""`Bins`: exact sums over 20 equal bins of 0 to 1, for KL by position in the context and for calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kullback.comparison.summary import exact_sums, exact_to_float

NUMBER = 20


class Bins:
    """For each bin: how many numbers fell in, the sum of where, and the sum of what was measured there."""

    def __init__(self) -> None:
        self.counts = [0] * NUMBER
        self.places = [0] * NUMBER
        self.sums = [0] * NUMBER

    def add(self, places: np.ndarray, values: np.ndarray) -> None:
        """Add values at places between 0 and 1; values that are not finite are left out."""
        places, values = places.astype(np.float64), values.astype(np.float64)
        finite = np.isfinite(values)
        places, values = np.clip(places[finite], 0.0, 1.0), values[finite]
        index = np.minimum((places * NUMBER).astype(np.int64), NUMBER - 1)
        for totals, added in ((self.places, places), (self.sums, values)):
            for at, total in exact_sums(added, index).items():
                totals[at] += total
        self.counts = (np.bincount(index, minlength=NUMBER) + self.counts).tolist()

    def merge(self, other: Bins) -> None:
        """Add what other bins hold."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.places = [a + b for a, b in zip(self.places, other.places, strict=True)]
        self.sums = [a + b for a, b in zip(self.sums, other.sums, strict=True)]

    def curve(self) -> list[tuple[float, float, int]]:
        """Mean place, mean value and count of each bin that holds something."""
        return [
            (exact_to_float(place, count), exact_to_float(total, count), count)
            for count, place, total in zip(self.counts, self.places, self.sums, strict=True)
            if count
        ]

    def state(self) -> dict[str, Any]:
        """For JSON."""
        return {"counts": self.counts, "places": [*map(hex, self.places)], "sums": [*map(hex, self.sums)]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Bins:
        """The bins that `state()` described."""
        self = cls()
        self.counts = [int(count) for count in state["counts"]]
        self.places = [int(text, 16) for text in state["places"]]
        self.sums = [int(text, 16) for text in state["sums"]]
        if {len(self.counts), len(self.places), len(self.sums)} != {NUMBER}:
            raise ValueError(f"{len(self.counts)} bins instead of {NUMBER}")
        return self
