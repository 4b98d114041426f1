"""KL(GeneralizedPareto ‖ ·) in mpmath: the expectation over p's exponential variable by quadrature."""

from mpmath import exp, expm1, inf, log, log1p, mpf, pi, quad

from tests.golden.pairs import near, rounded, write


def generalized_pareto(p, q):
    m, s, x = p["loc"], p["scale"], p["concentration"]
    n, t, y = q["loc"], q["scale"], q["concentration"]
    r, d, tiny = s / t, (m - n) / t, mpf(10) ** -12
    # Derivatives at touching ends are those from inside.
    if m - n < -tiny or (y < 0 and (x >= 0 or 1 + y * (d - r / x) < -tiny)) or (y == 0 and x >= 1):
        return inf
    if y == 0:
        return d + r / (1 - x) - log(r) - 1 - x

    def exponent(e):
        z = d + r * (expm1(x * e) / x if x else e)
        return log1p(y * z) / y

    # The logarithm is singular at E* ± iπ/x, or at E* < 0.
    kappa = (1 + y * d) * x / (y * r) - 1
    star = log(abs(kappa)) / x if x and kappa else -(1 + y * d) / (y * r)
    unit = pi / abs(x) if x else abs(star)
    powers = [mpf(10) ** k for k in range(-22, 3, 2)]
    points = {mpf(0), *powers}
    if star > 0:
        points |= {star, *(star + sign * unit * power for power in powers for sign in (1, -1))}
    end = max(star, 0) + 110
    points = sorted({point for point in points if 0 <= point < end} | {end})
    return -log(r) - (1 + x) + (1 + y) * quad(lambda e: exp(-e) * exponent(e), points, method="gauss-legendre")


def main():
    laws = [
        ((1.0, 1.0, 0.25), (0.0, 2.0, 0.5)),
        ((0.0, 1.0, 0.25), (0.0, 2.0, 0.5)),
        ((0.0, 1.0, 0.0), (0.0, 2.0, 0.25)),
        ((0.0, 1.0, 1.5), (0.0, 2.0, 0.0)),
        ((0.0, 1.0, -0.5), (-0.5, 2.0, 0.5)),
        ((0.0, 1.0, -0.5), (0.0, 2.0, -0.5)),
        ((0.0, 1.0, -2.0), (0.0, 1.0, -1.0)),
        ((0.0, 1.0, -0.5), (0.0, 1.0, -1.0)),
        ((0.0, 1.0, 0.5), (0.0, 1.0, -1.0)),
        ((0.0, 1.0, 0.5), (0.5, 1.0, 0.5)),
        ((0.0, 1.0, 1e-6), (0.0, 1.0, -1e-6)),
        ((0.0, 1.0, -1e-6), (0.0, 1.0, 1e-6)),
        ((0.0, 1.0, 3.0), (0.0, 1e3, 2.0)),
        ((0.0, 1.0, 3.0), (0.0, 1e-6, 2.0)),
        ((0.0, 1e10, 0.5), (0.0, 1e-10, 0.25)),
        ((0.0, 1e-2, 0.5), (0.0, 1e2, 0.25)),
        ((0.0, 1.0, 1e6), (0.0, 1.0, 2e6)),
        ((0.0, 1.0, 0.75), (0.0, 1.0, 1e-6)),
        ((0.0, 1.0, 2.0), (0.0, 1.0, 1e-3)),
        ((0.0, 1.0, 0.03125), (0.0, 1.0, 0.0009765625)),
    ]
    names = ("loc", "scale", "concentration")
    cases = [tuple(rounded(dict(zip(names, law, strict=True))) for law in pair) for pair in laws]
    for x in (0.25, 4.0, 1e-6):
        law = {"loc": 0.0, "scale": 1.25, "concentration": x}
        for exponent in (1, 5, 10) if x > 0.1 else (1, 4):
            step = (-1) ** exponent * 10.0**-exponent
            for a, b in ((1, 2), (1, 0), (0, 1)):
                moved = {"loc": 0.0, "scale": 1.25 * (1 + a * step), "concentration": x * (1 + b * step)}
                cases.append((law, moved) if exponent > 6 else (rounded(law), rounded(moved)))
    # The supports stay nested: a wider q, or one of a lower location.
    law = {"loc": 0.5, "scale": 1.25, "concentration": -0.375}
    for exponent in (1, 5, 10):
        step = 10.0**-exponent
        for a, b in ((1, 0.5), (1, 0), (0, -1)):
            moved = {"loc": 0.5, "scale": 1.25 * (1 + a * step), "concentration": -0.375 * (1 + b * step)}
            cases.append((law, moved) if exponent > 6 else (rounded(law), rounded(moved)))
    cases += near({"loc": 0.5, "scale": 1.25, "concentration": 0.25}, steps=(2, 8))
    write("GeneralizedPareto", "GeneralizedPareto", generalized_pareto, cases, digits=60)
