"""Clocks, inner loops, interleaving and the statistics made of them."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

Clock = Callable[[], float]
Thunk = Callable[[], object]
_FEWEST = 5  # rounds


class Spread(NamedTuple):
    """Median and quartiles of a sample."""

    median: float
    low: float
    high: float

    @property
    def iqr(self) -> float:
        return self.high - self.low


def spread(sample: Sequence[float]) -> Spread:
    """Median and quartiles (of a single value: that value, three times)."""
    if len(sample) == 1:
        return Spread(sample[0], sample[0], sample[0])
    low, median, high = statistics.quantiles(sample, n=4, method="inclusive")
    return Spread(median, low, high)


def ratio(of: Sequence[float], to: Sequence[float]) -> Spread:
    """Spread of of[r] / to[r] over the rounds r.

    The two samples of a round are taken next to each other, so a slow machine in some round slows both and cancels.
    """
    return spread([mine / other for mine, other in zip(of, to, strict=True)])


def inner_loops(thunk: Thunk, *, min_seconds: float, clock: Clock = time.perf_counter) -> int:
    """How many calls make one sample: doubled until a sample lasts at least `min_seconds`."""
    loops = 1
    while seconds_per_call(thunk, loops, clock=clock) * loops < min_seconds:
        loops *= 2
    return loops


def seconds_per_call(thunk: Thunk, loops: int, *, clock: Clock = time.perf_counter) -> float:
    """One sample: the mean time of `loops` calls in a row."""
    with _no_garbage_collection():
        start = clock()
        for _ in range(loops):
            thunk()
        return (clock() - start) / loops


def interleave(
    thunks: Mapping[str, Thunk],
    *,
    repeats: int,
    min_seconds: float = 5e-3,
    budget: float = math.inf,
    clock: Clock = time.perf_counter,
    tick: Callable[[str], None] = lambda _: None,
) -> dict[str, list[float]]:
    """Time all contenders round robin; samples[name][r] is the seconds per call of `name` in round r.

    One round times every contender once, so that drift (frequency, neighbours, heat) hits all alike; each round
    starts with the next contender, so that none always inherits the caches of the same predecessor. After `budget`
    seconds no further round is started, unless there were fewer than five.
    """
    names = list(thunks)
    loops = {name: inner_loops(thunks[name], min_seconds=min_seconds, clock=clock) for name in names}
    samples: dict[str, list[float]] = {name: [] for name in names}
    began = clock()
    for round_ in range(repeats):
        if round_ >= _FEWEST and clock() - began > budget:
            break
        start = round_ % len(names) if names else 0
        for name in names[start:] + names[:start]:
            samples[name].append(seconds_per_call(thunks[name], loops[name], clock=clock))
            tick(name)
    return samples


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
