"""MkDocs hook: fill the table of pairs and the list of formulas from the library itself."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from kullback.diagnose import matrix
from kullback.diagnose.matrix import MARKS, Cell

TABLE, FUNCTIONS = "<!-- table of pairs -->", "<!-- functions of pairs -->"
STYLE = """<style>
.pairs td, .pairs th { padding: 0 !important; min-width: 1.4em !important; text-align: center; font-size: 0.6rem; }
.pairs th.p { text-align: right; padding-right: 0.5em !important; white-space: nowrap; }
.pairs th.q { writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap; }
.pairs td a { display: block; color: inherit; }
.pairs .closed-form, .key .closed-form { background: #2e7d3255; }
.pairs .integral, .key .integral { background: #1565c055; }
.pairs .series, .key .series { background: #6a1b9a55; }
.pairs .infinite, .key .infinite { background: #75757533; }
.pairs .none, .key .none { background: #c6282855; }
.key span { padding: 0 0.5em; margin-right: 1em; }
</style>"""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the two markers where a page has them."""
    if TABLE in markdown:
        cells = matrix.cells()
        scalar = {cell.p for cell in cells if cell.q == "Normal"}
        tables = [
            "## Numbers", _table([c for c in cells if c.p in scalar]),
            "## Vectors and matrices", _table([c for c in cells if c.p not in scalar]),
        ]  # fmt: skip
        return markdown.replace(TABLE, "\n\n".join([STYLE, _key(), *tables]))
    if FUNCTIONS in markdown:
        modules = sorted({cell.function.rpartition(".")[0] for cell in matrix.cells() if cell.function})
        return markdown.replace(FUNCTIONS, "\n".join(f"::: {module}" for module in modules))
    return markdown


def _table(cells: Sequence[Cell]) -> str:
    by_pair = {(cell.p, cell.q): cell for cell in cells}
    names = sorted({cell.p for cell in cells})
    head = "".join(f'<th class="q">{html.escape(q)}</th>' for q in names)
    rows = (
        f'<tr><th class="p">{html.escape(p)}</th>{"".join(_cell(by_pair.get((p, q))) for q in names)}</tr>'
        for p in names
    )
    return (
        f'<div class="pairs"><table><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "<td></td>"
    title = html.escape(f"{cell.p} ‖ {cell.q}: {cell.method or 'no route'}. {cell.source}", quote=True)
    mark = MARKS[cell.method]
    content = f'<a href="../pair-formulas/#{cell.function}">{mark}</a>' if cell.function else mark
    return f'<td class="{_class(cell.method)}" title="{title}">{content}</td>'


def _key() -> str:
    shown = ("closed form", "integral", "series", "infinite", "")
    return '<p class="key">' + "".join(
        f'<span class="{_class(method)}">{MARKS[method]} {method or "no route"}</span>' for method in shown
    ) + "</p>"  # fmt: skip


def _class(method: str) -> str:
    return method.replace(" ", "-") or "none"
