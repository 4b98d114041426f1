"""The number that a family of divergences is indexed by."""

from __future__ import annotations

import math

from kullback._core.errors import InputTypeError, InputValueError, explain_problem


def check_parameter(name: str, value: object, largest: float, meaning: str) -> float:
    """A number between 0 and `largest`, as a float.

    Args:
        name: The argument, for the message.
        value: What was handed over.
        largest: The largest number allowed; infinity where there is none.
        meaning: What the ends of the range are.
    """
    expected = f"a number {name} with 0 <= {name} <= {'math.inf' if largest == math.inf else f'{largest:g}'}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError(
            explain_problem(
                f"{name} is a Python number, the same for all rows.",
                got=f"a {type(value).__name__}",
                expected=expected,
                instead=f"{name}=float({name}), or one call per value",
            )
        )
    if not 0 <= value <= largest:
        raise InputValueError(
            explain_problem(f"{name} is out of range: {meaning}.", got=f"{name}={value!r}", expected=expected)
        )
    return float(value)
