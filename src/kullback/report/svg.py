"""Figures as SVG inside HTML, for `html.py`; colours are classes of its style sheet, so they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from kullback.report.page import Figure, Series, printable
from kullback.report.palette import LIGHT
from kullback.report.scale import Scale, axes

# Small units, so that text of 13 units is readable when a phone scales the figure down.
_WIDTH, _HEIGHT = 480, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 10, 40
_ROW = 18
_MAX_LABEL = 18
_MAX_POINTS = 2000


def figure_to_svg(figure: Figure) -> str:
    """An `<svg>` element with a text alternative; all text is escaped."""
    drawn = _bars(figure) if figure.has_labels else _curves(figure)
    height = _bars_height(figure) if figure.has_labels else _HEIGHT
    names = ", ".join(series.name for series in figure.series)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_text(f"{figure.title}: {names}")}">'
        f"{''.join(drawn)}</svg>"
    )


def legend_to_html(figure: Figure) -> str:
    """The legend of a figure, outside of the drawing, where it can wrap."""
    keys = [
        f'<span class="key"><svg viewBox="0 0 24 10" class="swatch" aria-hidden="true">{_swatch(series)}</svg>'
        f"{_text(series.name)}</span>"
        for series in figure.series
    ]
    keys += [f'<span class="key">│ {_text(words)} {mark:.4g}</span>' for mark, words in figure.marks]
    return f'<div class="legend">{"".join(keys)}</div>'


def _curves(figure: Figure) -> Iterable[str]:
    x_scale, y_scale = axes(figure)
    yield from _grid(x_scale, y_scale, figure)
    for series in figure.series:
        yield from _series(series, x_scale, y_scale)
    for mark, words in figure.marks:
        at = x_scale.place(mark)
        if at is not None and 0 <= at <= 1:
            x = _LEFT + at * (_WIDTH - _LEFT - _RIGHT)
            yield f'<path class="mark" d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"><title>{_text(words)}</title></path>'


def _grid(x_scale: Scale, y_scale: Scale, figure: Figure) -> Iterable[str]:
    for value, text in y_scale.ticks(4):
        y = _y(y_scale.place(value))
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="end">{_text(text)}</text>'
    for value, text in x_scale.ticks(6):
        x = _x(x_scale.place(value))
        yield f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" class="middle">{_text(text)}</text>'
    yield f'<path class="axis" d="M{_LEFT} {_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"/>'
    if figure.x_label:
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        yield f'<text x="{middle}" y="{_HEIGHT - 6}" class="middle">{_text(figure.x_label)}</text>'


def _series(series: Series, x_scale: Scale, y_scale: Scale) -> Iterable[str]:
    color = series.color % len(LIGHT)
    title = f"<title>{_text(series.name)}</title>"
    floor = _HEIGHT - _BOTTOM if y_scale.log else _y(y_scale.place(0.0))
    runs = _runs(series, x_scale, y_scale)
    if series.kind == "points":
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for run in runs for x, y in run)
        yield f'<g class="fill{color}">{title}{dots}</g>'
    elif series.kind == "bars":
        path = "".join(f"M{x:.1f} {floor:.1f}V{y:.1f}" for run in runs for x, y in run)
        count = sum(map(len, runs))
        width = max(min(0.35 * (_WIDTH - _LEFT - _RIGHT) / max(count, 1), 14), 1)
        # p and q of one number stand side by side.
        shift = (series.color - 0.5) * width if series.color in (0, 1) else 0
        yield (
            f'<path class="line{color}" stroke-width="{width:.1f}" transform="translate({shift:.1f} 0)" '
            f'd="{path}">{title}</path>'
        )
    else:
        line = "".join("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run) for run in runs)
        if series.kind == "area":
            filled = "".join(
                f"M{run[0][0]:.1f} {floor:.1f}L" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run) + f"V{floor:.1f}Z"
                for run in runs
            )
            yield f'<path class="area{color}" d="{filled}"/>'
        yield f'<path class="line{color}"{_dashes(series)} d="{line}">{title}</path>'


def _runs(series: Series, x_scale: Scale, y_scale: Scale) -> list[list[tuple[float, float]]]:
    """The points in pixels, cut where a value cannot be drawn; of very many points, evenly spaced ones."""
    runs: list[list[tuple[float, float]]] = [[]]
    step = -(-len(series.y) // _MAX_POINTS) or 1
    for value_x, value_y in zip(series.numbers()[::step], series.y[::step], strict=True):
        x, y = x_scale.place(value_x), y_scale.place(value_y)
        if x is None or y is None:
            runs.append([])
        else:
            runs[-1].append((_x(x), _y(y)))
    return [run for run in runs if run]


def _bars_height(figure: Figure) -> int:
    return len(figure.series[0].x) * (_ROW * len(figure.series) + 6) + 8


def _bars(figure: Figure) -> Iterable[str]:
    left, room = 130, _WIDTH - 130 - 64
    finite = [abs(y) for series in figure.series for y in series.y if math.isfinite(y)]
    top = max(finite, default=0.0) or 1.0
    y = 4.0
    for at, label in enumerate(figure.series[0].x):
        middle = y + _ROW * len(figure.series) / 2 + 4
        name = str(label)
        short = name if len(name) <= _MAX_LABEL else name[: _MAX_LABEL - 1] + "…"
        yield f'<text x="{left - 6}" y="{middle:.1f}" class="end">{_text(short)}<title>{_text(name)}</title></text>'
        for series in figure.series:
            value = series.y[at]
            width = room * (min(abs(value) / top, 1.0) if math.isfinite(value) else 1.0 if value == math.inf else 0.0)
            yield (
                f'<rect class="fill{series.color % len(LIGHT)}" x="{left}" y="{y + 1:.1f}" width="{max(width, 1):.1f}" '
                f'height="{_ROW - 3}"><title>{_text(f"{name}: {series.name} {value:.6g}")}</title></rect>'
                f'<text x="{left + max(width, 1) + 4:.1f}" y="{y + 13:.1f}">{value:.3g}</text>'
            )
            y += _ROW
        y += 6


def _swatch(series: Series) -> str:
    color = series.color % len(LIGHT)
    if series.kind in ("area", "bars"):
        return f'<rect class="fill{color}" width="24" height="10"/>'
    if series.kind == "points":
        return f'<circle class="fill{color}" cx="12" cy="5" r="4"/>'
    return f'<path class="line{color}"{_dashes(series)} d="M0 5H24"/>'


def _dashes(series: Series) -> str:
    return ' stroke-dasharray="7 4"' if series.dashed else ""


def _x(place: float | None) -> float:
    return _LEFT + min(max(place or 0.0, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)


def _y(place: float | None) -> float:
    return _HEIGHT - _BOTTOM - min(max(place or 0.0, 0.0), 1.0) * (_HEIGHT - _TOP - _BOTTOM)


def _text(text: str) -> str:
    return escape(printable(text))
