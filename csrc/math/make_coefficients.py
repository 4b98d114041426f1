"""Write `coefficients.h`: near-minimax polynomials for the functions the kernels evaluate.

    python csrc/math/make_coefficients.py

Those of Binet's remainder are written for the torch reference as well.

Each polynomial interpolates an analytic function at Chebyshev nodes with 60 digits and is then converted to powers.
The degree is the smallest whose largest error on the interval, relative to max(|value|, 0.1), stays under the target.
"""

from __future__ import annotations

import textwrap
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


def exp_beyond_square(x: mp.mpf) -> mp.mpf:
    """(e^x - 1 - x - x^2/2)/x^3: 1/6 + x/24 + x^2/120 + ..."""
    return mp.nsum(lambda k: x**k / mp.factorial(k + 3), [0, mp.inf]) if x else mp.mpf(1) / 6


def log1p_beyond_square(x: mp.mpf) -> mp.mpf:
    """(log(1+x) - x + x^2/2)/x^3: 1/3 - x/4 + x^2/5 - ..."""
    if abs(x) < mp.mpf("1e-3"):
        return mp.fsum((-x) ** k / (k + 3) for k in range(24))
    return (mp.log1p(x) - x + x * x / 2) / x**3


DOUBLE_ONLY = ("kLgamma", "kI0Small", "kI1Small", "kI0Large", "kI1OverI0Large")
FLOAT_ONLY = ("kLog1pCubic",)
# Factors of the target where the polynomial enters as a correction, like z times the first below 0.04.
# Divided differences, on the other hand, multiply an error by the square of the degree.
RELAXED = {
    "kExpCubic": 3,
    "kLog1pCubic": 3,
    "kAtanhNear": 16,
    "kBinetFromOne0": mp.mpf("0.1"),
    "kBinetFromOne1": mp.mpf("0.1"),
    "kBinetFromOne2": 4,
    "kBinetFromThree1": 16,
}
DIGAMMA_ROOT = mp.findroot(mp.digamma, 1.46)


def digamma_over_root(t: mp.mpf) -> mp.mpf:
    """digamma(x)/(x - root) with x = 2 + t."""
    x = 2 + t
    return mp.digamma(x) / (x - DIGAMMA_ROOT) if x != DIGAMMA_ROOT else mp.polygamma(1, x)


def lgamma_above_one(x: mp.mpf) -> mp.mpf:
    """The quotient log Gamma(1 + x)/x; -Euler's constant at 0."""
    return mp.loggamma(1 + x) / x if x > mp.mpf("1e-25") else -mp.euler


def i0_below(t: mp.mpf) -> mp.mpf:
    """(I_0(2 sqrt t) - 1)/t: the sum of t^k/(k+1)!^2."""
    return mp.nsum(lambda k: t**k / mp.factorial(k + 1) ** 2, [0, mp.inf]) if t else mp.mpf(1)


def i1_below(t: mp.mpf) -> mp.mpf:
    """I_1(2 sqrt t)/sqrt t: the sum of t^k/(k! (k+1)!)."""
    return mp.nsum(lambda k: t**k / mp.factorial(k) / mp.factorial(k + 1), [0, mp.inf]) if t else mp.mpf(1)


def scaled_bessel(order: int, v: mp.mpf) -> mp.mpf:
    """sqrt(2 pi x) e^-x I_order(x) at x = 1/v, near v = 0 by Hankel's expansion."""
    if v < mp.mpf("1e-3"):
        terms = [mp.mpf(1)]
        for k in range(1, 30):
            terms.append(terms[-1] * ((2 * k - 1) ** 2 - 4 * order**2) * v / (8 * k))
        return mp.fsum(terms)
    return mp.sqrt(2 * mp.pi / v) * mp.exp(-1 / v) * mp.besseli(order, 1 / v)


def i0_above(u: mp.mpf) -> mp.mpf:
    """sqrt(x) e^-x I_0(x) at u = 12/x - 1."""
    return scaled_bessel(0, (1 + u) / 12) / mp.sqrt(2 * mp.pi)


def i1_over_i0_above(u: mp.mpf) -> mp.mpf:
    """I_1(x)/I_0(x) at u = 12/x - 1."""
    return scaled_bessel(1, (1 + u) / 12) / scaled_bessel(0, (1 + u) / 12)


