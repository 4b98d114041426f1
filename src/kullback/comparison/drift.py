"""`compare_tables`: which columns of a table drifted, with thresholds that follow from the sample sizes.

For n and m rows in B bins and no drift, PSI·nm/(n+m) has the distribution χ² with B − 1 degrees of freedom (Yurdakul,
2018). So PSI = Σ(a − e) log(a / e) has the mean (B − 1)(1/n + 1/m) without any drift, KL half of it and
Jensen-Shannon an eighth; that much is subtracted. With 100 rows on each side and ten bins the 95 % threshold is 0.338:
the folklore limit of 0.25 would call pure chance a major shift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kullback._core.errors import InputValueError, explain_problem
from kullback.api.js import js
from kullback.api.kl import kl
from kullback.comparison.column_counts import ColumnCounts, count_columns
from kullback.comparison.tables import open_table
from kullback.estimators.auto import estimate_kl
from kullback.report.page import Cell, Figure, Finding, Page, Section, Series, Severity, Table
from kullback.tensors.views import Counts, Samples

_SMOOTHING = 0.5  # Jeffreys' prior: added to every bin, and normalised again
_MAX_SHOWN = 8


@dataclass(frozen=True)
class ColumnDrift:
    """What one column says.

    Attributes:
        name: The column.
        kind: "numbers" in quantile bins of the base, or "categories".
        bins: How many bins.
        rows: Values of base and other that are not missing.
        psi: Population stability index less its mean without drift, not below 0.
        kl: KL(base ‖ other) of the bins, corrected likewise, in nats.
        js: Jensen-Shannon divergence, corrected likewise.
        raw_psi: PSI before the correction.
        threshold: What raw PSI exceeds by chance in a share 1 − confidence of tables, over all columns together.
        p_value: Probability of such a raw PSI without drift, for this column alone.
        missing: Share of missing values in base and other.
        unseen: Categories that only the other has, with their counts; of numbers, those outside the base's range.
        unseen_share: Their share of the other.
        edges: Labels of the bins.
        shares: Shares of base and other in the bins.
        neighbour_kl: KL(base ‖ other) by nearest neighbours with its 95 % interval, if it was asked for.
    """

    name: str
    kind: str
    bins: int
    rows: tuple[int, int]
    psi: float
    kl: float
    js: float
    raw_psi: float
    threshold: float
    p_value: float
    missing: tuple[float, float]
    unseen: dict[str, int]
    unseen_share: float
    edges: Sequence[str]
    shares: tuple[Sequence[float], Sequence[float]]
    neighbour_kl: tuple[float, float, float] | None = None

    @property
    def drifted(self) -> bool:
        """Whether PSI is over its threshold."""
        return self.raw_psi > self.threshold

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers."""
        return {**self.__dict__, "drifted": self.drifted, "shares": [list(side) for side in self.shares]}


