"""`kullback pairs`: which pairs of distributions are answered, and how."""

from __future__ import annotations

import shutil
import sys
from typing import Annotated

import typer

from kullback.cli.options import Debug, Json

EPILOG = """JSON: an array of objects with the keys p, q (class names), method (closed form, integral, series, infinite,
user, torch; empty where there is no route), source (the formula in a few words) and function (its full name; empty
if none is needed)."""


def command(
    p: Annotated[str | None, typer.Option("--p", metavar="FAMILY", help="Only pairs with this p, e.g. Beta.")] = None,
    q: Annotated[str | None, typer.Option("--q", metavar="FAMILY", help="Only pairs with this q.")] = None,
    missing: Annotated[bool, typer.Option("--missing", help="Only pairs without a route.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show which pairs of distributions are answered, and how.

    A table of all ordered pairs of families, p down and q across; with --p or --q, a line for each pair and where its
    formula comes from; with both, the function and its file.
    """
    del debug
    from kullback.diagnose import matrix
    from kullback.report.machine import to_json

    chosen = matrix.cells(p, q)
    if missing:
        chosen = [cell for cell in chosen if not cell.method]
    if json:
        print(to_json([cell._asdict() for cell in chosen]))
    elif missing and not chosen:
        print("Every pair has a route.")
    elif p or q or missing:
        width = max(len(f"{cell.p} ‖ {cell.q}") for cell in chosen)
        room = _room(width + 15)
        for cell in chosen:
            source = cell.source if len(cell.source) <= room else f"{cell.source[: room - 1]}…"
            print(f"{f'{cell.p} ‖ {cell.q}':{width}}  {cell.method or 'no route':11}  {source}".rstrip())
            if p and q and cell.function:
                module, _, name = cell.function.rpartition(".")
                print(f"{'':{width}}  {name} in src/{module.replace('.', '/')}.py")
    else:
        print(matrix.draw(chosen))


def _room(used: int) -> int:
    """How many characters of a line are left on a terminal; all that are needed where output goes to a file."""
    return max(shutil.get_terminal_size().columns - used, 16) if sys.stdout.isatty() else sys.maxsize
