"""Apply the rewrites that do not change the meaning, or show them as a diff; used by `run.py` and the command line."""

from __future__ import annotations

import ast
import difflib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kullback.lint.finding import Edit, Finding
from kullback.lint.run import Report


def rewrite(report: Report, *, write: bool) -> str:
    """Rewrite every file of a report that has edits, and return what changed as a diff.

    Files that are not UTF-8, or whose line ends are not plain newlines, are left as they are; notebooks have no edits.
    """
    shown = []
    for path, text in report.texts.items():
        findings = [f for f in report.findings if f.path == path and f.edits]
        if not findings or (path != "<stdin>" and Path(path).read_bytes() != text.encode()):
            continue
        try:
            after = fixed_text(text, findings)
        except SyntaxError:
            continue
        if write and path != "<stdin>":
            _replace(Path(path), after)
        shown.append(difference(path, text, after))
    return "".join(shown)


def _replace(path: Path, text: str) -> None:
    """Write beside the file and rename, so that a stop in between loses nothing."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", dir=path.parent, delete=False) as file:
        file.write(text)
    Path(file.name).chmod(path.stat().st_mode)
    Path(file.name).replace(path)


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
