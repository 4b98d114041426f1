"""The door to mpmath, and the exact reading of stored floats."""

from __future__ import annotations

import importlib
import math
from typing import Any

from kullback._core.errors import UnavailableError, explain_problem

DIGITS = 50
"""Decimal digits of every exact computation; a KL of 1e-28 keeps 22 of them."""


def mpmath() -> Any:
    """Import mpmath, or say how to get it."""
    try:
        return importlib.import_module("mpmath")
    except ImportError as error:
        raise UnavailableError(
            explain_problem("The exact values come from mpmath, which is not installed.", instead="pip install mpmath")
        ) from error


def significant(value: Any, digits: int = 6) -> str:
    """Write a number so that a reader sees what matters: 6 significant digits, plain 0, inf and nan."""
    number = float(value)
    if number == 0 or not math.isfinite(number):
        return {0.0: "0"}.get(number, str(number))
    return f"{number:.{digits}g}"


def expected_got(expected: Any, got: Any) -> str:
    """Write "expected a, got b" of two numbers, or two lists of numbers, with enough digits to see the difference.

    Example:
        >>> expected_got(0.6399571, 0.6399574)
        'expected 0.6399571, got 0.6399574'
        >>> expected_got([1.0, 2.0], [1.0, 4.0])
        'expected [1, 2], got [1, 4]'
    """
    shown = "", ""
    for digits in range(6, 18):
        shown = _written(expected, digits), _written(got, digits)
        if shown[0] != shown[1]:
            break
    return f"expected {shown[0]}, got {shown[1]}"


def _written(value: Any, digits: int) -> str:
    if isinstance(value, list):
        return f"[{', '.join(significant(x, digits) for x in value)}]"
    return significant(value, digits)