def debye_polynomials(count: int) -> list[list[mp.mpf]]:
    """u_k and v_k of DLMF 10.41(ii) for k = 1 .. count, u's first: coefficients of p^k, p^(k+2), ..., p^(3k)."""
    half = mp.mpf(1) / 2
    u = [[mp.mpf(1)]]
    v = [[mp.mpf(1)]]
    for k in range(count):
        powers = [k + 2 * j for j in range(k + 1)]
        rise = [c * (mp.mpf(p) / 2 + mp.mpf(1) / (8 * (p + 1))) for p, c in zip(powers, u[-1], strict=True)]
        fall = [c * (mp.mpf(p) / 2 + mp.mpf(5) / (8 * (p + 3))) for p, c in zip(powers, u[-1], strict=True)]
        turn = [c * (half + p) for p, c in zip(powers, u[-1], strict=True)]
        v.append(
            [
                a - b
                for a, b in zip(
                    [*(r - t for r, t in zip(rise, turn, strict=True)), 0],
                    [0, *(f - t for f, t in zip(fall, turn, strict=True))],
                    strict=True,
                )
            ]
        )
        u.append([a - b for a, b in zip([*rise, 0], [0, *fall], strict=True)])
    return u[1:] + v[1:]


def scaled_mills(w: mp.mpf) -> mp.mpf:
    """(1 + t) times Mills' ratio of the normal law at w = 1/(1 + t); sqrt(pi/2) at 1, 1 at 0."""
    if w < mp.mpf("2e-5"):
        x = w / (1 - w)  # 1/t; the divergent expansion is exact to 60 digits this far out
        return (1 + x) * mp.nsum(lambda k: (-1) ** int(k) * mp.fac2(2 * k - 1) * x ** (2 * k), [0, 12])
    t = 1 / w - 1
    return (1 + t) * mp.sqrt(mp.pi / 2) * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2))


def mills_slope(v: mp.mpf) -> mp.mpf:
    """The divided difference of `scaled_mills` from t = 0 at w = (1 - v)/2: (its value - sqrt(pi/2))/(v + 1)."""
    v = max(v, mp.mpf(-1) + mp.mpf("1e-20"))
    return (scaled_mills((1 - v) / 2) - mp.sqrt(mp.pi / 2)) / (v + 1)


def binet_coefficients(count: int = 14) -> list[mp.mpf]:
    """B_2k / (2k (2k-1)): log Gamma(x) = (x-1/2) log x - x + log(2 pi)/2 + sum of them times x^(1-2k) (DLMF 5.11.1)."""
    return [mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(1, count + 1)]


# The derivatives of Binet's remainder R above x0 in the variable u = 1 - 2 (x0 + c)/(x + c), one x0 and c per order,
# and what is left of R below BINET_NEAR once its poles and logarithm are taken out, in u = 2 x/BINET_NEAR - 1. The
# former hold a little below u = -1, because divided differences are worst at the end of an interval.
BINET_NEAR = mp.mpf("0.75")
BINET_FROM = ["0.25", "0.25", "0.5", "0.5", "0.5", "0.5"]
BINET_SHIFTS = ["0.5", "0.75", "1.5", "1.5", "1.75", "2"]


