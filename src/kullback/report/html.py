"""A page as HTML: a self-contained document for `--html`, or a fragment for notebooks.

Nothing is fetched and no script runs: the content security policy allows one style sheet, by its hash. All text is
escaped. Colours follow the reader's light or dark setting; tables scroll sideways on a phone.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from html import escape
from importlib import resources

from kullback.report.page import (
    Cell,
    Figure,
    Finding,
    Page,
    Part,
    Section,
    Table,
    bar_lengths,
    format_cell,
    numeric_columns,
    printable,
)
from kullback.report.palette import DARK, LIGHT, SEVERITY
from kullback.report.svg import figure_to_svg, legend_to_html

_NUMBER = ' class="number"'


def page_to_html(page: Page) -> str:
    """A whole document."""
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(page.title)}</title>\n<style>{style}</style>\n</head>\n"
        f'<body class="kullback">\n<main>\n{_body(page, "h1")}\n</main>\n</body>\n</html>\n'
    )


def page_to_fragment(page: Page) -> str:
    """A part of a document, for `_repr_html_`; its style applies to nothing else."""
    return f'<div class="kullback"><style>{_style(notebook=True)}</style>{_body(page, "h3")}</div>'


def _body(page: Page, heading: str) -> str:
    lead = "".join(f"<p>{_text(paragraph)}</p>" for paragraph in page.lead)
    sections = "".join(_section(section) for section in page.sections if section.parts)
    return f"<{heading}>{_text(page.title)}</{heading}>{lead}{sections}"


def _section(section: Section) -> str:
    title = f"<h2>{_text(section.title)}</h2>" if section.title else ""
    figures = [_figure(part) for part in section.parts if isinstance(part, Figure)]
    drawn = f'<div class="figures">{"".join(figures)}</div>' if figures else ""
    return f"<section>{title}{drawn}{''.join(_part(p) for p in section.parts if not isinstance(p, Figure))}</section>"


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Finding):
        return _finding(part)
    return _figure(part) if isinstance(part, Figure) else f"<p>{_text(part)}</p>"


def _figure(figure: Figure) -> str:
    caption = f"<figcaption>{_text(figure.title)}</figcaption>"
    return f"<figure>{caption}{figure_to_svg(figure)}{legend_to_html(figure)}</figure>"


def _table(table: Table) -> str:
    bars = bar_lengths(table)
    named = zip(table.columns, numeric_columns(table), strict=True)
    head = "".join(f'<th scope="col"{_NUMBER if right else ""}>{_text(column)}</th>' for column, right in named)
    head += "<th></th>" if bars else ""
    rows = []
    for number, row in enumerate(table.rows):
        cells = "".join(_cell(cell, table.digits) for cell in row)
        rows.append(f"<tr>{cells}{_bar(bars[number]) if bars else ''}</tr>")
    title = f"<h3>{_text(table.title)}</h3>" if table.title else ""
    heading = f"<thead><tr>{head}</tr></thead>" if any(table.columns) else ""
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    return f'{title}<div class="scroll" tabindex="0"><table>{heading}<tbody>{"".join(rows)}</tbody></table></div>{note}'


def _cell(cell: Cell, digits: int) -> str:
    number = _NUMBER if isinstance(cell, float | int) and not isinstance(cell, bool) else ""
    return f"<td{number}>{_text(format_cell(cell, digits))}</td>"


def _bar(length: float) -> str:
    return (
        '<td><svg viewBox="0 0 100 10" class="bar" aria-hidden="true" preserveAspectRatio="none">'
        f'<rect class="fill2" width="{100 * length:.1f}" height="10"/></svg></td>'
    )


def _finding(finding: Finding) -> str:
    remedy = f'<p class="remedy">{_text(finding.remedy)}</p>' if finding.remedy else ""
    return (
        f'<div class="finding {finding.severity}"><p><strong>{SEVERITY[finding.severity]}</strong> '
        f"{_text(finding.message)} <code>{_text(finding.code)}</code></p>{remedy}</div>"
    )


def _style(*, notebook: bool = False) -> str:
    """The style sheet with its colours."""
    light, dark = _variables(LIGHT, _LIGHT_SURFACE), _variables(DARK, _DARK_SURFACE)
    themes = f"{light}@media (prefers-color-scheme:dark){{{dark}}}"
    if notebook:  # has a theme of its own, beside the setting of the browser
        themes += f'[data-jp-theme-light="false"] {dark}.vscode-dark {dark}'
        themes += f'[data-jp-theme-light="true"] {light}.vscode-light {light}'
    numbered = "".join(
        f".kullback .line{n}{{stroke:var(--c{n});fill:none;stroke-width:2;stroke-linejoin:round}}"
        f".kullback .fill{n}{{fill:var(--c{n})}}.kullback .area{n}{{fill:var(--c{n});opacity:.3}}"
        for n in range(len(LIGHT))
    )
    return f"{themes}\n{_rules()}{numbered}"


@functools.cache
def _rules() -> str:
    return (resources.files("kullback.report") / "style.css").read_text(encoding="utf-8")


def _variables(colors: tuple[str, ...], surface: dict[str, str]) -> str:
    named = {**{f"c{number}": color for number, color in enumerate(colors)}, **surface}
    return f".kullback{{{''.join(f'--{name}:{color};' for name, color in named.items())}}}"


def _text(text: str) -> str:
    return escape(printable(text))


_LIGHT_SURFACE = {
    "ink": "#1a1d21",
    "soft": "#5b626d",
    "rule": "#dfe3e8",
    "paper": "#ffffff",
    "panel": "#f6f7f9",
    "warn": "#8a5c00",
    "bad": "#b42318",
    "note": "#0b63a5",
}
_DARK_SURFACE = {
    "ink": "#e7eaee",
    "soft": "#a3abb8",
    "rule": "#343a43",
    "paper": "#14171b",
    "panel": "#1d2127",
    "warn": "#e3b341",
    "bad": "#ff7b72",
    "note": "#6cb6ff",
}
