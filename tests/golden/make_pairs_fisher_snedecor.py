"""KL(FisherSnedecor ‖ ·) in mpmath: that of two Beta laws, one of them seen through a shift of the log-odds."""

from mpmath import digamma, exp, expm1, log, log1p, loggamma, mp, quad, sqrt

from tests.golden.pairs import near, rounded, write


def log_beta(a, b):
    return loggamma(a) + loggamma(b) - loggamma(a + b)


def fisher_snedecor(p, q):
    a, b, c, d = p["df1"] / 2, p["df2"] / 2, q["df1"] / 2, q["df2"] / 2
    shift = log(c * b / (d * a))
    total = digamma(a + b)
    beta = log_beta(c, d) - log_beta(a, b) + (a - c) * (digamma(a) - total) + (b - d) * (digamma(b) - total)
    constant = log_beta(a, b)

    def weighted(t):
        """At the log-odds t of a Beta(a, b) variable y: its density times log(1 + y·expm1(shift))."""
        tail = exp(-abs(t))
        log_density = (a if t < 0 else -b) * t - (a + b) * log1p(tail) - constant
        return exp(log_density) * log1p(expm1(shift) / (1 + exp(-t)))

    harmonic, middle = a * b / (a + b), log(a / b)
    if harmonic > 200:
        step = 1 / sqrt(harmonic) / 8
        mean = sum(weighted(middle + k * step) for k in range(-200, 201)) * step
    else:
        reach = (mp.dps + 3) * log(10)
        ends = [sign * (reach / size / 4**k + 5) for k in range(3) for sign, size in ((-1, a), (1, b))]
        points = {*ends, -shift, 0, *(sign * k for k in (3, 6, 12, 25, 50, 100, 200) for sign in (1, -1))}
        mean = quad(weighted, sorted(x for x in points if min(ends) <= x <= max(ends)), maxdegree=7)
    return beta - c * shift + (c + d) * mean


def main():
    laws = [
        (5.0, 7.0, 4.0, 9.0),
        (1.0, 1.0, 2.0, 3.0),
        (0.125, 0.25, 0.5, 0.0625),
        (2.0**-10, 5.0, 2.0**-9, 4.0),
        (5.0, 2.0**-10, 4.0, 2.0**-9),
        (40.0, 5.0, 300.0, 2.0),
        (5.0, 7.0, 50.0, 0.0078125),
        (1e3, 2e3, 2e3, 1e3),
        (1e6, 1e6, 1.25e6, 0.75e6),
        (1e12, 1e12, 1.5e12, 1e12),
        (1e4, 3.0, 1e3, 3.0),
        # Terms of the size of the larger parameter, of which nothing is left.
        (7.5, 8.75, 2e10, 8.75),
        (2.0, 1.9375, 9.75, 9e11),
        (3e4, 0.25, 2.0**-18, 24.0),
    ]
    names = ("df1", "df2")
    cases = [
        (rounded(dict(zip(names, row[:2], strict=True))), rounded(dict(zip(names, row[2:], strict=True))))
        for row in laws
    ]
    cases += near({"df1": 5.0, "df2": 7.0}, steps=(1, 4)) + near({"df1": 5.0, "df2": 7.0}, steps=(9,))
    cases += near({"df1": 1e12, "df2": 2e12}, steps=(1, 4, 8)) + near({"df1": 500.0, "df2": 800.0}, steps=(2, 7))
    write("FisherSnedecor", "FisherSnedecor", fisher_snedecor, cases, digits=48)