def remainder(order: int, x: mp.mpf) -> mp.mpf:
    """The order-th derivative of R(x) = log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2."""
    if x > 400:  # where the definition would cancel, the divergent expansion is exact to 60 digits
        terms = [c * mp.rf(2 * k + 1, order) / x ** (2 * k + 1 + order) for k, c in enumerate(binet_coefficients(30))]
        return (-1) ** order * mp.fsum(terms)
    if order == 0:
        return mp.loggamma(x) - (x - mp.mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2
    pole = (-1) ** (order - 1) * mp.factorial(order - 1) / x**order / 2
    main = mp.log(x) if order == 1 else (-1) ** order * mp.factorial(order - 2) / x ** (order - 1)
    return mp.polygamma(order - 1, x) - main + pole


def remainder_from(order: int, start: int) -> Callable[[mp.mpf], mp.mpf]:
    """|R's derivative| times x^(order + 1) at u = 1 - 2 start/x, for x from `start` on."""

    def function(u: mp.mpf) -> mp.mpf:
        if u == 1:
            return mp.factorial(order) / 12
        x = 2 * start / (1 - u)
        return (-1) ** order * remainder(order, x) * x ** (order + 1)

    return function


def scaled_remainder(order: int) -> Callable[[mp.mpf], mp.mpf]:
    """|R's derivative| times x^(order + 1), a slowly varying function of u."""
    start, shift = mp.mpf(BINET_FROM[order]), mp.mpf(BINET_SHIFTS[order])

    def function(u: mp.mpf) -> mp.mpf:
        if u == 1:
            return mp.factorial(order) / 12
        x = 2 * (start + shift) / (1 - u) - shift
        return (-1) ** order * remainder(order, x) * x ** (order + 1)

    return function


def regular_remainder(order: int) -> Callable[[mp.mpf], mp.mpf]:
    """Derivatives of R(x) + (x + 1/2) log(4x); from the second on of log Gamma(1 + x), whose poles are elsewhere."""

    def function(u: mp.mpf) -> mp.mpf:
        x = BINET_NEAR * (1 + u) / 2
        if order == 0:
            return mp.loggamma(1 + x) + (1 + 2 * mp.log(2)) * x + mp.log(2) - mp.log(2 * mp.pi) / 2
        return mp.polygamma(order - 1, 1 + x) + (2 * mp.log(2) if order == 1 else 0)

    return function


FUNCTIONS: dict[str, tuple[Callable[[mp.mpf], mp.mpf], str, str, str]] = {
    "kAtanh": (atanh_remainder, "0", "0.2500001", "(atanh(s)/s - 1)/z, z = s^2 in [0, 1/4]"),
    "kAtanhNear": (atanh_remainder, "0", "0.0405", "the same for z in [0, 0.0405]"),
    "kExpNear": (exp_remainder, "-0.3466", "0.3466", "(e^x - 1 - x)/x^2, |x| <= log(2)/2"),
    "kExpFar": (exp_remainder, "-1", "1", "(e^x - 1 - x)/x^2, |x| <= 1"),
    "kExpCubic": (exp_beyond_square, "-0.49", "0.49", "(e^x - 1 - x - x^2/2)/x^3, |x| <= 0.49"),
    "kLog1pCubic": (log1p_beyond_square, "-0.3334", "0.5001", "(log(1+x) - x + x^2/2)/x^3, -1/3 <= x <= 1/2"),
    "kMills": (mills_slope, "-1", "1", "((1+t) M(t) - M(0))/(v+1), M Mills' ratio, v = 1 - 2/(1+t)"),
    "kDigamma": (digamma_over_root, "-1", "1", "digamma(x)/(x - root), t = x - 2, |t| <= 1"),
    "kI0Small": (i0_below, "0", "9", "(I_0(x) - 1)/t, t = x^2/4 <= 9"),
    "kI1Small": (i1_below, "0", "9", "I_1(x) 2/x, t = x^2/4 <= 9"),
    "kI0Large": (i0_above, "-1", "1", "sqrt(x) e^-x I_0(x), u = 12/x - 1, x >= 6"),
    "kI1OverI0Large": (i1_over_i0_above, "-1", "1", "I_1(x)/I_0(x), u = 12/x - 1, x >= 6"),
    "kBinetFromOne0": (remainder_from(0, 1), "-1.1", "1", "R(x) x, R Binet's remainder, u = 1 - 2/x, x >= 1"),
    "kBinetFromOne1": (remainder_from(1, 1), "-1.1", "1", "-R'(x) x^2, likewise"),
    "kBinetFromOne2": (remainder_from(2, 1), "-1", "1", "R''(x) x^3, likewise"),
    "kBinetFromThree1": (remainder_from(1, 3), "-1", "1", "-R'(x) x^2, u = 1 - 6/x, x >= 3"),
    "kLgamma": (lgamma_above_one, "0", "1", "log Gamma(1 + x)/x, 0 <= x <= 1"),
}


def fit(function: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf, target: mp.mpf) -> list[mp.mpf]:
    """Coefficients, constant first, of the smallest polynomial within `target`."""
    middle, half = (high + low) / 2, (high - low) / 2
    for degree in range(3, 48):
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
    raise ValueError("no polynomial up to degree 47 reaches the target")


def fit_remainder() -> dict[str, list[mp.mpf]]:
    """The polynomials of Binet's remainder.

    Their divided differences are used too, which multiplies an error by the square of the degree: hence the target.
    """
    target = TARGETS["double"] / 100
    kinds = (("Scaled", scaled_remainder, mp.mpf("-1.1")), ("Regular", regular_remainder, mp.mpf(-1)))
    return {
        f"{kind}{order}": fit(function(order), low, mp.mpf(1), target)
        for kind, function, low in kinds
        for order in range(len(BINET_SHIFTS))
    }


def write_reference(remainders: dict[str, list[mp.mpf]]) -> None:
    """The same polynomials as Python lists, for the torch reference."""
    lines = ['"""Written by csrc/math/make_coefficients.py: Binet\'s remainder in polynomials, constant first."""', ""]
    for kind in ("Scaled", "Regular"):
        lines.append(f"{kind.upper()} = [")
        for order in range(len(BINET_SHIFTS)):
            lines += ["    [", *(f"        {float(v)!r}," for v in remainders[f"{kind}{order}"]), "    ],"]
        lines += ["]", ""]
    lines.append(f"SHIFTS = [{', '.join(repr(float(c)) for c in BINET_SHIFTS)}]")
    lines.append(f"FROM = [{', '.join(repr(float(c)) for c in BINET_FROM)}]")
    lines.append(f"NEAR = {float(BINET_NEAR)!r}")
    above_one = fit(lgamma_above_one, mp.mpf(0), mp.mpf(1), TARGETS["double"])
    lines += ["# log Gamma(1 + x)/x, 0 <= x <= 1.", "LGAMMA_ABOVE_ONE = ["]
    lines += [*(f"    {float(v)!r}," for v in above_one), "]"]
    root = Path(__file__).parents[2]
    target = root / "src/kullback/_core/special/_binet_coefficients.py"
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(kind: str, name: str, numbers: list[str]) -> list[str]:
    """A constant array, as many numbers to a line as fit."""
    body = textwrap.wrap(", ".join(numbers) + "};", 116, initial_indent="    ", subsequent_indent="    ")
    return [f"inline constexpr {kind} {name}[] = {{", *body]


def main() -> None:
    """Write the header beside this script, and the lists of the reference."""
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
            values = fit(function, mp.mpf(low), mp.mpf(high), target * RELAXED.get(name, 1))
            digits, suffix = (17, "") if kind == "double" else (9, "f")
            numbers = [mp.nstr(v, digits, strip_zeros=False) + suffix for v in values]
            lines += table(kind, f"{name}{kind.title()}", numbers)
    lines += ["", "// B_2k/(2k(2k-1)), k = 1, 2, ..."]
    lines += table("double", "kBinetDouble", [mp.nstr(v, 17) for v in binet_coefficients()])
    remainders = fit_remainder()
    lines += ["", "// Binet's remainder, orders 0 to 4: see make_coefficients.py."]
    for name, values in remainders.items():
        if not name.endswith("5"):
            lines += table("double", f"k{name}", [mp.nstr(v, 17, strip_zeros=False) for v in values])
    lines.append(f"inline constexpr double kShifts[] = {{{', '.join(BINET_SHIFTS)}}};")
    lines.append(f"inline constexpr double kScaledFrom[] = {{{', '.join(BINET_FROM)}}};")
    lines.append(f"inline constexpr double kRegularTo = {mp.nstr(BINET_NEAR)};")
    write_reference(remainders)
    count = 13
    lines += ["", "// Debye's u_k and v_k: row k - 1 holds the coefficients of p^k, p^(k+2), ..., p^(3k)."]
    rows = [[mp.nstr(c, 17) for c in row] + ["0"] * (count + 1 - len(row)) for row in debye_polynomials(count)]
    for name, part in (("U", rows[:count]), ("V", rows[count:])):
        body = ",\n    ".join("{" + ", ".join(row) + "}" for row in part)
        lines.append(f"inline constexpr double kDebye{name}[{count}][{count + 1}] = {{\n    {body}}};")
    high = mp.mpf(float(DIGAMMA_ROOT))
    low = mp.nstr(DIGAMMA_ROOT - high, 17)
    lines += ["", "// The positive root of digamma in two parts."]
    lines += [f"inline constexpr double kDigammaRoot = {mp.nstr(high, 17)}, kDigammaRootLow = {low};"]
    lines += ["", "}  // namespace kullback::coefficients", ""]
    Path(__file__).with_name("coefficients.h").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
