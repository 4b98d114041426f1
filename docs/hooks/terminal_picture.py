"""Draw what README's main command prints in a terminal, as SVG in light and dark; run this file to draw it again."""

import io
import os
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, TerminalTheme
from rich.text import Text

os.environ["FORCE_COLOR"] = "1"  # the drawing library asks for it where standard output is no terminal

COMMAND = ("Normal(0, 1)", "Normal(1, 2)")
COLUMNS = 118  # and two more, so that the frame has a margin
# Rich's own frame fetches a font; this one takes the reader's.
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}">
<style>text {{ font: {char_height}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre }}
{styles}</style>
<defs>{lines}</defs>
<rect width="{terminal_width}" height="{terminal_height}" rx="8" fill="{background}"/>
<g transform="translate(12, 12)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


IMAGES = Path(__file__).parents[1] / "images"


def main() -> None:
    """Write both pictures."""
    for name, svg in pictures().items():
        (IMAGES / name).write_text(svg, encoding="utf-8")


def pictures() -> dict[str, str]:
    """The pictures by the names of their files; a test compares their words with those of the files."""
    from kullback import explain
    from kullback.diagnose.notation import parse_distribution
    from kullback.report.terminal import page_to_text

    page = explain(*map(parse_distribution, COMMAND)).page
    screen = page_to_text(page, width=COLUMNS, figures=True, color=True)
    dark = TerminalTheme((20, 23, 27), (231, 234, 238), *_ansi(DEFAULT_TERMINAL_THEME))
    light = TerminalTheme((255, 255, 255), (26, 29, 33), *_ansi(DEFAULT_TERMINAL_THEME))
    found = {}
    for name, theme, background in (("light", light, "#f6f7f9"), ("dark", dark, "#14171b")):
        console = Console(record=True, width=COLUMNS + 2, file=io.StringIO(), force_terminal=True)
        console.print(Text(f"$ kullback explain {' '.join(map(repr, COMMAND))}\n".replace("'", '"'), style="bold"))
        console.print(Text.from_ansi(screen))
        frame = FRAME.replace("{background}", background)
        found[f"explain-{name}.svg"] = console.export_svg(theme=theme, code_format=frame, unique_id="k")
    return found


def _ansi(theme: TerminalTheme) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    colors = [tuple(theme.ansi_colors[number]) for number in range(16)]
    return colors[:8], colors[8:]


if __name__ == "__main__":
    main()
