"""A page as text: for terminals with colours and pictures, for pipes and `str()` as plain lines."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from kullback.report.page import (
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
from kullback.report.terminal_figure import bar, draw_figure, style_of

# From this width on, figures stand beside the tables of their section.
_TWO_COLUMNS = 104
_NARROWEST, _WIDEST_FIGURE = 20, 76
# Wide enough for any line: pipes and files have no right margin.
_NO_MARGIN = 100_000
_BAR = 16
_SEVERITY = {"info": ("i", "cyan"), "warning": ("!", "yellow"), "error": ("✗", "red")}


def page_to_text(page: Page, *, width: int | None = None, figures: bool = False, color: bool = False) -> str:
    """The page as a string.

    Args:
        page: What to write.
        width: Where lines end; None never breaks a line.
        figures: Whether figures are drawn.
        color: Whether colours are written, as escape sequences.
    """
    file = io.StringIO()
    console = Console(
        file=file,
        width=width or _NO_MARGIN,
        force_terminal=color,
        color_system="256" if color else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    print_page(page, console, figures=figures)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def print_page(page: Page, console: Console, *, figures: bool = True) -> None:
    """Print the page on a console of rich."""
    width = console.width
    console.print(_text(page.title, "bold"), soft_wrap=width >= _NO_MARGIN)
    for paragraph in page.lead:
        console.print(_text(paragraph))
    for section in page.sections:
        rendered = _section(section, width, figures)
        if rendered:
            console.print()
            for part in rendered:
                console.print(part)


def _section(section: Section, width: int, figures: bool) -> list[RenderableType]:
    drawn = [part for part in section.parts if isinstance(part, Figure)] if figures else []
    others = [part for part in section.parts if not isinstance(part, Figure)]
    head: list[RenderableType] = [_text(section.title, "bold underline")] if section.title else []
    if not drawn:
        body = [_part(part, width) for part in others]
        return [*head, *body] if body else []
    room = min(width, _NO_MARGIN - 1)
    tables = [_part(part, room) for part in others]
    needed = max((_measured(part) for part in tables), default=0)
    if room >= _TWO_COLUMNS and others and needed <= room - 52:
        left = min(room - needed - 3, _WIDEST_FIGURE)
        grid = RichTable.grid(padding=(0, 3, 0, 0))
        grid.add_row(Group(*_figures(drawn, left)), Group(*tables))
        return [*head, grid]
    return [*head, *_figures(drawn, max(min(room, _WIDEST_FIGURE), _NARROWEST)), *tables]


def _measured(part: RenderableType) -> int:
    console = Console(width=_NO_MARGIN, legacy_windows=False)
    return console.measure(part).maximum


def _figures(figures: Sequence[Figure], width: int) -> list[Text]:
    return [draw_figure(figure, width, 12 if number == 0 else 7) for number, figure in enumerate(figures)]


def _part(part: Part, width: int) -> RenderableType:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Finding):
        return _finding(part)
    if isinstance(part, Figure):
        return draw_figure(part, min(width, _WIDEST_FIGURE))
    return _text(part)


def _table(table: Table) -> RenderableType:
    drawn = RichTable(
        box=None, padding=(0, 2, 0, 0), show_header=any(table.columns), header_style="dim", pad_edge=False
    )
    for heading, right in zip(table.columns, numeric_columns(table), strict=True):
        drawn.add_column(_text(heading), justify="right" if right else "left", overflow="fold")
    bars = bar_lengths(table)
    if bars:
        drawn.add_column("", overflow="fold", no_wrap=True)
    for number, row in enumerate(table.rows):
        cells = [_text(format_cell(cell, table.digits)) for cell in row]
        drawn.add_row(*cells, *([Text(bar(bars[number], _BAR), style=style_of(2))] if bars else []))
    parts: list[RenderableType] = [_text(table.title, "bold")] if table.title else []
    parts.append(drawn)
    if table.note:
        parts.append(_text(table.note, "dim"))
    return Group(*parts)


def _finding(finding: Finding) -> RenderableType:
    mark, color = _SEVERITY[finding.severity]
    text = Text(f"{mark} ", style=color).append(printable(finding.message), style="default")
    text.append(f"  [{printable(finding.code)}]", style="dim")
    if not finding.remedy:
        return text
    return Group(text, Padding(_text(f"→ {finding.remedy}"), (0, 0, 0, 2)))


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)
