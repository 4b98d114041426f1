"""Find and read the files to check: folders, single files, notebooks, standard input; used by `run.py`."""

from __future__ import annotations

import io
import json
import os
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_MAX_BYTES = 2_000_000
_SKIPPED_FOLDERS = {
    "__pycache__", "build", "dist", "node_modules", "site-packages", "venv", "env", ".eggs",
}  # fmt: skip


class UnreadableError(Exception):
    """A file that cannot be checked, with the reason in a few words."""


@dataclass(frozen=True)
class Source:
    """The Python of one file.

    Attributes:
        path: The file as it was named; `"<stdin>"` for standard input.
        text: All of its code; the cells of a notebook one below the other.
        cell_starts: For a notebook, the line of `text` on which each code cell begins, and its number.
    """

    path: str
    text: str
    cell_starts: tuple[tuple[int, int], ...] = field(default=())

    def cell_of(self, line: int) -> tuple[int, int]:
        """The cell that holds a line and the line within it; (0, line) in a plain file."""
        found = (0, line)
        for start, number in self.cell_starts:
            if start <= line:
                found = (number, line - start + 1)
        return found


def find_files(paths: Sequence[str], exclude: Sequence[str] = ()) -> Iterator[str]:
    """The Python files and notebooks below the given paths; links to folders are not followed."""
    for path in paths:
        if not Path(path).is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS and not f.startswith("."))
            for name in sorted(names):
                found = str(Path(folder, name))
                if name.endswith((".py", ".pyi", ".ipynb")) and not any(Path(found).match(e) for e in exclude):
                    yield found


def read(path: str) -> Source:
    """The source of one file; raises `UnreadableError` with a reason."""
    if path == "-":
        return _decode("<stdin>", sys.stdin.buffer.read(_MAX_BYTES + 1))
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableError(error.strerror or "cannot be read") from error
    return _notebook(path, data) if path.endswith(".ipynb") else _decode(path, data)


def _decode(path: str, data: bytes) -> Source:
    if len(data) > _MAX_BYTES:
        raise UnreadableError(f"is larger than {_MAX_BYTES:,} bytes")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UnreadableError(f"has an unknown or wrong encoding ({error})") from error
    return Source(path, text.replace("\r\n", "\n").replace("\r", "\n"))


def _notebook(path: str, data: bytes) -> Source:
    text = _decode(path, data).text
    try:
        cells = json.loads(text)["cells"]
        codes = [
            "".join(cell["source"]) if isinstance(cell["source"], list) else str(cell["source"])
            for cell in cells
            if cell["cell_type"] == "code"
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableError(f"is not a notebook ({type(error).__name__})") from error
    lines: list[str] = []
    starts: list[tuple[int, int]] = []
    for number, code in enumerate(codes, start=1):
        starts.append((len(lines) + 1, number))
        lines += [_without_magic(line) for line in code.split("\n")] if not code.startswith("%%") else ["pass"]
    return Source(path, "\n".join(lines) + "\n", tuple(starts))


def _without_magic(line: str) -> str:
    """`%matplotlib inline` and `!pip install` are commands of the notebook, not Python."""
    stripped = line.lstrip()
    return line[: len(line) - len(stripped)] + "pass" if stripped[:1] in {"%", "!"} else line