@dataclass(frozen=True, repr=False)
class Drift:
    """Which columns of a table drifted; made by `compare_tables`. `str()`, notebooks and `page` show it."""

    base: str
    other: str
    columns: Sequence[ColumnDrift]
    findings: Sequence[Finding]
    confidence: float

    @property
    def drifted(self) -> list[str]:
        """Names of the columns that drifted."""
        return [column.name for column in self.columns if column.drifted]

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers; "largest" has the largest figures of all columns, and how many drifted."""
        largest = {name: max((getattr(c, name) for c in self.columns), default=0.0) for name in ("psi", "kl", "js")}
        return {
            "base": self.base,
            "other": self.other,
            "confidence": self.confidence,
            "columns": [column.to_dict() for column in self.columns],
            "largest": {**largest, "drifted": len(self.drifted)},
            "findings": [finding.to_dict() for finding in self.findings],
        }

    @property
    def page(self) -> Page:
        """All of it as a neutral page, which `kullback.report` renders."""
        ordered = sorted(self.columns, key=lambda column: column.raw_psi / column.threshold, reverse=True)
        rows: list[list[Cell]] = [
            [c.name, "drifted" if c.drifted else "", c.raw_psi, c.threshold, c.psi, c.kl, c.js, c.p_value, c.bins]
            for c in ordered
        ]
        heads = ["column", "", "PSI", "threshold", "PSI corrected", "KL", "JS", "p-value", "bins"]
        if any(c.neighbour_kl for c in ordered):
            heads.append("KL by neighbours")
            for row, c in zip(rows, ordered, strict=True):
                row.append("{:.4g} ({:.3g} to {:.3g})".format(*c.neighbour_kl) if c.neighbour_kl else None)
        note = (
            f"thresholds at {100 * self.confidence:g} % for all columns together, from the numbers of rows; "
            "KL and JS in nats, less their mean without drift"
        )
        figures = [
            Figure(
                c.name,
                [Series("base", c.edges, c.shares[0], "bars", 0), Series("other", c.edges, c.shares[1], "bars", 1)],
                y_label="share",
            )
            for c in ordered[:4]
            if len(c.edges) <= 30
        ]
        title = f"{len(self.drifted)} of {len(self.columns)} columns drifted"
        lead = [f"base: {self.base}", f"other: {self.other}"]
        sections = [
            Section("", [Table(heads, rows, note=note, digits=4)]),
            Section("Findings", list(self.findings)),
            Section("Shares", figures),
        ]
        return Page(title, [section for section in sections if section.parts], lead)

    def __str__(self) -> str:
        from kullback.report.terminal import page_to_text

        return page_to_text(self.page).rstrip("\n")

    def __repr__(self) -> str:
        return f"<Drift: {self.page.title}; print() shows all of it>"

    def _repr_html_(self) -> str:
        from kullback.report.html import page_to_fragment

        return page_to_fragment(self.page)


def compare_tables(
    base: Any,
    other: Any,
    *,
    columns: Sequence[str] | None = None,
    bins: int = 10,
    confidence: float = 0.95,
    limit: int | None = None,
    neighbours: bool = False,
) -> Drift:
    """Compare two tables column by column: PSI, KL and Jensen-Shannon with thresholds from the sample sizes.

    Numbers fall into bins that hold equal shares of the base; numbers with few different values, and text, are
    categories. Categories that the base lacks are reported apart and take no part in the figures.

    Args:
        base: A .csv, .tsv or .parquet file (extra `tables`), an array file, a mapping of columns, a DataFrame or
            `Samples`.
        other: The same.
        columns: Only these.
        bins: Quantile bins of numbers.
        confidence: Of the thresholds, for all columns together (Bonferroni).
        limit: Read only so many rows.
        neighbours: Estimate KL of numbers by nearest neighbours, too: it sees changes inside a bin, and takes no bins.

    Files are read in chunks, twice: memory does not grow with their rows. Edges of bins come from up to 65,536 values
    of the base that are spread over the file; counts are of all rows.

    Example:
        >>> import torch
        >>> from kullback import Samples
        >>> from kullback.comparison.drift import compare_tables
        >>> x = torch.linspace(-3, 3, 1000)
        >>> compare_tables(Samples(x), Samples(x + 0.5)).drifted
        ['column 0']
    """
    if bins < 2 or not 0 < confidence < 1:
        raise InputValueError(
            explain_problem(
                "There are at least 2 bins, and the confidence is between 0 and 1.", got=f"{bins}, {confidence}"
            )
        )
    tables = [open_table(given, limit) for given in (base, other)]
    first, second = (list(table.names) for table in tables)
    shared = [name for name in first if name in second]
    wanted = shared if columns is None else list(columns)
    absent = [name for name in wanted if name not in shared]
    if absent or not wanted:
        raise InputValueError(
            explain_problem(
                "The column is not in both tables." if absent else "The tables have no column in common.",
                got=absent[0] if absent else ", ".join([*first][:_MAX_SHOWN]),
                expected=", ".join((shared or [*second])[:_MAX_SHOWN]),
            )
        )
    findings = list(_column_findings(first, second)) if columns is None else []
    level = 1 - (1 - confidence) / len(wanted)
    counted = count_columns(tables[0], tables[1], wanted, bins)
    found = []
    for name in wanted:
        one = _column(name, counted[name], level, neighbours)
        if one is None:
            findings.append(Finding("no-values", "error", f"Column {name} holds no values in base or other."))
            continue
        found.append(one)
        findings.extend(_findings_of(one))
    order = ("error", "warning", "info")
    findings.sort(key=lambda finding: order.index(finding.severity))
    named = [
        str(given) if isinstance(given, str | Path) else role for given, role in ((base, "base"), (other, "other"))
    ]
    return Drift(named[0], named[1], found, findings, confidence)


def chi2_quantile(share: float, degrees: int) -> float:
    """The quantile of the χ² distribution.

    Example:
        >>> round(chi2_quantile(0.95, 9), 3)
        16.919
    """
    half = torch.tensor(degrees / 2, dtype=torch.float64)
    low, high = 0.0, degrees + 40.0 * math.sqrt(degrees) + 200.0
    for _ in range(200):
        middle = (low + high) / 2
        above = float(torch.special.gammaincc(half, torch.tensor(middle / 2, dtype=torch.float64))) < 1 - share
        low, high = (low, middle) if above else (middle, high)
    return (low + high) / 2


def _column(name: str, counted: ColumnCounts, level: float, neighbours: bool) -> ColumnDrift | None:
    n, rows = counted.rows
    if not n or not rows:
        return None
    size, outside = len(counted.labels), sum(counted.unseen.values())
    m = max(rows - outside if counted.kind == "categories" else rows, 1)
    p, q = (Counts(torch.as_tensor(side), smoothing=_SMOOTHING) for side in counted.counts)
    forward, backward, shannon = float(kl(p, q)), float(kl(q, p)), float(js(p, q))
    spread, degrees = 1 / n + 1 / m, size - 1
    raw = forward + backward
    chance = (
        float(torch.special.gammaincc(torch.tensor(degrees / 2.0).double(), torch.tensor(raw / spread / 2).double()))
        if degrees
        else 1.0
    )
    near = None
    if neighbours and counted.kind == "numbers":
        estimate = estimate_kl(*(Samples(torch.as_tensor(side)) for side in counted.samples))
        near = (estimate.value, estimate.low, estimate.high)
    shares = [(side / max(side.sum(), 1)).tolist() for side in counted.counts]
    return ColumnDrift(
        name=name,
        kind=counted.kind,
        bins=size,
        rows=counted.rows,
        psi=max(raw - degrees * spread, 0.0),
        kl=max(forward - degrees * spread / 2, 0.0),
        js=max(shannon - degrees * spread / 8, 0.0),
        raw_psi=raw,
        threshold=chi2_quantile(level, degrees) * spread if degrees else math.inf,
        p_value=chance,
        missing=counted.missing,
        unseen=dict(sorted(counted.unseen.items(), key=lambda item: -item[1])[:_MAX_SHOWN]),
        unseen_share=outside / rows,
        edges=counted.labels,
        shares=(shares[0], shares[1]),
        neighbour_kl=near,
    )


def _column_findings(first: Sequence[str], second: Sequence[str]) -> list[Finding]:
    found = []
    for words, names in (
        ("only the base has", [n for n in first if n not in second]),
        ("only the other has", [n for n in second if n not in first]),
    ):
        if names:
            shown = ", ".join(names[:_MAX_SHOWN])
            found.append(Finding("columns-differ", "warning", f"There are columns that {words}: {shown}."))
    return found


def _findings_of(c: ColumnDrift) -> list[Finding]:
    found = []
    if c.drifted:
        message = f"Column {c.name} drifted: PSI {c.raw_psi:.4g} is over {c.threshold:.4g} (p = {c.p_value:.2g})."
        found.append(Finding("drift", "warning", message, evidence={"psi": c.raw_psi, "threshold": c.threshold}))
    if c.unseen:
        which = ", ".join(f"{name} ({number})" for name, number in c.unseen.items())
        what = "categories that the base lacks" if c.kind == "categories" else "numbers outside the range of the base"
        severity: Severity = "warning" if c.kind == "categories" else "info"
        message = f"Column {c.name} of the other has {what}: {which}; {100 * c.unseen_share:.3g} % of its rows."
        found.append(Finding("unseen", severity, message, evidence={"share": c.unseen_share}))
    if abs(c.missing[0] - c.missing[1]) > 0.02:
        message = (
            f"Column {c.name} is missing in {100 * c.missing[0]:.3g} % of base and {100 * c.missing[1]:.3g} % of other."
        )
        found.append(Finding("missing", "warning", message, evidence={"base": c.missing[0], "other": c.missing[1]}))
    if min(c.rows) < 5 * c.bins:
        message = f"Column {c.name} has {min(c.rows)} values for {c.bins} bins: the threshold is rough below 5 per bin."
        found.append(Finding("few-rows", "info", message))
    return found
