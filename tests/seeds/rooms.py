"""What the seeds' statements still wait for, in one place.

`PENDING` lists the public names that kullback does not have yet, with the room that will bring each. A test that needs
one of them is expected to fail, strictly: when the name arrives the test run fails until its line is removed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kullback as kb

PENDING: dict[str, str] = {}

# How a missing room shows: the name is not there, or the name is and says that it cannot do this kind of thing yet.
MISSING = (AttributeError, kb.InputTypeError, kb.NoRouteError)


def states(*numbers: str, needs: tuple[str, ...]) -> Callable[[Any], Any]:
    """Decorator: the test shows the numbered statements, and needs these public names to do so."""

    def mark(test: Any) -> Any:
        test.statements = numbers
        waiting = [f"kullback.{name} ({PENDING[name]} room)" for name in needs if name in PENDING]
        if waiting:
            test = pytest.mark.xfail(strict=True, raises=MISSING, reason=f"needs {', '.join(waiting)}")(test)
        return test

    return mark


def is_there(name: str) -> bool:
    """Whether kullback has the (possibly dotted) public name."""
    value: Any = kb
    for part in name.split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True
