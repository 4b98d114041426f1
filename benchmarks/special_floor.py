"""Special functions on a million elements, against torch and against moving the same bytes.

    python -m benchmarks.special_floor [--threads N] [names]

An elementwise function of n numbers cannot be faster than an addition (two arguments) or a negation (one) of them,
which reads and writes the same bytes. Where torch's expression costs less than three of those, no implementation is
three times as fast.

With one thread the time is that of the processor, which other programs disturb less; with more it is the time on the
clock, and the fastest of many rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.cases.special import RACES
from kullback import special

SIZE = 1_000_000


def times(functions: list[Callable[[], Tensor]], threads: int) -> list[float]:
    """Microseconds of each, interleaved: the fastest fifth of 25 rounds, on the clock the fastest fiftieth of 100."""
    clock, rounds, rank = (time.thread_time, 25, 5) if threads == 1 else (time.perf_counter, 100, 2)
    samples: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, taken in zip(functions, samples, strict=True):
            start = clock()
            function()
            taken.append(clock() - start)
    return [1e6 * sorted(taken)[rank] for taken in samples]


def race(name: str, dtype: torch.dtype, threads: int) -> str:
    """One line of the table."""
    rivals = RACES[name]
    u, v = torch.rand(2, SIZE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    arguments = [argument.to(dtype) for argument in rivals.draw(u, v)]
    function, fastest = getattr(special, name), rivals.fastest or rivals.torch
    ours, theirs, wrong, floor = times(
        [
            lambda: function(*arguments),
            lambda: rivals.torch(*arguments),
            lambda: fastest(*arguments),
            lambda: torch.add(*arguments) if len(arguments) == 2 else torch.neg(*arguments),
        ],
        threads,
    )
    kind = str(dtype).removeprefix("torch.")
    beside = f"{wrong / ours:.1f}" if rivals.fastest else ""
    return (
        f"| `{name}` | {kind} | {ours / 1e3:.2f} ms | {theirs / ours:.1f} | {beside} | {theirs / floor:.1f} "
        f"| {ours / floor:.1f} |"
    )


def main() -> None:
    """Print the table of every function, or of those named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.special_floor", description=__doc__)
    parser.add_argument("--threads", metavar="N", type=int, default=1, help="torch threads (default: 1)")
    parser.add_argument("names", nargs="*", help="functions (default: all)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| function | dtype | kullback | torch ÷ kullback | wrong but fastest | torch ÷ moving | kullback ÷ moving |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in options.names or RACES:
        for dtype in (torch.float32, torch.float64):
            print(race(name, dtype, options.threads), flush=True)


if __name__ == "__main__":
    main()
