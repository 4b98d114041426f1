"""What a report holds, before anything is drawn: pages of sections with text, tables, figures and findings.

`explain` and the commands build these records; `terminal.py`, `html.py`, `plots.py` and `machine.py` render them. The
records hold numbers and plain text only: no markup, no colour names, no layout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Cell = str | float | int | bool | None
Kind = Literal["line", "area", "bars", "points"]
Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Table:
    """Rows under named columns.

    Attributes:
        columns: One heading per column.
        rows: Numbers or text; None is an empty cell.
        title: A line above the table.
        note: A line below it.
        digits: Significant digits of numbers.
        bar: The column whose numbers are also drawn as a bar, by its heading; empty for none.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    note: str = ""
    digits: int = 6
    bar: str = ""

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"a row has {len(wrong[0])} cells under {len(self.columns)} columns: {wrong[0]!r}")
        if self.bar and self.bar not in self.columns:
            raise ValueError(f"no column {self.bar!r} among {list(self.columns)}")


@dataclass(frozen=True)
class Series:
    """One curve, area, cloud of points or group of bars of a figure.

    Attributes:
        name: Its name in the legend.
        x: Numbers; or labels, for bars.
        y: As many numbers. A value that is not finite is a gap.
        kind: "line", "area" (filled down to 0), "points" or "bars".
        color: Place in the palette. 0 and 1 are for p and q by convention; a number has one colour in every renderer.
        dashed: Whether a line is broken, so that two lines differ without colour, too.
    """

    name: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float]
    kind: Kind = "line"
    color: int = 0
    dashed: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.name!r} has {len(self.x)} x and {len(self.y)} y")

    def numbers(self) -> list[float]:
        """x, where it is numbers."""
        return [float(value) for value in self.x]


@dataclass(frozen=True)
class Figure:
    """One pair of axes. All series have numbers as x, or all are bars over the same labels.

    Attributes:
        title: What is seen, in a few words.
        series: What is drawn, first at the back.
        x_label: What x is.
        y_label: What y is.
        log_x: Whether x has a logarithmic scale; x must be positive.
        log_y: Whether y has a logarithmic scale; values that are not positive are gaps.
        marks: Vertical lines: x and a few words.
    """

    title: str
    series: Sequence[Series]
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    marks: Sequence[tuple[float, str]] = ()

    @property
    def has_labels(self) -> bool:
        """Whether x are labels: the figure is then drawn as horizontal bars."""
        return any(len(series.x) > 0 and isinstance(series.x[0], str) for series in self.series)


@dataclass(frozen=True)
class Finding:
    """Something noticed about the input or the result.

    Attributes:
        code: What was noticed, for machines: lower case with hyphens, such as "looks-like-logits". Codes are stable.
        severity: "error" if the result is not what was asked for, "warning" if it may not be, else "info".
        message: One sentence.
        remedy: What to do or write; empty if nothing needs to be done.
        evidence: The numbers behind it, by name.
    """

    code: str
    severity: Severity
    message: str
    remedy: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary, for machines."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": dict(self.evidence),
        }


Part = str | Table | Figure | Finding


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; a string is a paragraph."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Page:
    """A whole report.

    Attributes:
        title: What the report is about.
        sections: Its sections, most important first.
        lead: Paragraphs before the first section.
    """

    title: str
    sections: Sequence[Section]
    lead: Sequence[str] = ()

    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Figure)]


def format_cell(cell: Cell, digits: int = 6) -> str:
    """A cell as text.

    Example:
        >>> format_cell(0.25), format_cell(1234567.0), format_cell(None), format_cell(True), format_cell(1e-12)
        ('0.25', '1.23457e+06', '', 'yes', '1e-12')
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.{digits}g}" if isinstance(cell, float) else str(cell)


def printable(text: str) -> str:
    r"""Text without control characters: a label from a file must not move the cursor of a terminal.

    Example:
        >>> printable("a\x1b[31mb\n")
        'a\\x1b[31mb\n'
    """
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


def bar_lengths(table: Table) -> list[float]:
    """For each row the length of its bar, between 0 and 1; empty if the table has no bars."""
    if not table.bar:
        return []
    at = list(table.columns).index(table.bar)
    values = [abs(float(cell)) if isinstance(cell, float | int) else 0.0 for cell in (row[at] for row in table.rows)]
    top = max((value for value in values if math.isfinite(value)), default=0.0)
    return [1.0 if value == math.inf else value / top if top > 0 and math.isfinite(value) else 0.0 for value in values]


def numeric_columns(table: Table) -> list[bool]:
    """For each column whether it holds numbers alone, which are aligned at the right."""
    return [
        all(isinstance(row[at], float | int) or row[at] is None for row in table.rows)
        for at in range(len(table.columns))
    ]
