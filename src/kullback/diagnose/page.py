"""An `Explanation` as a page of sections: values and pictures, findings, terms, worst rows, how it was computed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import Tensor

from kullback.diagnose.explanation import Direction, Explanation
from kullback.diagnose.written import digits_of, write_number
from kullback.report.page import Cell, Page, Part, Section, Table

_ADDS = "adds to KL(p ‖ q)"
_NO_UNIT = ("total variation",)


def build_page(e: Explanation) -> Page:
    """The page."""
    lead = [f"p = {e.p}", f"q = {e.q}"]
    sections = [
        Section("", [*e.figures, *_values(e)]),
        Section("Findings", list(e.findings)),
        Section("Where KL(p ‖ q) comes from", _terms(e)),
        Section("Worst rows", _rows(e)),
        Section("How it was computed", _computed(e)),
    ]
    return Page(_title(e), [section for section in sections if section.parts], lead)


def _title(e: Explanation) -> str:
    forward = e.directions[0]
    if forward.value is None:
        return f"{forward.label}: {'no estimate' if e.samples else 'no route'}"
    if forward.interval is not None:
        return f"{forward.label} ≈ {e.scaled(float(forward.value)):.4g} ± {_error(e, forward)} {e.unit}"
    if forward.value.numel() == 1:
        shown = write_number(e.scaled(float(forward.value)), digits_of(forward.value))
        return f"{forward.label} = {shown} {e.unit}"
    if forward.value.numel() == 0:
        return f"{forward.label} of an empty batch"
    mean = e.scaled(float(forward.value.double().mean()))
    shown = write_number(mean, digits_of(forward.value))
    return f"{forward.label}: mean {shown} {e.unit} over {forward.value.numel()} rows"


def _values(e: Explanation) -> Iterator[Part]:
    if e.samples:
        yield _estimates(e)
        yield Table(["", "p", "q"], e.samples)
        return
    named: list[tuple[str, Tensor | None]] = [(d.label, d.value) for d in e.directions]
    named += list(e.measures.items())
    if all(value is None or value.numel() == 1 for _, value in named):
        digits = min((digits_of(value) for _, value in named if value is not None), default=10)
        yield Table(["", e.unit, *([] if e.base else ["bits"])], [_single(e, *item) for item in named], digits=digits)
    else:
        yield Table(
            ["over rows", "mean", "median", "largest", "infinite"],
            [_summary(e, *item) for item in named if item[1] is None or item[1].numel()],
            digits=6,
            note=f"in {e.unit}, except total variation",
        )
    identity = _identity(e)
    if identity:
        yield identity
    yield from e.notes


def _estimates(e: Explanation) -> Table:
    rows: list[list[Cell]] = []
    for d in e.directions:
        ends = [e.scaled(end) for end in d.interval or ()]
        found = (
            [None, None, None, None] if d.value is None else [e.scaled(float(d.value)), e.scaled(d.error or 0), *ends]
        )
        rows.append([d.label, *found])
    shares = {f"{d.confidence:.4g}" for d in e.directions if d.confidence}
    note = f"estimates; low and high are the ends of the interval of {', '.join(shares)}" if shares else ""
    return Table(["", e.unit, "standard error", "low", "high"], rows, note=note)


def _single(e: Explanation, name: str, value: Tensor | None) -> list[Cell]:
    if value is None:
        return [name, "no route", *([] if e.base else [""])]
    nats = float(value)
    if name in _NO_UNIT:
        return [name, nats, *([] if e.base else [None])]
    return [name, e.scaled(nats), *([] if e.base else [nats / math.log(2)])]


def _summary(e: Explanation, name: str, value: Tensor | None) -> list[Cell]:
    if value is None:
        return [name, "no route", None, None, None]
    flat = value.detach().double().flatten()
    divisor = math.log(e.base) if e.base and name not in _NO_UNIT else 1.0
    found = [float(x) / divisor for x in (flat.mean(), flat.median(), flat.max())]
    return [name, *found, int(flat.isinf().sum())]


def _identity(e: Explanation) -> str:
    """KL = cross-entropy − entropy, with the numbers."""
    cross, own = e.measures.get("cross-entropy H(p, q)"), e.measures.get("entropy H(p)")
    value = e.directions[0].value
    if cross is None or own is None or value is None or value.numel() != 1 or not math.isfinite(float(cross)):
        return ""
    numbers = [f"{e.scaled(float(x)):.6g}" for x in (value, cross, own)]
    last = f"({numbers[2]})" if float(own) < 0 else numbers[2]
    return f"KL(p ‖ q) = H(p, q) − H(p): {numbers[0]} = {numbers[1]} − {last} {e.unit}"


def _terms(e: Explanation) -> list[Part]:
    if not e.terms:
        return []
    with_mass = any(term.p is not None for term in e.terms)
    columns = ["", *(["p", "q"] if with_mass else []), _ADDS, "share"]
    rows: list[list[Cell]] = [
        [t.label, *([t.p, t.q] if with_mass else []), e.scaled(t.contribution), _percent(t.share)] for t in e.terms
    ]
    return [Table(columns, rows, e.terms_title, digits=4, bar=_ADDS)]


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if math.isfinite(share) else ""


def _rows(e: Explanation) -> list[Part]:
    if not e.rows:
        return []
    with_top = any(row.top for row in e.rows)
    columns = ["row", "KL(p ‖ q)", "KL(q ‖ p)", *(["most of it"] if with_top else [])]
    rows: list[list[Cell]] = [
        [_index(row.index), e.scaled(row.kl), e.scaled(row.reverse_kl), *([row.top] if with_top else [])]
        for row in e.rows
    ]
    return [Table(columns, rows)]


def _index(index: tuple[int, ...]) -> str:
    return ", ".join(map(str, index))


def _computed(e: Explanation) -> list[Part]:
    return [_direction(e, direction) for direction in e.directions]


def _direction(e: Explanation, d: Direction) -> str:
    expectation = f"expectation under {d.label[3]}"
    if d.value is None:
        return f"{d.label}: {'no estimate' if e.samples else 'no route'}. {' '.join(d.reasons)}"
    parts = [f"{d.label}, {expectation}: {d.method}" + (f", {d.formula}" if d.formula else "")]
    if d.interval is not None:
        parts.append(f"standard error {_error(e, d)} {e.unit}")
    elif d.error is not None and d.method != "infinite":
        bound = "at most" if d.certified else "about"
        parts.append(f"error {bound} {e.scaled(d.error):.2g} {e.unit}")
    parts += [f"infinite: {reason}" for reason in d.reasons]
    return "; ".join(parts)


def _error(e: Explanation, d: Direction) -> str:
    return f"{e.scaled(d.error or 0.0):.2g}"
