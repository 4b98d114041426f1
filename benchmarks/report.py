"""A run as data, as JSON and as Markdown."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field

from benchmarks.registry import SUBJECT
from benchmarks.timing import Spread

SCHEMA = 1


@dataclass
class Row:
    """One contender at one size of one case.

    Attributes:
        status: "ok", "wrong" (timed all the same), "failed" (raised) or "missing" (cannot run here).
        note: Why the status is not "ok".
        seconds: Spread of the time per call; None if not timed.
        ratio: Spread of this contender's time over kullback's, round by round; None where kullback was not right.
        error: Largest relative error against the truth; None if there is no result.
        peak_bytes: Peak memory beyond the inputs, or the reason why it is unknown; None if not asked for.
    """

    case: str
    group: str
    size: str
    contender: str
    status: str
    note: str = ""
    seconds: Spread | None = None
    ratio: Spread | None = None
    error: float | None = None
    peak_bytes: int | str | None = None


@dataclass
class Report:
    """All rows of a run and what they were measured on."""

    environment: dict[str, object]
    summaries: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @property
    def refused(self) -> list[Row]:
        """The rows in which kullback itself is wrong or fails: such a run reports no speed-up and fails."""
        return [row for row in self.rows if row.contender == SUBJECT and row.status in {"wrong", "failed"}]

    def to_json(self) -> str:
        """The report as strict JSON (an infinite error is the string "inf")."""
        rows = []
        for row in self.rows:
            entry = asdict(row)
            for key in ("seconds", "ratio"):
                value: Spread | None = getattr(row, key)
                entry[key] = None if value is None else {**value._asdict(), "iqr": value.iqr}
            if row.error is not None and not math.isfinite(row.error):
                entry["error"] = str(row.error)
            rows.append(entry)
        document = {"schema": SCHEMA, "ok": not self.refused, "environment": self.environment, "rows": rows}
        return json.dumps(document, indent=2, allow_nan=False)

    def to_markdown(self) -> str:
        """The environment as a list, then one table per case."""
        lines = ["# Benchmarks", ""]
        lines += [f"- {key.replace('_', ' ')}: {value}" for key, value in self.environment.items()]
        for name in dict.fromkeys(row.case for row in self.rows):
            rows = [row for row in self.rows if row.case == name]
            lines += ["", f"## {name} ({rows[0].group})", ""]
            if self.summaries.get(name):
                lines += [self.summaries[name], ""]
            lines += _table(rows)
            if any(row in self.refused for row in rows):
                lines += ["", "**Speed-ups refused: kullback's own result is wrong here.**"]
        return "\n".join(lines) + "\n"


def _table(rows: list[Row]) -> list[str]:
    with_memory = any(row.peak_bytes is not None for row in rows)
    head = ["size", "contender", "median", "IQR", f"time ÷ {SUBJECT}", "relative error", "remark"]
    if with_memory:
        head.insert(6, "peak memory")
    cells = [head]
    for row in rows:
        cell = [
            row.size,
            row.contender,
            *_time(row.seconds),
            _ratio(row.ratio),
            _error(row.error),
            row.note or row.status,
        ]
        if with_memory:
            cell.insert(6, _memory(row.peak_bytes))
        cells.append([text.replace("|", "\\|").replace("\n", " ") for text in cell])
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    # Numbers to the right, words to the left.
    rule = [
        ("-" * (width - 1) + ":") if 2 <= column < len(head) - 1 else "-" * width for column, width in enumerate(widths)
    ]
    return [text[0], "| " + " | ".join(rule) + " |", *text[1:]]


def _time(seconds: Spread | None) -> tuple[str, str]:
    return ("", "") if seconds is None else (duration(seconds.median), duration(seconds.iqr))


def _ratio(ratio: Spread | None) -> str:
    return "" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def _error(error: float | None) -> str:
    return "" if error is None else f"{error:.1e}"


def _memory(peak: int | str | None) -> str:
    return f"{peak / 1e6:.1f} MB" if isinstance(peak, int) else peak or ""


def duration(seconds: float) -> str:
    """Three significant digits with the unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
