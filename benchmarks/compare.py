"""Speed of `compare` on two memory-mapped float32 files beside the KL kernel in memory, in one run.

    python -m benchmarks.compare [--rows 512] [--classes 131072] [--repeats 5]

Both read the same numbers; the figure is gigabytes per second of both sides, median of repeats. The files are in a
temporary folder, and in the page cache when they are read.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from kullback import Logits, compare, kl


def seconds(run: Callable[[], object], repeats: int) -> float:
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--classes", type=int, default=131_072)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "a.npy", Path(folder) / "b.npy"]
        base = torch.randn(given.rows, given.classes, generator=generator)
        other = base + 0.1 * torch.randn(given.rows, given.classes, generator=generator)
        for path, tensor in zip(paths, (base, other), strict=True):
            np.save(path, tensor.numpy())
        size = 2 * base.numel() * 4 / 1e9
        kernel = seconds(lambda: kl(Logits(base), Logits(other)), given.repeats)
        alone = seconds(lambda: compare(paths[0], paths[1], kind="logits", measures=["kl"]), given.repeats)
        whole = seconds(lambda: compare(paths[0], paths[1], kind="logits"), max(given.repeats // 2, 1))
    print(f"kl in memory             {size / kernel:6.2f} GB/s")
    print(f'compare, measures=["kl"] {size / alone:6.2f} GB/s, {kernel / alone:.0%} of the kernel')
    print(f"compare, all measures    {size / whole:6.2f} GB/s, {kernel / whole:.0%} of the kernel")
    print(f"largest memory           {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:6.2f} GiB")


if __name__ == "__main__":
    main()
