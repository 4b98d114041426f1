"""Every ordered pair of families and the route that answers it: the table behind `kullback pairs` and its docs page."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

from torch.distributions import Distribution

from kullback._core.errors import InputValueError, explain_problem
from kullback.pairs.table import coverage, examples

MARKS = {"closed form": "C", "integral": "I", "series": "S", "user": "U", "infinite": "∞", "": "."}
_LEGEND = {
    "closed form": "closed form",
    "integral": "one-dimensional integral",
    "series": "series",
    "user": "your own formula",
    "infinite": "infinite: p has mass where q has none, or a tail that is too heavy",
    "": "no route",
}


class Cell(NamedTuple):
    """One ordered pair.

    Attributes:
        p: Class name of p.
        q: Class name of q.
        method: As in `coverage()`; empty if the pair has no route.
        source: The formula or its origin, in a few words.
        function: Full name of the function that computes it; empty if none is needed or none exists.
    """

    p: str
    q: str
    method: str
    source: str
    function: str


def cells(p: str | None = None, q: str | None = None) -> list[Cell]:
    """All pairs of families whose events have one shape, answered or not, in alphabetical order.

    Example:
        >>> [cell] = cells("Normal", "Laplace")
        >>> cell.method, cell.function
        ('closed form', 'kullback.pairs.closed.normal.kl_normal_laplace')
    """
    known = {family.__name__: (family, example) for family, example in examples().items()}
    wanted_p, wanted_q = _chosen(p, known), _chosen(q, known)
    answered = {(pair.p, pair.q): pair for pair in coverage()}
    found = []
    for name_p in wanted_p:
        for name_q in wanted_q:
            if known[name_p][1].event_shape == known[name_q][1].event_shape:
                pair = answered.get((name_p, name_q))
                found.append(Cell(*pair) if pair else Cell(name_p, name_q, "", "", ""))
    return found


def draw(chosen: Sequence[Cell]) -> str:
    """The pairs as tables with a mark per pair, p downwards and q across by number, and what the marks mean.

    One table for distributions of numbers, one for those of vectors and matrices.
    """
    univariate = {family.__name__ for family, example in examples().items() if not example.event_shape}
    groups = ([c for c in chosen if c.p in univariate], [c for c in chosen if c.p not in univariate])
    used = {cell.method for cell in chosen}
    legend = [f"{MARKS[method]}  {meaning}" for method, meaning in _LEGEND.items() if method in used]
    return "\n\n".join([*map(_table, filter(None, groups)), "\n".join(legend)])


def _table(chosen: Sequence[Cell]) -> str:
    mark = {(cell.p, cell.q): MARKS[cell.method] for cell in chosen}
    names = sorted({cell.p for cell in chosen} | {cell.q for cell in chosen})
    width = max(map(len, names))
    numbers = [f"{number:>2}" for number in range(1, len(names) + 1)]
    # Numbers stand upright, so that 28 families fit into 80 columns.
    heads = [" " * (width + 4) + " ".join(number[row] for number in numbers) for row in (0, 1)]
    lines = [
        f"{number} {p:<{width}} " + " ".join(mark.get((p, q), " ") for q in names)
        for number, p in zip(numbers, names, strict=True)
    ]
    return "\n".join(line.rstrip() for line in [*heads, *lines])


def _chosen(name: str | None, known: dict[str, tuple[type[Distribution], Distribution]]) -> list[str]:
    if name is None:
        return list(known)
    found = {each.lower(): each for each in known}.get(name.lower())
    if found is None:
        close = difflib.get_close_matches(name, known, n=1)
        raise InputValueError(
            explain_problem(
                "No family of this name is in the table of pairs.",
                got=repr(name),
                expected=f"one of {', '.join(known)}",
                instead=f"--p {close[0]}"
                if close
                else "kl_method(p, q) for classes of your own, mixtures and transformed distributions",
            )
        )
    return [found]
