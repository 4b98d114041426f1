"""Speed and findings of `kullback lint` on a folder of public code, beside ruff: `python -m benchmarks.lint FOLDER`.

The folder is read, never stored here: unpack packages from the index into it first.
"""

from __future__ import annotations

import argparse
import collections
import shutil
import statistics
import subprocess
import time

from kullback.lint.rules import RULES
from kullback.lint.run import lint_paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    times = []
    for _ in range(arguments.repeats):
        start = time.process_time()
        report = lint_paths([arguments.folder], RULES)
        times.append(time.process_time() - start)
    seconds = statistics.median(times)
    print(f"kullback lint: {report.files} files, {1000 * seconds / report.files:.2f} s per 1,000 files on one core")
    ruff = shutil.which("ruff")
    if ruff:
        command = [ruff, "check", "--no-cache", "--isolated", "--exit-zero", "--quiet", arguments.folder]
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False, env={"RAYON_NUM_THREADS": "1"})
        seconds = time.perf_counter() - start
        print(f"ruff check:    {1000 * seconds / report.files:.2f} s per 1,000 files (one thread, wall)")
    for code, count in sorted(collections.Counter(f.code for f in report.findings).items()):
        print(f"{code} {count}")


if __name__ == "__main__":
    main()
