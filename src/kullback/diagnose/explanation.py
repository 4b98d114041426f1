"""`Explanation`: everything `explain` found out, as numbers and as a page; `explain.py` builds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback.report.page import Figure, Finding, Page

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot
    from rich.console import Console, ConsoleOptions, RenderResult

PQ, QP = "KL(p ‖ q)", "KL(q ‖ p)"


@dataclass(frozen=True)
class Direction:
    """KL in one direction.

    Attributes:
        label: "KL(p ‖ q)" or "KL(q ‖ p)".
        value: One value per batch element, in nats; None where nothing can compute it.
        method: How it was computed, as `kl_method` says it; empty without a value.
        formula: The formula in a few words, with p and q as they are in this direction; may be empty.
        error: How far the worst element may be off, in nats; None where it is rounding alone. Of an estimate from
            samples, its standard error.
        certified: Whether `error` is a rigorous bound.
        reasons: Why elements are infinite, or why there is no value.
        interval: The ends of a confidence interval, in nats, of an estimate from samples; else None.
        confidence: The nominal coverage of that interval.
    """

    label: str
    value: Tensor | None
    method: str = ""
    formula: str = ""
    error: float | None = None
    certified: bool = False
    reasons: Sequence[str] = ()
    interval: tuple[float, float] | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Term:
    """What one outcome, dimension or interval adds to KL.

    Attributes:
        label: Which one.
        p: The probability under p; None for dimensions.
        q: The probability under q.
        contribution: What it adds to KL(p ‖ q), in nats: p log(p/q) − p + q, never negative.
        reverse: What it adds to KL(q ‖ p).
        share: `contribution` as a fraction of KL(p ‖ q).
    """

    label: str
    p: float | None
    q: float | None
    contribution: float
    reverse: float
    share: float


@dataclass(frozen=True)
class Row:
    """One element of a batch: its index, its divergences in nats and the terms that dominate it."""

    index: tuple[int, ...]
    kl: float
    reverse_kl: float
    top: str = ""


@dataclass(frozen=True, repr=False)
class Explanation:
    """What stands behind a KL divergence; made by `explain`.

    Attributes:
        p: p in words.
        q: q in words.
        directions: KL(p ‖ q) and KL(q ‖ p); of samples they are estimates.
        measures: Other quantities by name, in nats, one value per batch element; None where none can be computed.
        terms: What the outcomes, dimensions or intervals add to KL(p ‖ q), largest first.
        terms_title: What the terms are of.
        findings: What was noticed, most severe first.
        rows: The worst elements of a batch.
        figures: What `plot` draws.
        notes: Sentences below the values.
        samples: A summary of two samples: what, of p, of q.
        base: The unit: None for nats, 2 for bits.
    """

    p: str
    q: str
    directions: Sequence[Direction] = ()
    measures: dict[str, Tensor | None] = field(default_factory=dict)
    terms: Sequence[Term] = ()
    terms_title: str = ""
    findings: Sequence[Finding] = ()
    rows: Sequence[Row] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    samples: Sequence[Sequence[str | float]] = ()
    base: float | None = None

    @property
    def page(self) -> Page:
        """All of it as a neutral page, which `kullback.report` renders."""
        from kullback.diagnose.page import build_page

        return build_page(self)

    @property
    def unit(self) -> str:
        """The unit of the numbers that are shown."""
        if self.base is None:
            return "nats"
        return "bits" if self.base == 2 else f"units of base {self.base:g}"

    def scaled(self, nats: float) -> float:
        """A number of nats in the unit that is shown."""
        return nats / math.log(self.base) if self.base else nats

    def plot(self) -> Plot:
        """A matplotlib figure: p and q, and where the divergence comes from. Needs the extra `plot`.

        Raises:
            UnavailableError: If matplotlib is not installed.
            InputValueError: If there is nothing to draw for this pair.
        """
        from kullback.report.plots import draw_figures

        if not self.figures:
            raise InputValueError(
                explain_problem(
                    "There is nothing to draw for this pair.",
                    got=f"p = {self.p}, q = {self.q}",
                    expected="a pair with a finite number of classes, a density or draws",
                    instead="print(explain(p, q))",
                )
            )
        names = [f"p = {self.p}", f"q = {self.q}"]
        short = [name if len(name) <= _MAX_TITLE else f"{name[: _MAX_TITLE - 1]}…" for name in names]
        return draw_figures(self.figures, title="\n".join([self.page.title, *short]))

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries, in nats unless `base` was given."""
        found: dict[str, Any] = {"p": self.p, "q": self.q, "unit": self.unit}
        for key, direction in zip(("kl", "reverse_kl"), self.directions, strict=False):
            found[key] = {
                "direction": direction.label.replace("‖", "||"),
                "value": self._plain(direction.value),
                "method": direction.method,
                "formula": direction.formula,
                "error": None if direction.error is None else self.scaled(direction.error),
                "certified": direction.certified,
                "reasons": list(direction.reasons),
                "interval": None if direction.interval is None else [self.scaled(end) for end in direction.interval],
            }
        found["measures"] = {
            name: self._plain(value, scale=name not in _NO_UNIT) for name, value in self.measures.items()
        }
        found["terms"] = [
            {
                "label": term.label,
                "p": term.p,
                "q": term.q,
                "contribution": self.scaled(term.contribution),
                "reverse": self.scaled(term.reverse),
                "share": term.share,
            }
            for term in self.terms
        ]
        found["rows"] = [
            {"index": list(row.index), "kl": self.scaled(row.kl), "reverse_kl": self.scaled(row.reverse_kl)}
            for row in self.rows
        ]
        found["findings"] = [finding.to_dict() for finding in self.findings]
        return found

    def _plain(self, value: Tensor | None, *, scale: bool = True) -> Any:
        if value is None:
            return None
        divisor = math.log(self.base) if self.base and scale else 1.0
        return (value.detach().double() / divisor).tolist()

    def __str__(self) -> str:
        from kullback.report.terminal import page_to_text

        return page_to_text(self.page).rstrip("\n")

    def __repr__(self) -> str:
        return f"<Explanation: {self.page.title}; {len(self.findings)} findings; print() shows all of it>"

    def _repr_html_(self) -> str:
        from kullback.report.html import page_to_fragment

        return page_to_fragment(self.page)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        from kullback.report.terminal import page_to_text

        yield Text.from_ansi(page_to_text(self.page, width=options.max_width, figures=True, color=True))


_NO_UNIT = {"total variation"}
_MAX_TITLE = 90
