"""Peak resident memory of one contender, measured in a process of its own.

`python -m benchmarks.memory CASE SIZE CONTENDER` prints one JSON object: the bytes by which the resident set grew, at
its peak, while the contender ran once. Inputs and one-off costs (imports, compilation, thread pools) are paid before.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.registry import discover

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")

# glibc otherwise keeps freed blocks of up to 32 MB resident, and a second run would look as if it needed none.
RETURN_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def in_subprocess(case: str, size: str, contender: str, *, threads: int) -> int | str:
    """Bytes at the peak beyond the inputs, or the reason why there is no number."""
    environment = {**os.environ, **RETURN_FREED_MEMORY, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "benchmarks.memory", case, size, contender]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
    peak: int = json.loads(done.stdout.splitlines()[-1])["peak_bytes"]
    return peak


def peak_growth(run: Any, state: Any) -> int:
    """Growth of the resident set's high-water mark over one call, after one call that pays the one-off costs."""
    run(state)
    if sys.platform != "linux":
        raise OSError("peak memory is read from /proc, which only Linux has")
    ctypes.CDLL(None).malloc_trim(0)
    CLEAR_REFS.write_text("5")  # 5 resets the high-water mark (man 5 proc)
    before = _kilobytes("VmRSS")
    run(state)
    return max(0, _kilobytes("VmHWM") - before) * 1024


def _kilobytes(key: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1])


def main(case: str, size: str, contender: str) -> None:
    found = discover()[case]
    state = found.setup(found.sizes[size])
    print(json.dumps({"peak_bytes": peak_growth(found.contenders[contender].run, state)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
