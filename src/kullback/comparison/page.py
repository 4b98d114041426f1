"""A `Comparison` as a page: table of measures, quantiles, paired differences, findings, worst rows, figures."""

from __future__ import annotations

import math

from kullback.comparison.result import Comparison, OtherResult
from kullback.comparison.teacher_rows import ALL_OTHERS
from kullback.diagnose.labels import Names
from kullback.report.page import Cell, Figure, Page, Part, Section, Series, Table

_TITLES = {
    "kl": "KL(base ‖ other)",
    "reverse_kl": "KL(other ‖ base)",
    "js": "Jensen-Shannon",
    "total_variation": "total variation",
    "top1": "same top class",
    "topk_overlap": "top-{k} overlap",
    "nll_base": "−log p(label), base",
    "nll_other": "−log p(label), other",
    "nll_difference": "their difference",
}
_MAX_TERMS = 3


def build_page(c: Comparison) -> Page:
    """The page."""
    several = len(c.others) > 1
    sections: list[Section] = []
    if several:
        sections.append(Section("", [_overview(c), *_paired(c)]))
    for other in c.others:
        title = other.name if several else ""
        sections.append(Section(title, [*_figures(other), *_tables(other), *other.findings]))
        sections.append(Section(f"Worst rows of {other.name}" if several else "Worst rows", _worst(c, other)))
    lead = [f"base: {c.base}", *(f"other: {other.name}" for other in c.others), *c.notes]
    if not c.complete:
        lead.append("Interrupted: the figures are of the rows that were seen.")
    return Page(_title(c), [section for section in sections if section.parts], lead)


def _title(c: Comparison) -> str:
    first = c.others[0]
    if not first.rows:
        return "Comparison of no rows"
    kl = first.measures["kl"]
    best = min(c.others, key=lambda other: other.measures["kl"].mean)
    if len(c.others) > 1:
        return f"Nearest of {len(c.others)}: {best.name}, mean KL {best.measures['kl'].mean:.6g} nats"
    error = kl.block_stderr if math.isfinite(kl.block_stderr) else kl.stderr
    shown = f" ± {error:.2g}" if math.isfinite(error) else ""
    return (
        f"Mean KL(base ‖ other) = {kl.mean:.6g}{shown} nats over {first.rows:,} {'row' if first.rows == 1 else 'rows'}"
    )


def _overview(c: Comparison) -> Table:
    rows: list[list[Cell]] = []
    for other in c.others:
        kl, top = other.measures["kl"], other.measures.get("top1")
        cells: list[Cell] = [other.name, kl.mean, kl.block_stderr, kl.quantiles[0.99], kl.high]
        rows.append([*cells, _percent(top.mean) if top else None, other.perplexity_ratio])
    columns = ["other", "mean KL", "± (blocks)", "99 %", "largest", "same top class", "perplexity ratio"]
    return Table(columns, rows)


def _paired(c: Comparison) -> list[Part]:
    if not c.paired:
        return []
    rows: list[list[Cell]] = [
        [f"{pair.second} − {pair.first}", d.mean, d.stderr, d.block_stderr, d.block_low, d.block_high]
        for pair in c.paired
        for d in (pair.difference,)
    ]
    columns = ["difference of KL", "mean", "± (rows)", "± (blocks)", "low", "high"]
    return [Table(columns, rows, "Paired differences", "row by row; low and high: 95 % by bootstrap of blocks")]


def _tables(other: OtherResult) -> list[Part]:
    rows: list[list[Cell]] = []
    quantiles: list[list[Cell]] = []
    for name, measure in other.measures.items():
        title = _TITLES[name].format(k=other.top_k)
        if name in ("top1", "topk_overlap"):
            cells = [measure.mean, measure.stderr, measure.block_stderr]
            rows.append([f"{title}, %", *(100 * value for value in cells), None])
            continue
        rows.append([title, measure.mean, measure.stderr, measure.block_stderr, measure.infinite or None])
        if not name.startswith("nll_b") and not name.startswith("nll_o"):
            quantiles.append([title, *measure.quantiles.values(), measure.high])
    kl = other.measures["kl"]
    note = f"in nats; ± (rows) as if rows were independent, ± (blocks) by bootstrap of {kl.blocks} blocks of rows"
    parts: list[Part] = [
        Table(["over rows", "mean", "± (rows)", "± (blocks)", "infinite"], rows, note=note),
        Table(["", "median", "90 %", "95 %", "99 %", "99.9 %", "largest"], quantiles),
    ]
    more = []
    if other.perplexity_ratio is not None:
        difference = other.measures["nll_difference"]
        error = difference.block_stderr if math.isfinite(difference.block_stderr) else difference.stderr
        more.append(
            f"Perplexity {math.exp(min(other.measures['nll_base'].mean, 700)):.6g} (base), "
            f"{math.exp(min(other.measures['nll_other'].mean, 700)):.6g} (other); "
            f"ratio {other.perplexity_ratio:.6g} ± {other.perplexity_ratio * error:.2g}."
        )
    if other.temperature is not None:
        spread = "" if other.temperature_stderr is None else f" ± {other.temperature_stderr:.1g}"
        more.append(f"Best-fit temperature of the other: {other.temperature:.5g}{spread}, from a sample of rows.")
    return [*parts, *more]


def _figures(other: OtherResult) -> list[Figure]:
    found = []
    if len(other.histogram) > 1:
        x, y = [value for value, _ in other.histogram], [float(number) for _, number in other.histogram]
        marks = [(other.measures["kl"].quantiles[share], f"{100 * share:g} %") for share in (0.5, 0.99)]
        marks = [(value, words) for value, words in marks if 0 < value < math.inf]
        series = [Series("rows", x, y, "area", 2)]
        found.append(Figure("Distribution of KL(base ‖ other)", series, "nats", "rows", log_x=True, marks=marks))
    if len(other.positions) > 1:
        x, y = [place for place, _, _ in other.positions], [value for _, value, _ in other.positions]
        found.append(Figure("KL by position in the context", [Series("mean KL", x, y, "line", 2)], "position", "nats"))
    if any(len(curve) > 1 for curve in other.calibration.values()):
        series = [
            Series(side, [p for p, _, _ in curve], [v for _, v, _ in curve], "line", number, dashed=number == 1)
            for number, (side, curve) in enumerate(other.calibration.items())
        ]
        series.append(Series("ideal", [0.0, 1.0], [0.0, 1.0], "line", 4, dashed=True))
        found.append(Figure("Calibration", series, "confidence", "accuracy"))
    return found


def _worst(c: Comparison, other: OtherResult) -> list[Part]:
    if not other.worst:
        return []
    names = Names(c.labels, 0)
    rows: list[list[Cell]] = []
    for worst in other.worst:
        terms = worst.terms[:_MAX_TERMS]
        most = "; ".join(f"{_name(names, t.class_index)}: {_short(t.p)} → {_short(t.q)}" for t in terms)
        rows.append([worst.row, worst.kl, most])
    return [Table(["row", "KL(base ‖ other)", "classes that add most: p of base → of other"], rows)]


def _name(names: Names, class_index: int) -> str:
    return "all others" if class_index == ALL_OTHERS else names.of([class_index])[0]


def _short(value: float) -> str:
    return f"{value:.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3f} %"


def names_checked(labels: object, classes: int) -> object:
    """Names of classes, refused if there are too few."""
    known: object = Names(labels, classes).labels
    return known
