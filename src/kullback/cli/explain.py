"""`kullback explain P Q`: compare two distributions written as text."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "explain",
        help="both directions of KL between two distributions, how computed, how exact",
        description="Distributions are written as in torch, e.g. 'Normal(0, 1)' or 'Dirichlet([1, 2, 3])'.",
    )
    parser.add_argument("p", help='the first distribution, e.g. "Normal(0, 1)"')
    parser.add_argument("q", help='the second, e.g. "Normal(1, 2)"')
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    from kullback.diagnose.explain import describe
    from kullback.diagnose.notation import parse_distribution

    print(describe(parse_distribution(arguments.p), parse_distribution(arguments.q)))
    return 0
