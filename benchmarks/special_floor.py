"""Special functions on one thread in processor time, against torch and against moving the same bytes.

    python -m benchmarks.special_floor [names]

An elementwise function of n numbers cannot be faster than an addition (two arguments) or a negation (one) of them,
which reads and writes the same bytes. Where torch's expression costs less than three of those, no implementation is
three times as fast. Processor time of the calling thread is less disturbed by other programs than time on the clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.cases.special import RACES
from kullback import special

SIZE = 1_000_000
ROUNDS = 25


def processor_times(functions: list[Callable[[], Tensor]]) -> list[float]:
    """Microseconds of each, interleaved: the fastest fifth of the rounds."""
    samples: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, times in zip(functions, samples, strict=True):
            start = time.thread_time()
            function()
            times.append(time.thread_time() - start)
    return [1e6 * sorted(times)[ROUNDS // 5] for times in samples]


def race(name: str, dtype: torch.dtype) -> str:
    """One line of the table."""
    baseline, draw = RACES[name]
    u, v = torch.rand(2, SIZE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    arguments = [argument.to(dtype) for argument in draw(u, v)]
    function = getattr(special, name)
    theirs, ours, floor = processor_times(
        [
            lambda: baseline(*arguments),
            lambda: function(*arguments),
            lambda: torch.add(*arguments) if len(arguments) == 2 else torch.neg(*arguments),
        ]
    )
    kind = str(dtype).removeprefix("torch.")
    return (
        f"| `{name}` | {kind} | {ours / 1e3:.2f} ms | {theirs / ours:.1f} | {theirs / floor:.1f} | {ours / floor:.1f} |"
    )


def main() -> None:
    """Print the table of every function, or of those named."""
    torch.set_num_threads(1)
    print("| function | dtype | kullback | torch ÷ kullback | torch ÷ moving | kullback ÷ moving |")
    print("|---|---|---:|---:|---:|---:|")
    for name in sys.argv[1:] or RACES:
        for dtype in (torch.float32, torch.float64):
            print(race(name, dtype), flush=True)


if __name__ == "__main__":
    main()
