"""Write `coefficients.h`: near-minimax polynomials for the functions the kernels evaluate.

    python csrc/math/make_coefficients.py

Each polynomial interpolates an analytic function at Chebyshev nodes with 60 digits and is then converted to powers.
The degree is the smallest whose largest relative error on the interval stays under the target.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mpmath as mp

mp.mp.dps = 60
TARGETS = {"double": mp.mpf("3e-17"), "float": mp.mpf("8e-9")}


def atanh_remainder(z: mp.mpf) -> mp.mpf:
    """(atanh(s)/s - 1)/z with z = s^2: 1/3 + z/5 + z^2/7 + ..."""
    return mp.nsum(lambda k: z**k / (2 * k + 3), [0, mp.inf]) if z else mp.mpf(1) / 3


def exp_remainder(x: mp.mpf) -> mp.mpf:
    """(e^x - 1 - x)/x^2: 1/2 + x/6 + x^2/24 + ..."""
    return mp.nsum(lambda k: x**k / mp.factorial(k + 2), [0, mp.inf]) if x else mp.mpf(1) / 2


FUNCTIONS: dict[str, tuple[Callable[[mp.mpf], mp.mpf], str, str, str]] = {
    "kAtanh": (atanh_remainder, "0", "0.2500001", "(atanh(s)/s - 1)/z, z = s^2 in [0, 1/4]"),
    "kExpNear": (exp_remainder, "-0.3466", "0.3466", "(e^x - 1 - x)/x^2, |x| <= log(2)/2"),
    "kExpFar": (exp_remainder, "-1", "1", "(e^x - 1 - x)/x^2, |x| <= 1"),
}


def fit(function: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf, target: mp.mpf) -> list[mp.mpf]:
    """Coefficients, constant first, of the smallest polynomial within `target` relative error."""
    middle, half = (high + low) / 2, (high - low) / 2
    for degree in range(3, 40):
        nodes = [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * degree + 2)) for i in range(degree + 1)]
        matrix = mp.matrix(degree + 1, degree + 1)
        for i, node in enumerate(nodes):
            for j in range(degree + 1):
                matrix[i, j] = node**j
        coefficients = list(mp.lu_solve(matrix, mp.matrix([function(node) for node in nodes])))
        points = [low + (high - low) * i / 60 for i in range(61)]
        error = max(abs(mp.polyval(coefficients[::-1], x) / function(x) - 1) for x in points)
        if error < target:
            return coefficients
    raise ValueError("no polynomial up to degree 39 reaches the target")


def main() -> None:
    """Write the header beside this script."""
    lines = [
        "// Written by make_coefficients.py; constant term first.",
        "#pragma once",
        "",
        "namespace kullback::coefficients {",
    ]
    for name, (function, low, high, meaning) in FUNCTIONS.items():
        lines += ["", f"// {meaning}"]
        for kind, target in TARGETS.items():
            values = fit(function, mp.mpf(low), mp.mpf(high), target)
            digits, suffix = (17, "") if kind == "double" else (9, "f")
            body = ",\n    ".join(mp.nstr(v, digits, strip_zeros=False) + suffix for v in values)
            lines.append(f"inline constexpr {kind} {name}{kind.title()}[] = {{\n    {body}}};")
    lines += ["", "}  // namespace kullback::coefficients", ""]
    Path(__file__).with_name("coefficients.h").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
