"""Write `coefficients.h`: near-minimax polynomials for the functions the kernels evaluate.

    python csrc/math/make_coefficients.py

Each polynomial interpolates an analytic function at Chebyshev nodes with 60 digits and is then converted to powers.
The degree is the smallest whose largest error on the interval, relative to max(|value|, 0.1), stays under the target.
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


DOUBLE_ONLY = ("kDigamma", "kMills")
FLOAT_ONLY = ("kExpWide",)
DIGAMMA_ROOT = mp.findroot(mp.digamma, 1.46)


def digamma_over_root(t: mp.mpf) -> mp.mpf:
    """digamma(x)/(x - root) with x = 2 + t."""
    x = 2 + t
    return mp.digamma(x) / (x - DIGAMMA_ROOT) if x != DIGAMMA_ROOT else mp.polygamma(1, x)


def scaled_mills(v: mp.mpf) -> mp.mpf:
    """(1 + t) times Mills' ratio of the normal law at t = 4 (1+v)/(1-v); sqrt(pi/2) at 0, 1 at infinity."""
    if v > 1 - mp.mpf("1e-4"):
        x = (1 - v) / (4 * (1 + v))  # 1/t; the divergent expansion is exact to 60 digits this far out
        return (1 + x) * mp.nsum(lambda k: (-1) ** int(k) * mp.fac2(2 * k - 1) * x ** (2 * k), [0, 12])
    t = 4 * (1 + v) / (1 - v)
    return (1 + t) * mp.sqrt(mp.pi / 2) * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2))


def mills_slope(v: mp.mpf) -> mp.mpf:
    """The divided difference of `scaled_mills` from t = 0: (its value - sqrt(pi/2))/(v + 1)."""
    v = max(v, mp.mpf(-1) + mp.mpf("1e-20"))
    return (scaled_mills(v) - mp.sqrt(mp.pi / 2)) / (v + 1)


def binet_coefficients() -> list[mp.mpf]:
    """B_2k / (2k (2k-1)): log Gamma(x) = (x-1/2) log x - x + log(2 pi)/2 + sum of them times x^(1-2k) (DLMF 5.11.1)."""
    return [mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(1, 15)]


FUNCTIONS: dict[str, tuple[Callable[[mp.mpf], mp.mpf], str, str, str]] = {
    "kAtanh": (atanh_remainder, "0", "0.2500001", "(atanh(s)/s - 1)/z, z = s^2 in [0, 1/4]"),
    "kExpNear": (exp_remainder, "-0.3466", "0.3466", "(e^x - 1 - x)/x^2, |x| <= log(2)/2"),
    "kExpFar": (exp_remainder, "-1", "1", "(e^x - 1 - x)/x^2, |x| <= 1"),
    "kExpWide": (exp_remainder, "-1", "1.6", "(e^x - 1 - x)/x^2, -1 <= x <= 1.6"),
    "kMills": (mills_slope, "-1", "1", "((1+t) M(t) - M(0))/(v+1), M Mills' ratio, v = (t-4)/(t+4)"),
    "kDigamma": (digamma_over_root, "-1", "1", "digamma(x)/(x - root), t = x - 2, |t| <= 1"),
}


def fit(function: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf, target: mp.mpf) -> list[mp.mpf]:
    """Coefficients, constant first, of the smallest polynomial within `target`."""
    middle, half = (high + low) / 2, (high - low) / 2
    for degree in range(3, 40):
        nodes = [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * degree + 2)) for i in range(degree + 1)]
        matrix = mp.matrix(degree + 1, degree + 1)
        for i, node in enumerate(nodes):
            for j in range(degree + 1):
                matrix[i, j] = node**j
        coefficients = list(mp.lu_solve(matrix, mp.matrix([function(node) for node in nodes])))
        points = [low + (high - low) * i / 60 for i in range(61)]
        truth = [(x, function(x)) for x in points]
        error = max(abs(mp.polyval(coefficients[::-1], x) - y) / max(abs(y), mp.mpf(0.1)) for x, y in truth)
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
            if name in (DOUBLE_ONLY if kind == "float" else FLOAT_ONLY):
                continue
            values = fit(function, mp.mpf(low), mp.mpf(high), target)
            digits, suffix = (17, "") if kind == "double" else (9, "f")
            body = ",\n    ".join(mp.nstr(v, digits, strip_zeros=False) + suffix for v in values)
            lines.append(f"inline constexpr {kind} {name}{kind.title()}[] = {{\n    {body}}};")
    body = ",\n    ".join(mp.nstr(v, 17) for v in binet_coefficients())
    lines += ["", "// B_2k/(2k(2k-1)), k = 1, 2, ...", f"inline constexpr double kBinetDouble[] = {{\n    {body}}};"]
    high = mp.mpf(float(DIGAMMA_ROOT))
    low = mp.nstr(DIGAMMA_ROOT - high, 17)
    lines += ["", "// The positive root of digamma in two parts."]
    lines += [f"inline constexpr double kDigammaRoot = {mp.nstr(high, 17)}, kDigammaRootLow = {low};"]
    lines += ["", "}  // namespace kullback::coefficients", ""]
    Path(__file__).with_name("coefficients.h").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
