"""Apply the rewrites that do not change the meaning, or show them as a diff; used by `run.py` and the command line."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence

from kullback.lint.finding import Edit, Finding


def fixed_text(text: str, findings: Sequence[Finding]) -> str:
    """The source with all edits applied; edits inside another edit wait for the next run.

    The result is returned only if it still parses.
    """
    lines = [line.encode() for line in text.split("\n")]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def span(edit: Edit) -> tuple[int, int]:
        return starts[edit.line - 1] + edit.column, starts[edit.end_line - 1] + edit.end_column

    data = text.encode()
    before = len(data) + 1
    for edit in sorted((e for f in findings for e in f.edits), key=span, reverse=True):
        start, end = span(edit)
        if end <= before:
            data, before = data[:start] + edit.text.encode() + data[end:], start
    result = data.decode()
    ast.parse(result)
    return result


def difference(path: str, before: str, after: str) -> str:
    """A unified diff."""
    return "".join(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), path, path))
