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


def significant(value: Any) -> str:
    """Write a number so that a reader sees what matters: 6 significant digits, plain 0, inf and nan."""
    number = float(value)
    if number == 0 or not math.isfinite(number):
        return {0.0: "0"}.get(number, str(number))
    return f"{number:.6g}"
