"""`kullback pairs`: which pairs of distributions are answered, and how."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "pairs",
        help="which pairs of distributions are answered, and how",
        description="A table of all ordered pairs of families, p down and q across; with --p or --q, a line for each "
        "pair and where its formula comes from.",
        epilog="JSON: an array of objects with the keys p, q (class names), method (closed form, integral, series, "
        "infinite, user; empty where there is no route), source (the formula in a few words) and function (its full "
        "name; empty if none is needed).",
    )
    parser.add_argument("--p", metavar="FAMILY", help="only pairs with this p, e.g. Beta")
    parser.add_argument("--q", metavar="FAMILY", help="only pairs with this q")
    parser.add_argument("--missing", action="store_true", help="only pairs without a route")
    parser.add_argument("--json", action="store_true", help="a JSON array of objects")
    parser.set_defaults(run=run)


def _room(used: int) -> int:
    """How many characters of a line are left on a terminal; all that are needed where output goes to a file."""
    return max(shutil.get_terminal_size().columns - used, 16) if sys.stdout.isatty() else sys.maxsize


def run(arguments: argparse.Namespace) -> int:
    """Print the table, the list or the JSON."""
    from kullback.diagnose import matrix

    chosen = matrix.cells(arguments.p, arguments.q)
    if arguments.missing:
        chosen = [cell for cell in chosen if not cell.method]
    if arguments.json:
        print(json.dumps([cell._asdict() for cell in chosen], ensure_ascii=False, indent=1))
    elif arguments.missing and not chosen:
        print("Every pair has a route.")
    elif arguments.p or arguments.q or arguments.missing:
        width = max(len(f"{cell.p} ‖ {cell.q}") for cell in chosen)
        room = _room(width + 15)
        for cell in chosen:
            source = cell.source if len(cell.source) <= room else f"{cell.source[: room - 1]}…"
            print(f"{f'{cell.p} ‖ {cell.q}':{width}}  {cell.method or 'no route':11}  {source}".rstrip())
    else:
        print(matrix.draw(chosen))
    return 0
