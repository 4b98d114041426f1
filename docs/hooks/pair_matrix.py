"""MkDocs hook: fill the table of pairs and the list of formulas from the library itself."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from torch.distributions import Distribution

from kullback.diagnose import matrix
from kullback.diagnose.matrix import MARKS, Cell
from kullback.pairs.table import examples

TABLE, FUNCTIONS = "<!-- table of pairs -->", "<!-- functions of pairs -->"
# One table for each kind of event; inside it families stand together by their support.
TABLES = (
    ("Numbers", ("the line and the circle", "positive numbers", "intervals", "counts and outcomes")),
    ("Vectors", ("vectors",)),
    ("Matrices", ("matrices",)),
)
# The inputs appear only where the script runs: without it the whole table is shown.
SEARCH = """<form class="pair-search" hidden>
<label>p <input type="search" name="p" placeholder="Gamma" autocomplete="off"></label>
<label>q <input type="search" name="q" placeholder="LogNormal" autocomplete="off"></label>
<output></output>
</form>"""
SCRIPT = """<script>
{
  const form = document.querySelector(".pair-search"), said = form.querySelector("output");
  const typed = (name) => form.elements[name].value.trim().toLowerCase();
  const fits = (family, part) => family.toLowerCase().includes(part);
  const show = () => {
    for (const cell of document.querySelectorAll(".pairs [data-q]")) cell.hidden = !fits(cell.dataset.q, typed("q"));
    for (const row of document.querySelectorAll(".pairs tr[data-p]")) row.hidden = !fits(row.dataset.p, typed("p"));
    const left = [...document.querySelectorAll(".pairs tr[data-p]:not([hidden]) td:not([hidden])")];
    said.textContent = left.length === 1 ? left[0].title : "";
  };
  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const event of ["mouseover", "click"])
    document.querySelectorAll(".pairs").forEach((table) => table.addEventListener(event, (e) => {
      const cell = e.target.closest("td[title]");
      if (cell) said.textContent = cell.title;
    }));
}
</script>"""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the two markers where a page has them."""
    if TABLE in markdown:
        cells, groups = matrix.cells(), {family.__name__: _group(each) for family, each in examples().items()}
        parts = [SEARCH, _key({cell.method for cell in cells})]
        for title, inside in TABLES:
            names = sorted((n for n in groups if groups[n] in inside), key=lambda n: (inside.index(groups[n]), n))
            parts += [f"## {title}", _table(cells, names, groups)]
        return markdown.replace(TABLE, "\n\n".join([*parts, SCRIPT]))
    if FUNCTIONS in markdown:
        functions = sorted({cell.function.rpartition(".")[::2] for cell in matrix.cells() if cell.function})
        modules = (_members(module, [name for _, name in of]) for module, of in groupby(functions, lambda f: f[0]))
        return markdown.replace(FUNCTIONS, "\n".join(modules))
    return markdown


def _members(module: str, names: Sequence[str]) -> str:
    return f"::: {module}\n    options:\n      members: [{', '.join(names)}]\n"


def _group(example: Distribution) -> str:
    if example.event_shape:
        return "vectors" if len(example.event_shape) == 1 else "matrices"
    support: Any = example.support
    if support.is_discrete:
        return "counts and outcomes"
    if math.isfinite(getattr(support, "upper_bound", math.inf)):
        return "intervals"
    return "positive numbers" if hasattr(support, "lower_bound") else "the line and the circle"


def _table(cells: Sequence[Cell], names: Sequence[str], groups: dict[str, str]) -> str:
    by_pair = {(cell.p, cell.q): cell for cell in cells}
    first = {next(of) for _, of in groupby(names, groups.__getitem__)}
    head = "".join(f'<th class="q{" first" * (q in first)}" data-q="{q}">{q}</th>' for q in names)
    rows = []
    for p in names:
        if p in first and len(first) > 1:
            rows.append(f'<tr class="group"><th colspan="{len(names) + 1}">{groups[p]}</th></tr>')
        found = "".join(_cell(by_pair[p, q], q in first) for q in names)
        rows.append(f'<tr data-p="{p}"><th class="p">{p}</th>{found}</tr>')
    return (
        '<div class="pairs"><table class="pair-table"><thead><tr><th></th>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(cell: Cell, first: bool) -> str:
    title = html.escape(f"{cell.p} ‖ {cell.q}: {cell.method or 'no route'}. {cell.source}", quote=True)
    mark = MARKS[cell.method]
    content = f'<a href="../pair-formulas/#{cell.function}">{mark}</a>' if cell.function else mark
    return f'<td class="{_class(cell.method)}{" first" * first}" data-q="{cell.q}" title="{title}">{content}</td>'


def _key(used: set[str]) -> str:
    return '<p class="key">' + "".join(
        f'<span class="{_class(method)}">{mark} {method or "no route"}</span>'
        for method, mark in MARKS.items() if method in used
    ) + "</p>"  # fmt: skip


def _class(method: str) -> str:
    return method.replace(" ", "-") or "none"
