"""Two views of tensors explained: rows, classes and what looks wrong; called by `explain`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from kullback._core.shapes import batch_shape, check_class_counts, classes_last
from kullback.api.entropy import cross_entropy, entropy
from kullback.api.js import js
from kullback.api.kl import kl
from kullback.api.total_variation import total_variation
from kullback.diagnose.explanation import PQ, QP, Direction, Explanation, Row, Term
from kullback.diagnose.labels import Names
from kullback.diagnose.reading import read_view
from kullback.diagnose.rows import blocks, contributions, log_probabilities, log_rows
from kullback.diagnose.tensor_findings import Compared, find_in_tensors
from kullback.report.page import Figure, Series
from kullback.tensors.frame import check_view
from kullback.tensors.views import View

_METHOD = "sum over classes"
_FORMULA = "Σ p φ(log q/p), φ(x) = eˣ − 1 − x"


def explain_tensors(
    p: Any, q: Any, *, labels: Any = None, mask: Tensor | None = None, base: float | None = None, top: int = 8
) -> Explanation:
    """Both directions, the classes and rows that dominate, and findings."""
    said = check_view("explain", "p", p), check_view("explain", "q", q)
    (p, found_p), (q, found_q) = read_view(said[0], "p", mask), read_view(said[1], "q", mask)
    a, b = classes_last(p.tensor, p.dim, "p"), classes_last(q.tensor, q.dim, "q")
    check_class_counts(a, b)
    batch = batch_shape(a, b)
    names = Names(labels, a.shape[-1])
    forward, backward = (kl(*pair, mask=mask, validate=False) for pair in ((p, q), (q, p)))
    kept = _kept(mask, batch)
    compared = Compared.of(p, q, kept, forward, backward)
    terms, means = _terms(p, q, batch=batch, kept=kept, names=names, top=top)
    figures = [_figure(terms)] if terms else []
    value, reverse = (rows.detach()[kept] if kept is not None else rows.detach() for rows in (forward, backward))
    measures = _measures(p, q, kept)
    findings = [*found_p, *found_q, *find_in_tensors(compared, means, names)]
    findings.sort(key=lambda finding: ("error", "warning", "info").index(finding.severity))
    rows = [] if value.numel() < 2 else _worst_rows(p, q, kept, directions=(forward, backward), names=names, top=top)
    return Explanation(
        p=repr(said[0]),
        q=repr(said[1]),
        directions=[_direction(PQ, value, _FORMULA), _direction(QP, reverse, "Σ q φ(log p/q), φ(x) = eˣ − 1 − x")],
        measures=measures,
        terms=terms,
        terms_title="" if value.numel() <= 1 else f"mean over {value.numel()} rows",
        findings=findings,
        rows=rows,
        figures=figures,
        base=base,
    )


def _kept(mask: Tensor | None, batch: torch.Size) -> Tensor | None:
    return None if mask is None else mask.detach().expand(batch)


def _direction(label: str, value: Tensor, formula: str) -> Direction:
    infinite = int(value.isinf().sum())
    first, second = label[3], label[-2]
    reasons = [f"{first} has mass where {second} has none"] if infinite else []
    if infinite and infinite < value.numel():
        reasons = [f"{reasons[0]}, in {infinite} of {value.numel()} rows"]
    return Direction(label, value, _METHOD, formula, None, False, reasons)


def _measures(p: View, q: View, kept: Tensor | None) -> dict[str, Tensor | None]:
    computed = {
        "Jensen-Shannon": js(p, q, mask=kept, validate=False),
        "total variation": total_variation(p, q, mask=kept, validate=False),
        "cross-entropy H(p, q)": cross_entropy(p, q, mask=kept, validate=False),
        "entropy H(p)": entropy(p, validate=False),
        "entropy H(q)": entropy(q, validate=False),
    }
    return {
        name: rows.detach()[kept] if kept is not None and rows.shape == kept.shape else rows.detach()
        for name, rows in computed.items()
    }


def _terms(
    p: View, q: View, *, batch: torch.Size, kept: Tensor | None, names: Names, top: int
) -> tuple[list[Term], Tensor | None]:
    """The classes that add most, by their mean over the rows; and the mean of every class."""
    sums: list[Tensor] = []
    count = 0
    for log_p, log_q in blocks(p, q, batch, kept):
        added = [log_p.exp(), log_q.exp(), contributions(log_p, log_q), contributions(log_q, log_p)]
        block = [values.sum(0) for values in added]
        sums = block if not sums else [total + more for total, more in zip(sums, block, strict=True)]
        count += log_p.shape[0]
    if not count:
        return [], None
    mean_p, mean_q, mean, reverse = (total / count for total in sums)
    total = float(mean.sum())
    order = mean.argsort(descending=True, stable=True)[:top].tolist()
    shown = [k for k in order if float(mean[k]) > 0]
    terms = [
        Term(
            label, float(mean_p[k]), float(mean_q[k]), float(mean[k]), float(reverse[k]), _share(float(mean[k]), total)
        )
        for k, label in zip(shown, names.of(shown), strict=True)
    ]
    return terms, mean


def _share(part: float, whole: float) -> float:
    if math.isinf(whole):
        return 1.0 if math.isinf(part) else 0.0
    return part / whole if whole > 0 else 0.0


def _figure(terms: list[Term]) -> Figure:
    labels = [term.label for term in terms]
    series = [
        Series("p", labels, [term.p or 0.0 for term in terms], "bars", 0),
        Series("q", labels, [term.q or 0.0 for term in terms], "bars", 1),
        Series("adds to KL(p ‖ q)", labels, [term.contribution for term in terms], "bars", 2),
    ]
    return Figure("Classes that add most to KL(p ‖ q)", series)


def _worst_rows(
    p: View, q: View, kept: Tensor | None, *, directions: tuple[Tensor, Tensor], names: Names, top: int
) -> list[Row]:
    forward, backward = (values.detach() for values in directions)
    batch = forward.shape
    order = forward.double().flatten()
    if kept is not None:
        order = torch.where(kept.flatten(), order, -1.0)
    worst = order.argsort(descending=True, stable=True)[: min(top, 5)].tolist()
    a, b = log_rows(p, batch), log_rows(q, batch)
    rows = []
    for number in worst:
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(number), batch))
        if float(order[number]) <= 0:
            continue
        added = contributions(log_probabilities(p, a[index]), log_probabilities(q, b[index]))
        classes = added.argsort(descending=True, stable=True)[:3].tolist()
        total = float(added.sum())
        top_words = ", ".join(
            f"{name} {100 * _share(float(added[k]), total):.0f} %"
            for k, name in zip(classes, names.of(classes), strict=True)
            if float(added[k]) > 0.01 * total or math.isinf(float(added[k]))
        )
        rows.append(Row(index, float(forward[index]), float(backward[index]), top_words))
    return rows
