"""Speed of `compare` on two memory-mapped files beside the KL kernel in memory, in one run.

    python -m benchmarks.compare [--rows 1024] [--classes 131072] [--repeats 5] [--threads 1]

Both read the same numbers; the figure is processor time, which other programs on the machine change little, and the
least of the repeats. The files are in a temporary folder, and in the page cache when they are read.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

from kullback import Logits, compare, kl


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=131_072)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        measure(dtype, given)
    print(
        f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB, with the rows themselves"
    )


def measure(dtype: torch.dtype, given: argparse.Namespace) -> None:
    """Print the rows of one dtype."""
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(given.rows, given.classes, generator=generator)
    other = (base + 0.1 * torch.randn(given.rows, given.classes, generator=generator)).to(dtype)
    base = base.to(dtype)
    size = 2 * base.numel() * dtype.itemsize / 1e9
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "a.safetensors", Path(folder) / "b.safetensors"]
        for path, tensor in zip(paths, (base, other), strict=True):
            save_file({"logits": tensor}, path)
        runs: dict[str, Callable[[], object]] = {
            "kl in memory": lambda: kl(Logits(base), Logits(other)),
            "compare, only kl": lambda: compare(paths[0], paths[1], kind="logits", measures=["kl"]),
            "compare, all measures": lambda: compare(paths[0], paths[1], kind="logits"),
        }
        taken = {name: float("inf") for name in runs}
        for _ in range(given.repeats):
            for name, run in runs.items():
                start = time.process_time()
                run()
                taken[name] = min(taken[name], time.process_time() - start)
    kernel = taken["kl in memory"]
    for name, seconds in taken.items():
        print(f"{dtype}  {name:22s} {size / seconds:6.2f} GB/s  {kernel / seconds:.0%} of the kernel")


if __name__ == "__main__":
    main()
