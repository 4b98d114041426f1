"""Laws of different families that nearly agree, and large exponents: `python -m tests.golden.make_univariate_close`.

Their log-densities cancel, and what is left of them is smaller than the rounding of the point they are taken at.
"""

from __future__ import annotations

import math

from tests.golden.make_univariate import _row, _write

_Parameters = dict[str, float]
ROWS: list[tuple[str, _Parameters, str, _Parameters]] = [
    ("VonMises", {"loc": 0.3, "concentration": 82480.5}, "Normal", {"loc": 0.29992, "scale": 0.00348}),
    ("VonMises", {"loc": 0.3, "concentration": 7406.75}, "Normal", {"loc": 0.3, "scale": 0.011619375}),
    ("VonMises", {"loc": -3.0, "concentration": 20000.0}, "StudentT", {"df": 1e5, "loc": -3.0, "scale": 0.00707}),
    ("Normal", {"loc": -1188.5, "scale": 1736.5}, "StudentT", {"df": 177.0625, "loc": -1188.5, "scale": 1736.5}),
    (
        "Kumaraswamy",
        {"concentration1": 1e4, "concentration0": 194062.25},
        "Cauchy",
        {"loc": 1.125, "scale": 1659050.25},
    ),
    (
        "Kumaraswamy",
        {"concentration1": 0.5, "concentration0": 3e5},
        "Beta",
        {"concentration1": 0.75, "concentration0": 1e6},
    ),
    ("Beta", {"concentration1": 1e5, "concentration0": 2e5}, "Gumbel", {"loc": 0.333, "scale": 0.0007}),
    (
        "Beta",
        {"concentration1": 1e5, "concentration0": 2e5},
        "StudentT",
        {"df": 1e4, "loc": 1 / 3, "scale": math.sqrt(2 / 9 / 3e5)},
    ),
    ("Gamma", {"concentration": 1e6, "rate": 2e5}, "StudentT", {"df": 1e5, "loc": 5.0, "scale": 0.005}),
]


if __name__ == "__main__":
    _write("close", [_row(*row) for row in ROWS])
