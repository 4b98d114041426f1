"""`WorstRows`: the rows with the largest KL and the classes that add most; kept by `KLAccumulator`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kullback.comparison.measures import OneRow, Term, top_terms

_MAX_TERMS = 8
_MAX_PENDING_BYTES = 1 << 26


class WorstRow(NamedTuple):
    """A row, its KL(p ‖ q) in nats, and what its classes add, largest first."""

    kl: float
    row: int
    terms: Sequence[Term]


class WorstRows:
    """At most `number` rows, largest KL first and the earlier row first among equals."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: list[WorstRow] = []
        # The two rows themselves: most candidates are dropped again, so their terms are computed at the end.
        self.pending: dict[int, OneRow] = {}

    def candidates(self, kl: np.ndarray, numbers: np.ndarray) -> Iterator[int]:
        """Places of the rows of a chunk that are among the worst, as long as those before are added."""
        for at in np.lexsort((numbers, -kl))[: self.number].tolist():
            if not kl[at] > 0 or (len(self.rows) >= self.number and kl[at] < self.rows[-1].kl):
                return
            yield at

    def add(self, kl: float, row: int, terms: Sequence[Term], pending: OneRow | None = None) -> None:
        """Add a row, with its terms or the numbers that give them, and drop the best one if there are too many."""
        self.rows.append(WorstRow(kl, row, terms))
        if pending is not None:
            self.pending[row] = pending
        self.rows.sort(key=lambda worst: (-worst.kl, worst.row))
        for dropped in self.rows[self.number :]:
            self.pending.pop(dropped.row, None)
        del self.rows[self.number :]
        if pending is not None and len(self.pending) * 2 * pending.p.tensor.nbytes > _MAX_PENDING_BYTES:
            self.settled()

    def settled(self) -> list[WorstRow]:
        """The rows with their terms."""
        for at, worst in enumerate(self.rows):
            pending = self.pending.pop(worst.row, None)
            if pending is not None:
                self.rows[at] = worst._replace(terms=top_terms(pending, _MAX_TERMS))
        return list(self.rows)

    def merge(self, other: WorstRows) -> None:
        """Add what others hold."""
        self.settled()
        for worst in other.settled():
            self.add(*worst)

    def state(self) -> list[Any]:
        """For JSON, which has no infinity: numbers as hexadecimal text."""
        return [
            [
                worst.kl.hex(),
                worst.row,
                [[t.class_index, t.p.hex(), t.q.hex(), t.contribution.hex()] for t in worst.terms],
            ]
            for worst in self.settled()
        ]

    @classmethod
    def from_state(cls, number: int, state: Sequence[Any]) -> WorstRows:
        """The rows that `state()` described."""
        self = cls(number)
        for kl, row, terms in state:
            read = [Term(int(i), *(float.fromhex(x) for x in numbers)) for i, *numbers in terms]
            self.add(float.fromhex(kl), int(row), read)
        return self
