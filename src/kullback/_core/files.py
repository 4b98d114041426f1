"""`write_whole`: files that are never half written; called by the command line, plots and saved comparisons."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path` and rename it: a killed process leaves the old file or the new one.

    A pipe or a device is written as it is.
    """
    path = path.resolve()  # a link stays a link
    if path.exists() and not path.is_file():
        write(path)
        return
    beside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(beside)
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
