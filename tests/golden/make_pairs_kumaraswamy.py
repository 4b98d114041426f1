"""KL(Kumaraswamy ‖ ·) in mpmath: E log(1 − x^c) by quadrature, the rest in closed form."""

from mpmath import digamma, euler, exp, expm1, log, log1p, quad

from tests.golden.pairs import rounded, write


def kumaraswamy_kumaraswamy(p, q):
    a, b = p["concentration1"], p["concentration0"]
    c, d = q["concentration1"], q["concentration0"]
    r = c / a

    def weighted(s):
        """At the logit s of y = x^a: the density of p times −log(1 − y^r)."""
        length, v = log1p(exp(-s)), log1p(exp(s))
        return b * exp(-length - b * v) * -log(-expm1(-r * length))

    centre = -log(max(b, 1))
    right = [centre + 40, 10 / b, 40 / b, 100 / b] if b < 1 else [centre + 40, centre + 110]
    mean = quad(weighted, [centre + k for k in (-120, -60, -20, -8, -3, 0, 3, 8, 20)] + right)
    mean_length = euler + digamma(b + 1)
    return log(b / (r * d)) + (r - 1) * mean_length - (b - 1) / b + (d - 1) * mean


def main():
    hard = [(2.0, 3.0, 1.5, 4.0), (0.5, 0.25, 3.0, 2.0), (1.0, 1e4, 1.125, 2e4), (1e3, 0.5, 1.0, 1.0)]
    hard += [(1e-3, 2.0, 100.0, 0.125), (3.0, 2.0, 3.0, 5.0), (2.0, 3.0, 2.0, 3.0 + 2.0**-10)]
    hard += [
        (2.0, 3.0, 2 + 2.0**-20, 3 - 2.0**-19),
        (1.5, 0.25, 1.5 + 2.0**-12, 0.25),
        (2.0, 9.0, 2 + 2.0**-28, 9 - 2.0**-27),
    ]
    names = ("concentration1", "concentration0")
    cases = [(dict(zip(names, row[:2], strict=True)), dict(zip(names, row[2:], strict=True))) for row in hard]
    write("Kumaraswamy", "Kumaraswamy", kumaraswamy_kumaraswamy, [(rounded(p), q) for p, q in cases], digits=60)
