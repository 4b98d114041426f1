"""KL(Gamma ‖ ·) in mpmath."""

from mpmath import digamma, exp, log, log1p, loggamma, pi

from tests.golden.pairs import near, representable, rounded, write


def gamma_gamma(p, q):
    a, b, x, y = p["concentration"], q["concentration"], p["rate"], q["rate"]
    return (a - b) * digamma(a) - loggamma(a) + loggamma(b) + b * log(x / y) + a * (y - x) / x


def entropy(a, rate):
    return a - log(rate) + loggamma(a) + (1 - a) * digamma(a)


def gamma_gumbel(p, q):
    a, rate = p["concentration"], p["rate"]
    shifted = exp(q["loc"] / q["scale"] - a * log1p(1 / (rate * q["scale"])))
    return -entropy(a, rate) + log(q["scale"]) + (a / rate - q["loc"]) / q["scale"] + shifted


def gamma_normal(p, q):
    a, rate = p["concentration"], p["rate"]
    square = a / rate**2 + (a / rate - q["loc"]) ** 2
    return -entropy(a, rate) + log(2 * pi * q["scale"] ** 2) / 2 + square / (2 * q["scale"] ** 2)


def chi2_chi2(p, q):
    return gamma_gamma({"concentration": p["df"] / 2, "rate": 1}, {"concentration": q["df"] / 2, "rate": 1})


HARD = [
    (2.0, 1.5, 3.0, 0.7),
    (0.5, 1.0, 4.0, 1.0),
    (1e6, 1e6, 1.01e6, 1.01e6),
    (1e12, 1e12, 1.001e12, 1.001e12),
    (1e12, 3.7e5, 1.0000013e12, 3.7000049e5),
    (1e-6, 1.0, 2e-6, 3.0),
    (1e-6, 1.0, 1e12, 3.0),
    (1e12, 1.0, 1e-6, 3.0),
    (3.0, 1e-30, 3.0, 1e30),
    (3.0, 1e30, 2.0, 1e-30),
    (1e6, 1.0, 1.001e6, 1.0),
]
ONE_SIDED = [
    (2.0, 1.5, 0.7),
    (1.0, 1.5, 1.5),
    (1e-6, 1.0, 3.0),
    (1e12, 1.0, 1e-12),
    (3.0, 1e-30, 1e30),
    (3.0, 1e30, 1e-30),
]
REAL = [
    (2.0, 1.5, 0.5, 1.2),
    (0.3, 2.0, -4.0, 0.1),
    (1e3, 1.0, 1e3, 1.0),
    (1e12, 1.0, 1.000001e12, 1e6),
    (1e12, 1e6, 1e6, 1.0),
    (1e-6, 1.0, 0.0, 1.0),
    (3.0, 1e-30, 1.0, 1e30),
    (3.0, 1e30, 1e-30, 1e-30),
    (30.0, 3.0, 20.0, 40.0),
    (7.0, 1.0, -6.0, 0.25),
]


def main():
    cases = [
        (rounded({"concentration": a, "rate": x}), rounded({"concentration": b, "rate": y})) for a, x, b, y in HARD
    ]
    cases += near({"concentration": 2.5, "rate": 1.3}) + near(
        {"concentration": 1e9, "rate": 3.0}, steps=range(1, 13, 2)
    )
    cases += near({"concentration": 1e-6, "rate": 1e30}, steps=range(1, 13, 3))
    write("Gamma", "Gamma", gamma_gamma, cases)
    cases = [(rounded({"concentration": a, "rate": x}), rounded({"rate": y})) for a, x, y in ONE_SIDED]
    cases += [({"concentration": 1 + step, "rate": 2.0}, {"rate": 2.0 - step}) for step in (1e-3, 1e-6, 1e-9, 1e-12)]
    write("Gamma", "Exponential", lambda p, q: gamma_gamma(p, {"concentration": 1, **q}), cases)
    cases = [(rounded({"concentration": a, "rate": x}), rounded({"loc": m, "scale": s})) for a, x, m, s in REAL]
    write("Gamma", "Gumbel", representable(gamma_gumbel), cases)
    # Next to the closest Normal the slopes are what cancels; so is that to a scale as large as the distance.
    p = {"concentration": 2.5, "rate": 0.7}
    cases += [(p, {"loc": 2.5 / 0.7 + d, "scale": 2.5**0.5 / 0.7 * (1 + d)}) for d in (1e-9, 1e-12)]
    cases += [(p, {"loc": 1e8, "scale": 1e8})]
    write("Gamma", "Normal", gamma_normal, cases)
    cases = [
        (rounded({"df": a}), rounded({"df": b})) for a, b in [(3.0, 5.0), (1e-6, 1e12), (1e12, 1e-6), (1e12, 1.001e12)]
    ]
    write("Chi2", "Chi2", chi2_chi2, cases + near({"df": 3.5}) + near({"df": 1e8}))
