"""Figures as matplotlib plots; matplotlib is the extra `plot`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.extras import import_extra
from kullback._core.files import write_whole
from kullback.report.page import Figure, Series, printable
from kullback.report.palette import LIGHT, cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

_FORMATS = (".png", ".svg", ".pdf")


def draw_figures(figures: Sequence[Figure], *, title: str = "", interactive: bool = True) -> Plot:
    """One plot with the figures below each other.

    Args:
        figures: What to draw.
        title: A line above all of them.
        interactive: Whether pyplot knows the plot, so that `plt.show()` and notebooks show it.
    """
    plot = _new_plot(figures, interactive)
    if title:
        plot.suptitle(_plain(title))
    heights = [0.34 * len(figure.series[0].x) + 0.6 if figure.has_labels else 2.6 for figure in figures]
    axes = plot.subplots(len(figures), 1, squeeze=False, height_ratios=heights)
    for figure, (ax,) in zip(figures, axes, strict=True):
        _draw_bars(ax, figure) if figure.has_labels else _draw_curves(ax, figure)
        ax.set_title(_plain(figure.title), loc="left", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=9)
    return plot


def save_figures(figures: Sequence[Figure], path: str | Path, *, title: str = "") -> None:
    """Write the figures to a .png, .svg or .pdf file."""
    target = Path(path)
    if target.suffix.lower() not in _FORMATS:
        raise InputValueError(
            explain_problem(
                "A plot is written as PNG, SVG or PDF, by the ending of its name.",
                got=str(path),
                expected=f"a name that ends in {', '.join(_FORMATS)}",
                instead=f"{target.stem or 'plot'}.png",
            )
        )
    plot = draw_figures(figures, title=title, interactive=False)
    write_whole(target, lambda beside: plot.savefig(beside, dpi=150))


def _new_plot(figures: Sequence[Figure], interactive: bool) -> Plot:
    matplotlib_figure = import_extra("matplotlib.figure", extra="plot", purpose="Plots need")
    height = sum(0.34 * len(f.series[0].x) * len(f.series) + 1.0 if f.has_labels else 2.8 for f in figures) + 0.4
    size = (7.2, min(max(height, 2.5), 40.0))
    new = import_extra("matplotlib.pyplot", extra="plot", purpose="Plots need").figure if interactive else None
    return cast("Plot", (new or matplotlib_figure.Figure)(figsize=size, layout="constrained"))


def _draw_curves(ax: Any, figure: Figure) -> None:
    for series in figure.series:
        _draw_series(ax, series)
    for mark, words in figure.marks:
        ax.axvline(mark, color=LIGHT[4], linewidth=1, linestyle=":", label=f"{_plain(words)} {mark:.4g}")
    if figure.log_x:
        ax.set_xscale("log")
    if figure.log_y:
        ax.set_yscale("log")
    elif all(y >= 0 for series in figure.series for y in series.y if math.isfinite(y)):
        ax.set_ylim(bottom=0)
    ax.set_xlabel(_plain(figure.x_label))
    ax.set_ylabel(_plain(figure.y_label))


def _draw_series(ax: Any, series: Series) -> None:
    color, name = cycle(LIGHT, series.color), _plain(series.name)
    y = [value if math.isfinite(value) else math.nan for value in series.y]
    if series.kind == "line":
        ax.plot(series.x, y, color=color, linewidth=1.8, linestyle="--" if series.dashed else "-", label=name)
    elif series.kind == "area":
        ax.fill_between(series.x, y, color=color, alpha=0.3, label=name)
        ax.plot(series.x, y, color=color, linewidth=1)
    elif series.kind == "points":
        ax.plot(series.x, y, "o", color=color, markersize=3, label=name)
    else:
        x = series.numbers()
        gaps = [b - a for a, b in itertools.pairwise(x)]
        width = 0.4 * min((gap for gap in gaps if gap > 0), default=1.0)
        shift = (series.color - 0.5) * width if series.color in (0, 1) else 0.0
        ax.bar([value + shift for value in x], y, width, color=color, label=name)


def _draw_bars(ax: Any, figure: Figure) -> None:
    labels = [_plain(str(label)) for label in figure.series[0].x]
    height = 0.8 / len(figure.series)
    for number, series in enumerate(figure.series):
        places = [at + (number - (len(figure.series) - 1) / 2) * height for at in range(len(labels))]
        y = [value if math.isfinite(value) else 0.0 for value in series.y]
        ax.barh(places, y, height, color=cycle(LIGHT, series.color), label=_plain(series.name))
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    ax.set_xlabel(_plain(figure.x_label))


def _plain(text: str) -> str:
    """Text that matplotlib draws as it is: a dollar sign would begin a formula."""
    return printable(text).replace("$", r"\$")
