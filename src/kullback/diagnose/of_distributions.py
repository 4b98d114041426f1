"""Two distributions of torch explained: both directions with their errors, pictures and terms; called by `explain`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, OneHotCategorical

from kullback._core.errors import NoRouteError
from kullback.api.entropy import cross_entropy, entropy
from kullback.api.js import js
from kullback.api.total_variation import total_variation
from kullback.diagnose.curves import Curves, draw_curves
from kullback.diagnose.dimensions import terms_by_dimension
from kullback.diagnose.drawn_measures import notes_from_draws
from kullback.diagnose.explanation import PQ, QP, Direction, Explanation, Row, Term
from kullback.diagnose.formula import formula_of
from kullback.diagnose.infinity import reasons
from kullback.diagnose.of_tensors import explain_tensors
from kullback.diagnose.tensor_findings import one_sided
from kullback.diagnose.vectors import draw_vectors
from kullback.diagnose.written import given_first, write_distribution
from kullback.pairs import kl_with_error
from kullback.report.page import Figure, Finding
from kullback.tensors.views import Counts, Logits, View

# So large a part of KL that the grid does not show is listed; less is an error of the grid itself.
_MISSED = 0.005


def explain_distributions(
    p: Distribution, q: Distribution, *, labels: Any = None, base: float | None = None, top: int = 8
) -> Explanation:
    """Both directions, how each was computed, where it comes from, and findings."""
    forward, backward = _direction(PQ, p, q), _direction(QP, q, p)
    index = _worst(forward.value)
    terms, title, figures = _terms(p, q, index=index, forward=forward, backward=backward, labels=labels, top=top)
    findings = list(_findings(forward, backward))
    findings.sort(key=lambda finding: ("error", "warning", "info").index(finding.severity))
    measures = _measures(p, q)
    missing = [name for name in ("Jensen-Shannon", "total variation") if measures[name] is None]
    found = Explanation(
        p=write_distribution(p),
        q=write_distribution(q),
        directions=[forward, backward],
        measures=measures,
        terms=terms,
        terms_title=title,
        findings=findings,
        rows=_rows(forward.value, backward.value, top),
        figures=figures,
        base=base,
    )
    notes = notes_from_draws(p, q, missing, base, found.unit) if forward.value is not None else []
    return dataclasses.replace(found, notes=notes)


def _direction(label: str, p: Distribution, q: Distribution) -> Direction:
    """KL of the first to the second, which are called by the letters in the label."""
    a, b = label[3], label[-2]
    try:
        result = kl_with_error(p, q)
    except NoRouteError as error:
        return Direction(label, None, reasons=[str(error).partition("\n")[0]])
    value = result.value.detach()
    infinite = value.isinf()
    why = reasons(p, q, infinite, names=(a, b))
    everywhere = bool(infinite.all()) and infinite.numel() > 0
    worst = max(result.error.detach().double().flatten().nan_to_num(0.0).tolist(), default=0.0)
    method = "infinite" if everywhere else result.method
    formula = "" if everywhere else formula_of(p, q, swapped=a == "q")
    return Direction(label, value, method, formula, worst, result.certified, why)


def _measures(p: Distribution, q: Distribution) -> dict[str, Tensor | None]:
    return {
        "Jensen-Shannon": _computed(js, p, q),
        "total variation": _computed(total_variation, p, q),
        "cross-entropy H(p, q)": _computed(cross_entropy, p, q),
        "entropy H(p)": _computed(entropy, p),
        "entropy H(q)": _computed(entropy, q),
    }


def _computed(function: Callable[..., Tensor], *given: Distribution) -> Tensor | None:
    try:
        return function(*given).detach()
    except (NotImplementedError, ValueError):  # no route for this pair, or none for these parameters
        return None


def _worst(value: Tensor | None) -> tuple[int, ...]:
    """The index of the element with the largest divergence; () without a batch."""
    if value is None or value.dim() == 0 or value.numel() == 0:
        return ()
    return tuple(int(i) for i in torch.unravel_index(value.flatten().argmax(), value.shape))


def _terms(
    p: Distribution,
    q: Distribution,
    *,
    index: tuple[int, ...],
    forward: Direction,
    backward: Direction,
    labels: Any,
    top: int,
) -> tuple[list[Term], str, list[Figure]]:
    """The terms of the worst element, what they are, and pictures."""
    if forward.value is None or forward.value.numel() == 0:
        return [], "", []
    batch = forward.value.shape
    where = f", of element {', '.join(map(str, index))}" if batch.numel() > 1 else ""
    if isinstance(p, Categorical | OneHotCategorical) and isinstance(q, Categorical | OneHotCategorical):
        views = [_classes(d, batch, index) for d in (p, q)]
        inner = explain_tensors(*views, labels=labels, top=top)
        return list(inner.terms), f"classes{where}", list(inner.figures)
    if not p.event_shape:
        curves = draw_curves(p, q, batch, index)
        if curves is None:
            return [], "", []
        exact = tuple(math.nan if d.value is None else float(d.value[index]) for d in (forward, backward))
        return _intervals(curves, exact, top), f"{curves.kind}{where}", curves.figures
    by_dimension = terms_by_dimension(p, q, batch, index)
    terms, note = ([], "") if by_dimension is None else by_dimension
    terms = sorted(terms, key=lambda term: -term.contribution)[:top]
    return terms, f"{note}{where}" if note else "", draw_vectors(p, q, batch, index, terms)


def _classes(d: Categorical | OneHotCategorical, batch: torch.Size, index: tuple[int, ...]) -> View:
    """One element as a view, in the parameter that was given: logits of given probabilities are clamped."""
    given = given_first(d)
    tensor = getattr(d, given).detach().expand((*batch, -1))[index].double()
    return Counts(tensor) if given == "probs" else Logits(tensor)


def _intervals(curves: Curves, exact: tuple[float, ...], top: int) -> list[Term]:
    """The terms that the grid shows, and what is left of the exact values beyond its ends."""
    terms = curves.terms()
    total = exact[0]
    if total <= 0:
        return []
    if math.isfinite(total):
        terms += _beyond(curves, terms, exact)
    ordered = sorted(terms, key=lambda term: -term.contribution)[:top]
    return [
        Term(t.label, t.p, t.q, t.contribution, t.reverse, t.contribution / total if math.isfinite(total) else math.nan)
        for t in ordered
        if t.contribution > 0
    ]


def _beyond(curves: Curves, terms: list[Term], exact: tuple[float, ...]) -> list[Term]:
    left = exact[0] - math.fsum(term.contribution for term in terms)
    if not left > _MISSED * exact[0]:
        return []
    reverse = max(exact[1] - math.fsum(term.reverse for term in terms), 0.0)
    p, q = (max(1 - math.fsum(masses), 0.0) for masses in ([t.p or 0.0 for t in terms], [t.q or 0.0 for t in terms]))
    low, high = float(curves.x[0]), float(curves.x[-1])
    return [Term(f"outside of {low:.3g} to {high:.3g}", p, q, left, reverse, 0.0)]


def _rows(forward: Tensor | None, backward: Tensor | None, top: int) -> list[Row]:
    if forward is None or forward.numel() < 2:
        return []
    order = forward.double().flatten().argsort(descending=True, stable=True)[: min(top, 5)].tolist()
    rows = []
    for number in order:
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(number), forward.shape))
        back = float(backward[index]) if backward is not None else math.nan
        rows.append(Row(index, float(forward[index]), back))
    return rows


def _findings(forward: Direction, backward: Direction) -> Iterator[Finding]:
    for direction in (forward, backward):
        if direction.value is None:
            yield Finding(
                "no-route",
                "warning",
                f"{direction.label} has no closed form, integral or series. {direction.reasons[0]}",
            )
        elif bool(direction.value.isnan().any()):
            count = int(direction.value.isnan().sum())
            yield Finding(
                "not-a-number",
                "error",
                f"{direction.label} is NaN in {count} of {direction.value.numel()} elements: a parameter is NaN.",
                "check what produced the parameters; validate_args=True refuses them where the distribution is made",
                {"elements": count},
            )
        elif bool(direction.value.isinf().any()):
            count = int(direction.value.isinf().sum())
            rows = "" if direction.value.numel() == 1 else f" in {count} of {direction.value.numel()} rows"
            yield Finding(
                "infinite-pq" if direction is forward else "infinite-qp",
                "warning" if direction is forward else "info",
                f"{direction.label} is infinite{rows}: {'; '.join(direction.reasons) or 'the parameters say so'}.",
                "js(p, q) and total_variation(p, q) are finite for any pair" if direction is forward else "",
                {"rows": count},
            )
        elif direction.method == "bounds" or _uncertain(direction):
            yield Finding(
                "uncertain",
                "warning",
                f"{direction.label} is known to {direction.error:.2g} nats only.",
                evidence={"error": direction.error, "method": direction.method},
            )
    if forward.value is None or backward.value is None or not forward.value.numel():
        return
    one, other = float(forward.value.double().mean()), float(backward.value.double().mean())
    if bool((forward.value == 0).all()):
        yield Finding("identical", "info", "p and q are the same distribution.")
    elif math.isinf(one) and math.isfinite(other):
        yield Finding(
            "looks-swapped",
            "info",
            f"p and q may be swapped: KL(p ‖ q) is infinite, KL(q ‖ p) is {other:.6g} nats.",
            "kl(q, p)",
            {"reverse_kl": other},
        )
    elif math.isfinite(one) and math.isfinite(other) and min(one, other) > 1e-12:
        yield from one_sided(one, other)


def _uncertain(direction: Direction) -> bool:
    assert direction.value is not None
    largest = float(direction.value.double().max()) if direction.value.numel() else 0.0
    coarse = 1e-4 if direction.value.dtype != torch.float64 else 1e-6
    return direction.error is not None and direction.error > coarse * max(largest, 1e-30) and direction.error > 1e-12
