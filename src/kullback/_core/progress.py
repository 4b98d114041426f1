"""A progress line for work that takes long enough to wonder about."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def follow(items: Iterable[T], description: str, *, total: int | None = None, quiet: bool = False) -> Iterator[T]:
    """Yield the items and show how far along they are.

    Shown on standard error with rich where that is installed and standard error is a terminal; silent otherwise, so
    that logs and pipes stay clean. The line disappears at the end.

    Args:
        items: What is worked through.
        description: What the work is, in a few words.
        total: How many items there are, where `items` has no length.
        quiet: Show nothing.

    Example:
        >>> [n * n for n in follow([1, 2, 3], "squaring")]
        [1, 4, 9]
    """
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield from items
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(items, total=total, description=description)
