"""Packages that an extra of kullback brings, such as matplotlib: imported where they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from kullback._core.errors import UnavailableError, explain_problem


def import_extra(module: str, *, extra: str, purpose: str) -> Any:
    """The module, or an error that says which extra brings it.

    Example:
        >>> import_extra("math", extra="plot", purpose="Plots need").pi > 3
        True
        >>> import_extra("no_such_package.pyplot", extra="plot", purpose="Plots need")
        Traceback (most recent call last):
            ...
        kullback._core.errors.UnavailableError: Plots need no_such_package, which is not installed.
          expected: the extra "plot"
          write:    pip install "kullback[plot]"
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnavailableError(
            explain_problem(
                f"{purpose} {module.partition('.')[0]}, which is not installed.",
                expected=f'the extra "{extra}"',
                instead=f'pip install "kullback[{extra}]"',
            )
        ) from error
