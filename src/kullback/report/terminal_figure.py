"""Figures drawn with characters, for `terminal.py`: curves and areas in braille dots, bars in blocks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from kullback.report.page import Figure, Series, printable
from kullback.report.palette import TERMINAL
from kullback.report.scale import Scale, axes

if TYPE_CHECKING:
    from plotille import Canvas

_BLOCKS = " ▏▎▍▌▋▊▉█"
_MAX_LABEL = 24


def draw_figure(figure: Figure, width: int, height: int = 12) -> Text:
    """The figure with its title, axes and legend, `width` columns wide."""
    if not any(len(series.y) for series in figure.series):
        return Text("")
    body = _bars(figure, width) if figure.has_labels else _curves(figure, width, height)
    title = Text(printable(figure.title), style="bold")
    return Text("\n").join([title, *body])


def style_of(color: int) -> Style:
    """The style of a number of the palette."""
    return Style(color=f"color({TERMINAL[color % len(TERMINAL)]})")


def bar(length: float, width: int) -> str:
    """A bar of `length` (0 to 1) times `width` columns, in eighths of a column.

    Example:
        >>> bar(0.5, 5)
        '██▌'
        >>> bar(1e-9, 5), bar(0.0, 5)
        ('▏', '')
    """
    eighths = min(max(round(length * width * 8), 1 if length > 0 else 0), width * 8)
    return "█" * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")


def _curves(figure: Figure, width: int, height: int) -> list[Text]:
    from plotille import Canvas

    x_scale, y_scale = axes(figure)
    y_ticks = _ticks_by_line(y_scale, height)
    margin = max((len(text) for text in y_ticks.values()), default=0)
    columns = max(width - margin - 2, 8)
    canvas = Canvas(columns, height, 0, 0, 1, 1, mode="byte")
    for series in figure.series:
        _draw_series(canvas, series, x_scale, y_scale, columns * 2)
    for mark, _ in figure.marks:
        at = x_scale.place(mark)
        if at is not None and 0 <= at <= 1:
            canvas.line(at, 0, at, 1, color=TERMINAL[4])
    # Blank braille cells become spaces, which are as wide as other characters in every font.
    picture = Text.from_ansi(canvas.plot().replace("\u2800", " ")).split("\n", allow_blank=True)
    lines = [
        Text.assemble((f"{y_ticks.get(i, ''):>{margin}} │", "dim"), line) for i, line in enumerate(picture[:height])
    ]
    lines.append(Text(" " * margin + " └" + "─" * columns, style="dim"))
    lines.append(Text(" " * (margin + 2) + _x_labels(x_scale, columns, printable(figure.x_label)), style="dim"))
    return [*lines, _legend(figure, margin + 2)]


def _draw_series(canvas: Canvas, series: Series, x_scale: Scale, y_scale: Scale, dots: int) -> None:
    color = TERMINAL[series.color % len(TERMINAL)]
    places = [(x_scale.place(x), y_scale.place(y)) for x, y in zip(series.numbers(), series.y, strict=True)]
    floor = 0.0 if y_scale.log else min(max(y_scale.place(0.0) or 0.0, 0.0), 1.0)
    previous = None
    for x, place in places:
        if x is None or place is None or not (0 <= x <= 1):
            previous = None
            continue
        y = min(max(place, 0.0), 1.0)
        if series.kind == "bars" or (series.kind == "area" and previous is None):
            canvas.line(x, floor, x, y, color=color)
        elif series.kind == "points" or previous is None:
            canvas.point(x, y, color=color)
        elif series.kind == "area":
            for between, top in _between(previous, (x, y), dots):
                canvas.line(between, floor, between, top, color=color)
        elif not series.dashed or int(x * dots / 4) % 2 == 0 or abs(x - previous[0]) * dots > 8:
            canvas.line(*previous, x, y, color=color)
        previous = (x, y)


def _between(start: tuple[float, float], end: tuple[float, float], dots: int) -> list[tuple[float, float]]:
    """A point for every column of dots from one point to the next, so that no stripe of an area stays empty."""
    steps = max(math.ceil(abs(end[0] - start[0]) * dots), 1)
    shares = [step / steps for step in range(1, steps + 1)]
    return [(start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])) for share in shares]


def _ticks_by_line(scale: Scale, height: int) -> dict[int, str]:
    found: dict[int, str] = {}
    for value, text in scale.ticks(max(height // 3, 2)):
        at = scale.place(value)
        if at is not None and 0 <= at <= 1:
            found.setdefault(min(int((1 - at) * height), height - 1), text)
    return found


def _x_labels(scale: Scale, columns: int, label: str) -> str:
    line = [" "] * columns
    free = 0
    for value, text in scale.ticks(max(columns // 12, 2)):
        at = scale.place(value)
        if at is None or not 0 <= at <= 1:
            continue
        start = min(max(round(at * (columns - 1)) - len(text) // 2, 0), columns - len(text))
        if start >= free:
            line[start : start + len(text)] = text
            free = start + len(text) + 2
    written = "".join(line)
    if label and not written[-len(label) - 2 :].strip():
        written = written[: columns - len(label)] + label
    return written.rstrip()


def _legend(figure: Figure, indent: int) -> Text:
    marks = {"line": "━━", "area": "██", "bars": "██", "points": "••"}
    legend = Text(" " * indent)
    for series in figure.series:
        drawn = "╺╺" if series.kind == "line" and series.dashed else marks[series.kind]
        legend.append(drawn, style=style_of(series.color)).append(f" {printable(series.name)}   ")
    for mark, words in figure.marks:
        legend.append("┃", style=style_of(4)).append(f" {printable(words)} {mark:.4g}   ")
    legend.rstrip()
    return legend


def _bars(figure: Figure, width: int) -> list[Text]:
    names = [_fitted(printable(str(label))) for label in figure.series[0].x]
    margin = max(map(cell_len, names), default=0)
    finite = [abs(y) for series in figure.series for y in series.y if math.isfinite(y)]
    top = max(finite, default=0.0)
    room = max(width - margin - 12, 4)
    lines = []
    for at, name in enumerate(names):
        for number, series in enumerate(figure.series):
            length = _length(series.y[at], top)
            line = Text(set_cell_size(name if number == 0 else "", margin) + " ")
            line.append(bar(length, room), style=style_of(series.color)).append(f" {series.y[at]:.4g}", style="dim")
            lines.append(line)
    return [*lines, _legend(figure, margin + 1)]


def _length(value: float, top: float) -> float:
    if not math.isfinite(value):
        return 1.0 if value == math.inf else 0.0
    return abs(value) / top if top > 0 else 0.0


def _fitted(label: str) -> str:
    return label if cell_len(label) <= _MAX_LABEL else set_cell_size(label, _MAX_LABEL - 1) + "…"
