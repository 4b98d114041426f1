"""KL(Normal ‖ StudentT) and KL(Normal ‖ Cauchy) in mpmath: E log(1 + Q/ν) by quadrature."""

from mpmath import e, log, log1p, loggamma, mpf, npdf, pi, quad, sqrt

from tests.golden.pairs import rounded, write


def normal_student_t(p, q):
    n, d = q["df"], q["scale"] * sqrt(q["df"]) / p["scale"]
    c = (q["loc"] - p["loc"]) / p["scale"]
    # The logarithm is singular at z = c ± id.
    around = [c + sign * d * mpf(10) ** k for k in range(-1, 30, 2) for sign in (1, -1)]
    points = sorted({mpf(k) for k in (-16, -8, -3, 0, 3, 8, 16)} | {z for z in (c, *around) if abs(z) < 16})
    mean = quad(lambda z: npdf(z) * log1p((z - c) ** 2 / d**2), points, method="gauss-legendre")
    normaliser = log(n * pi) / 2 + loggamma(n / 2) - loggamma((n + 1) / 2)
    return log(q["scale"] / p["scale"]) - log(2 * pi * e) / 2 + normaliser + (n + 1) / 2 * mean


def normal_cauchy(p, q):
    return normal_student_t(p, {"df": mpf(1), **q})


def main():
    laws = [
        (0.0, 1.0, 4.0, 0.5, 1.5),
        (0.0, 1.0, 1.0, 0.0, 1.0),
        (0.0, 1.0, 3.0, 3.0, 1e-6),
        (0.5, 1e30, 2.0, 0.0, 1e10),
        (0.5, 1e-3, 2.0, 0.0, 1e3),
        (0.0, 1.0, 2.0, 100.0, 1.0),
        (0.0, 1.0, 1e4, 100.0, 1.0),
        (1e6, 0.25, 0.03125, 1e6, 0.125),
        (0.0, 1.0, 40.0, 0.25, 1.25),
        (0.0, 1.0, 1e3, 0.25, 1.0),
        # A q far narrower than p, elsewhere: its singular points lie closer to the axis than p's own rounding.
        (0.25, 1.25, 3.0, 1.25, 1e-8),
        (0.25, 1.25, 3.0, 1.25, 1e-13),
        (0.25, 1.25, 3.0, 0.5, 1e-20),
        (0.0, 1.0, 1e6, 2.0**-10, 1 - 2.0**-10),
        (0.0, 1.0, 1e9, 2.0**-20, 1 + 2.0**-20),
    ]
    cases = [(rounded({"loc": m, "scale": s}), rounded({"df": n, "loc": k, "scale": t})) for m, s, n, k, t in laws]
    write("Normal", "StudentT", normal_student_t, cases, digits=60)
    cases = [(p, {"loc": q["loc"], "scale": q["scale"]}) for p, q in cases[:13]]
    write("Normal", "Cauchy", normal_cauchy, cases, digits=60)
