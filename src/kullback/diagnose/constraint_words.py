"""What a constraint of torch.distributions asks for, in words; for errors about parameters."""

from __future__ import annotations

import re

_WORDS = {
    "Simplex": "at least 0 in every entry, with sum 1",
    "PositiveDefinite": "a symmetric positive definite matrix",
    "LowerCholesky": "a lower triangular matrix with a positive diagonal",
    "CorrCholesky": "the lower Cholesky factor of a correlation matrix",
    "Real": "a number, not NaN",
    "Boolean": "0 or 1",
    "GreaterThan": "greater than {lower_bound}",
    "GreaterThanEq": "at least {lower_bound}",
    "LessThan": "less than {upper_bound}",
    "Interval": "between {lower_bound} and {upper_bound}",
    "HalfOpenInterval": "at least {lower_bound} and less than {upper_bound}",
    "IntegerGreaterThan": "a whole number, at least {lower_bound}",
    "IntegerInterval": "a whole number from {lower_bound} to {upper_bound}",
}


def words(constraint: str) -> str:
    """What satisfies a constraint that torch writes like this.

    Example:
        >>> words("GreaterThan(lower_bound=0.0)"), words("IndependentConstraint(Real(), 1)")
        ('greater than 0', 'a number, not NaN, in every entry')
    """
    inner = re.fullmatch(r"IndependentConstraint\((.+), \d+\)", constraint)
    if inner:
        return f"{words(inner[1])}, in every entry"
    name = constraint.partition("(")[0]
    bounds = {key: f"{float(value):g}" for key, value in re.findall(r"(\w+_bound)=([-\w.+]+)", constraint)}
    try:
        return _WORDS[name].format_map(bounds)
    except (KeyError, ValueError):
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
