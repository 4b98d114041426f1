"""`kullback pairs`: which pairs of distributions are answered, and how."""

from __future__ import annotations

import argparse
import json
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "pairs",
        help="which pairs of distributions are answered, and how",
        description="A table of all ordered pairs of families; with --p or --q, a line for each pair.",
    )
    parser.add_argument("--p", metavar="FAMILY", help="only pairs with this p, e.g. Beta")
    parser.add_argument("--q", metavar="FAMILY", help="only pairs with this q")
    parser.add_argument("--missing", action="store_true", help="only pairs without a route")
    parser.add_argument("--json", action="store_true", help="a JSON array of objects")
    parser.set_defaults(run=run)


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
        for cell in chosen:
            print(f"{f'{cell.p} ‖ {cell.q}':{width}}  {cell.method or 'no route':11}  {cell.source}".rstrip())
    else:
        print(matrix.draw(chosen))
    return 0
