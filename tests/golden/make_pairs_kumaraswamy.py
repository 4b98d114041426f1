"""KL(Kumaraswamy ‖ ·) in mpmath: E log(1 − x^c) by quadrature, the rest in closed form."""

from mpmath import beta, digamma, euler, exp, expm1, log, log1p, mpf, quad

from tests.golden.pairs import rounded, write


def minus_log_complement(a, b, c):
    """E[−log(1 − x^c)] for x of Kumaraswamy(a, b)."""
    r = c / a

    def weighted(s):
        """At the logit s of y = x^a: the density of p times −log(1 − y^r)."""
        length, v = log1p(exp(-s)), log1p(exp(s))
        return b * exp(-length - b * v) * -log(-expm1(-r * length))

    centre = -log(max(b, 1))
    right = [centre + 40, 10 / b, 40 / b, 100 / b] if b < 1 else [centre + 40, centre + 110]
    if b >= 0.125:
        # Analytic in a strip of half-width π/2: the trapezoid rule errs by e^(−2π·(π/2)·8).
        return sum(weighted(mpf(k) / 8) for k in range(int(8 * (centre - 120)), int(8 * right[-1]))) / 8
    return quad(weighted, [centre + k for k in (-120, -60, -20, -8, -3, 0, 3, 8, 20)] + right)


def kumaraswamy_kumaraswamy(p, q):
    a, b = p["concentration1"], p["concentration0"]
    c, d = q["concentration1"], q["concentration0"]
    mean_length = euler + digamma(b + 1)
    mean = minus_log_complement(a, b, c)
    return log(a * b / (c * d)) + (c / a - 1) * mean_length - (b - 1) / b + (d - 1) * mean


def kumaraswamy_beta(p, q):
    a, b = p["concentration1"], p["concentration0"]
    c, d = q["concentration1"], q["concentration0"]
    mean_length = euler + digamma(b + 1)
    mean = minus_log_complement(a, b, mpf(1))
    return log(a * b * beta(c, d)) + (c / a - 1) * mean_length - (b - 1) / b + (d - 1) * mean


def kumaraswamy_uniform(p, q):
    a, b = p["concentration1"], p["concentration0"]
    return log(a * b * (q["high"] - q["low"])) - (1 - 1 / a) * (euler + digamma(b + 1)) - (b - 1) / b


def main():
    hard = [(2.0, 3.0, 1.5, 4.0), (0.5, 0.25, 3.0, 2.0), (1.0, 1e4, 1.125, 2e4), (1e3, 0.5, 1.0, 1.0)]
    hard += [(1e-3, 2.0, 100.0, 0.125), (3.0, 2.0, 3.0, 5.0), (2.0, 3.0, 2.0, 3.0 + 2.0**-10)]
    hard += [
        (2.0, 3.0, 2 + 2.0**-20, 3 - 2.0**-19),
        (1.5, 0.25, 1.5 + 2.0**-12, 0.25),
        (2.0, 9.0, 2 + 2.0**-28, 9 - 2.0**-27),
    ]
    # Large b: x is small, and log(1 − xᵃ) too; far from b_q the terms in b are 10⁷ times the divergence.
    hard += [
        (0.5, 2.0**38, 0.5 + 2.0**-17, 2.0**38 - 2.0**20),
        (1.5, 1e12, 1.5, 1e12 + 2.0**20),
        (1.5, 2.0**33, 1.5 + 2.0**-26, 2.0**33),
        (56.0, 2.0**26, 2.0**-13, 2.0**-20),
        (90.0, 2.0**15, 2.0**-4, 2.0**-9),
        (2.0**-6, 1e9, 2.0**-3, 1e9),
    ]
    names = ("concentration1", "concentration0")
    cases = [(dict(zip(names, row[:2], strict=True)), dict(zip(names, row[2:], strict=True))) for row in hard]
    write("Kumaraswamy", "Kumaraswamy", kumaraswamy_kumaraswamy, [(rounded(p), q) for p, q in cases], digits=60)
    hard = [(2.0, 3.0, 1.5, 4.0), (0.5, 0.25, 3.0, 2.0), (1e3, 0.5, 1.0, 1.0), (2.0**-10, 2.0, 100.0, 0.125)]
    hard += [(1.0, 1e4, 1.125, 2e4), (1.5, 1e12, 1.25, 1e9), (2.0, 2.0**-10, 1.0, 2.0**-9), (1e6, 0.125, 0.5, 1e6)]
    for k in (4, 30):
        e = 2.0**-k
        hard += [(1 + e, 3.0, 1 - e, 3 + e), (1 + e, 3.0, 1.0, 3.0), (3.0, 1 + e, 3 + e, 1.0), (3.0, 1.0, 3.0, 1 - e)]
        hard += [(1.0, 3.0, 1.0, 3 + e), (1.0, 1.0, 1 + e, 1 - e), (1 + e, 1e6, 1.0, 1e6), (1.0, 0.125, 1 + e, 0.125)]
    cases = [(dict(zip(names, row[:2], strict=True)), dict(zip(names, row[2:], strict=True))) for row in hard]
    cases[:8] = [(rounded(p), rounded(q)) for p, q in cases[:8]]
    write("Kumaraswamy", "Beta", kumaraswamy_beta, cases, digits=48)
    names, units = ("concentration1", "concentration0"), {"low": 0.0, "high": 1.0}
    hard = [(2.0, 3.0), (0.5, 0.25), (1e3, 0.5), (2.0**-10, 2.0), (1.5, 1e12), (1e-6, 1e-6), (1e6, 1e6), (0.75, 1.0)]
    for k in (4, 12, 30):
        e = 2.0**-k
        hard += [(1 + e, 1.0), (1.0, 1 - e), (1 + e, 1 + e), (1 - e, 1 + e), (1.0, 1 + e), (1 + e, 3.0)]
    cases = [(rounded(dict(zip(names, row, strict=True))), units) for row in hard]
    cases = [(p, {"low": -0.125, "high": 1.25}) for p, _ in cases[:4]] + cases
    write("Kumaraswamy", "Uniform", kumaraswamy_uniform, cases, digits=80)
