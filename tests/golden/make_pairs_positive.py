"""KL between laws on the half-line (and to a Normal) in mpmath: entropy and moments of p, textbook log-density of q.

Every moment is the textbook one; none of the library's excesses and remainders is used.
"""

import mpmath
from mpmath import cos, digamma, euler, exp, gamma, inf, log, loggamma, mpf, pi, sqrt

from tests.golden.pairs import representable, rounded, write


class Law:
    """Differential entropy, E log x, E x^c (infinite where it diverges)."""

    def __init__(self, entropy, mean_log, power):
        self.entropy, self.mean_log, self.power = entropy, mean_log, power


def gamma_law(p):
    a, rate = mpf(p.get("concentration", 1)), p["rate"]
    return Law(
        a - log(rate) + loggamma(a) + (1 - a) * digamma(a),
        digamma(a) - log(rate),
        lambda c: exp(loggamma(a + c) - loggamma(a) - c * log(rate)) if a + c > 0 else inf,
    )


def inverse_gamma_law(p):
    a, rate = p["concentration"], p["rate"]
    return Law(
        a + log(rate) + loggamma(a) - (1 + a) * digamma(a),
        log(rate) - digamma(a),
        lambda c: exp(loggamma(a - c) - loggamma(a) + c * log(rate)) if a - c > 0 else inf,
    )


def half_normal_law(p):
    s = p["scale"]
    return Law(
        log(pi * s * s / 2) / 2 + mpf(1) / 2,
        log(s) - (euler + log(2)) / 2,
        lambda c: (s * sqrt(2)) ** c * gamma((1 + c) / 2) / sqrt(pi) if c > -1 else inf,
    )


def weibull_law(p):
    s, k = p["scale"], p["concentration"]
    return Law(
        euler * (1 - 1 / k) + log(s / k) + 1,
        log(s) - euler / k,
        lambda c: exp(c * log(s) + loggamma(1 + c / k)) if 1 + c / k > 0 else inf,
    )


def log_normal_law(p):
    m, s = p["loc"], p["scale"]
    return Law(m + log(2 * pi * mpmath.e * s * s) / 2, m, lambda c: exp(c * m + c * c * s * s / 2))


def pareto_law(p):
    s, a = p["scale"], p["alpha"]
    return Law(log(s / a) + 1 + 1 / a, log(s) + 1 / a, lambda c: s**c * a / (a - c) if c < a else inf)


def half_cauchy_law(p):
    s = p["scale"]
    return Law(log(2 * pi * s), log(s), lambda c: s**c / cos(pi * c / 2) if abs(c) < 1 else inf)


def fisher_law(p):
    a, b = p["df1"] / 2, p["df2"] / 2
    log_beta = loggamma(a) + loggamma(b) - loggamma(a + b)
    return Law(
        log(b / a) + log_beta + (1 - a) * digamma(a) - (1 + b) * digamma(b) + (a + b) * digamma(a + b),
        log(b / a) + digamma(a) - digamma(b),
        lambda c: (
            exp(c * log(b / a) + loggamma(a + c) + loggamma(b - c) - loggamma(a) - loggamma(b))
            if a + c > 0 and b - c > 0
            else inf
        ),
    )


def beta_law(p):
    a, b = p["concentration1"], p["concentration0"]
    log_beta = loggamma(a) + loggamma(b) - loggamma(a + b)
    return Law(
        log_beta - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b),
        digamma(a) - digamma(a + b),
        lambda c: exp(loggamma(a + c) + loggamma(b) - loggamma(a + b + c) - log_beta) if a + c > 0 else inf,
    )


def kumaraswamy_law(p):
    a, b = p["concentration1"], p["concentration0"]
    harmonic = digamma(b + 1) + euler
    return Law(
        1 - 1 / b + (1 - 1 / a) * harmonic - log(a * b),
        -harmonic / a,
        lambda c: b * exp(loggamma(1 + c / a) + loggamma(b) - loggamma(1 + c / a + b)) if 1 + c / a > 0 else inf,
    )


def uniform_law(p):
    low, high = p["low"], p["high"]

    def power(c):
        if c == -1:
            return inf if low == 0 else log(high / low) / (high - low)
        return (high ** (c + 1) - (low ** (c + 1) if low else 0)) / ((c + 1) * (high - low))

    ends = high * log(high) - (low * log(low) if low else 0)
    return Law(log(high - low), ends / (high - low) - 1, power)


def to_gamma(law, q):
    b, rate = mpf(q.get("concentration", 1)), q["rate"]
    return loggamma(b) - b * log(rate) - (b - 1) * law.mean_log + rate * law.power(1) - law.entropy


def to_inverse_gamma(law, q):
    b, rate = q["concentration"], q["rate"]
    return loggamma(b) - b * log(rate) + (b + 1) * law.mean_log + rate * law.power(-1) - law.entropy


def to_half_normal(law, q):
    s = q["scale"]
    return log(pi * s * s / 2) / 2 + law.power(2) / (2 * s * s) - law.entropy


def to_weibull(law, q):
    s, k = q["scale"], q["concentration"]
    return k * log(s) - log(k) - (k - 1) * law.mean_log + law.power(k) / s**k - law.entropy


def to_log_normal(law, q, variance):
    m, s = q["loc"], q["scale"]
    second = variance + (law.mean_log - m) ** 2
    return log(2 * pi * s * s) / 2 + law.mean_log + second / (2 * s * s) - law.entropy


def to_normal(law, q):
    m, s = q["loc"], q["scale"]
    if law.power(2) == inf:
        return inf
    second = law.power(2) - 2 * m * law.power(1) + m * m
    return log(2 * pi * s * s) / 2 + second / (2 * s * s) - law.entropy


def trigamma(x):
    return mpmath.psi(1, x)


def variance_of_log_uniform(p):
    low, high = p["low"], p["high"]

    def square(x):
        return x * (log(x) ** 2 - 2 * log(x) + 2) if x else 0

    return (square(high) - square(low)) / (high - low) - uniform_law(p).mean_log ** 2


LAWS = {
    "Beta": (
        beta_law,
        lambda p: trigamma(p["concentration1"]) - trigamma(p["concentration1"] + p["concentration0"]),
    ),
    "Exponential": (gamma_law, lambda p: pi**2 / 6),
    "FisherSnedecor": (fisher_law, lambda p: trigamma(p["df1"] / 2) + trigamma(p["df2"] / 2)),
    "Gamma": (gamma_law, lambda p: trigamma(p["concentration"])),
    "HalfCauchy": (half_cauchy_law, lambda p: pi**2 / 4),
    "HalfNormal": (half_normal_law, lambda p: pi**2 / 8),
    "InverseGamma": (inverse_gamma_law, lambda p: trigamma(p["concentration"])),
    "Kumaraswamy": (
        kumaraswamy_law,
        lambda p: (pi**2 / 6 - trigamma(1 + p["concentration0"])) / p["concentration1"] ** 2,
    ),
    "LogNormal": (log_normal_law, lambda p: p["scale"] ** 2),
    "Pareto": (pareto_law, lambda p: 1 / p["alpha"] ** 2),
    "Uniform": (uniform_law, variance_of_log_uniform),
    "Weibull": (weibull_law, lambda p: pi**2 / 6 / p["concentration"] ** 2),
}
TARGETS = {
    "Exponential": to_gamma,
    "Gamma": to_gamma,
    "HalfNormal": to_half_normal,
    "InverseGamma": to_inverse_gamma,
    "Normal": to_normal,
    "Weibull": to_weibull,
}
PAIRS = {
    "Beta": ["HalfNormal", "InverseGamma", "LogNormal"],
    "Exponential": ["HalfNormal", "LogNormal", "Weibull"],
    "FisherSnedecor": ["HalfNormal", "LogNormal", "Normal"],
    "Gamma": ["HalfNormal", "InverseGamma", "LogNormal", "Weibull"],
    "HalfCauchy": ["LogNormal", "Weibull"],
    "HalfNormal": ["Exponential", "Gamma", "LogNormal", "Normal", "Weibull"],
    "InverseGamma": ["Exponential", "Gamma", "HalfNormal", "LogNormal", "Normal", "Weibull"],
    "Kumaraswamy": ["HalfNormal", "InverseGamma", "LogNormal", "Normal"],
    "LogNormal": ["Exponential", "Gamma", "HalfNormal", "InverseGamma", "Normal", "Weibull"],
    "Pareto": ["HalfNormal", "InverseGamma", "LogNormal", "Weibull"],
    "Uniform": ["InverseGamma", "LogNormal", "Weibull"],
    "Weibull": ["Exponential", "HalfNormal", "InverseGamma", "LogNormal", "Normal"],
}


def named(*names):
    return lambda *values: dict(zip(names, values, strict=True))


MAKE = {
    "Beta": named("concentration1", "concentration0"),
    "Exponential": named("rate"),
    "FisherSnedecor": named("df1", "df2"),
    "Gamma": named("concentration", "rate"),
    "HalfCauchy": named("scale"),
    "HalfNormal": named("scale"),
    "InverseGamma": named("concentration", "rate"),
    "Kumaraswamy": named("concentration1", "concentration0"),
    "LogNormal": named("loc", "scale"),
    "Normal": named("loc", "scale"),
    "Pareto": named("scale", "alpha"),
    "Uniform": named("low", "high"),
    "Weibull": named("scale", "concentration"),
}
# Typical first; then narrow, wide, heavy-tailed, tiny and large scales.
P = {
    "Beta": [(2.0, 3.0), (1e10, 3e9), (0.3, 40.0), (7.0, 1e5), (1e4, 0.5)],
    "Exponential": [(1.5,), (1e-30,), (4e20,)],
    "FisherSnedecor": [(5.0, 9.0), (3e6, 2e6), (0.5, 4.5), (1e3, 3.0)],
    "Gamma": [(2.5, 1.5), (1e10, 3e9), (1e-3, 2.0), (3.0, 1e-30)],
    "HalfCauchy": [(1.3,), (1e-30,), (1e25,)],
    "HalfNormal": [(0.8,), (1e-30,), (1e25,)],
    "InverseGamma": [(3.5, 2.0), (1e10, 3e9), (0.5, 2.0), (5.0, 1e-30)],
    "Kumaraswamy": [(2.0, 3.0), (1e4, 0.5), (0.3, 40.0), (7.0, 1e5)],
    "LogNormal": [(0.3, 0.5), (1.0, 1e-6), (-2.0, 4.0), (60.0, 0.3)],
    "Pareto": [(1.2, 3.4), (2.0, 1e5), (0.7, 0.4), (1e-25, 6.0)],
    "Uniform": [(0.5, 2.0), (0.0, 3.0), (1.5, 1.5000001), (1e-20, 1e10)],
    "Weibull": [(1.3, 1.7), (2.0, 1e5), (0.7, 0.08), (1e-25, 3.6)],
}
Q = {
    "Exponential": [(0.7,), (1e-25,)],
    "Gamma": [(2.5, 1.1), (1e6, 3e5), (1e-5, 3.0), (40.0, 1e20)],
    "HalfNormal": [(1.1,), (1e25,)],
    "InverseGamma": [(2.2, 1.4), (1e6, 2.7e6), (1e-5, 0.3), (20.0, 1e-20)],
    "LogNormal": [(0.2, 0.7), (1.0, 1e-5), (-50.0, 10.0)],
    "Normal": [(0.5, 1.2), (2.7, 1e-3), (-3.0, 1e25)],
    "Weibull": [(1.1, 0.8), (3.0, 9.0), (1e20, 0.3)],
}
# Where two families are close, Gaussian-like on the logarithmic axis or nearly exponential, or terms far apart cancel.
CLOSE = {
    ("Beta", "InverseGamma"): [((1e4, 1e4), (2.02e4, 1e4)), ((3e4, 1e2), (2e2, 1.98e2))],
    ("Beta", "LogNormal"): [((1e6, 1e6), (-0.6931471805599453, 7e-4)), ((1e3, 1e3), (-0.7, 0.02))],
    ("Gamma", "InverseGamma"): [((1e6, 1e6), (1e6, 1e6)), ((1e4, 2e4), (1.01e4, 5e3))],
    ("Gamma", "LogNormal"): [((1e6, 1e6), (0.0, 1e-3)), ((1e10, 1e10), (0.0, 1.1e-5))],
    ("Gamma", "Weibull"): [
        ((1.0 + s, 2.0), (0.5 - s, 1.0 + t * s)) for s in (1e-2, -1e-5, 1e-9, 1e-12) for t in (1.0, -2.0)
    ],
    ("Exponential", "Weibull"): [((2.0,), (0.5, 1.0 + s)) for s in (1e-2, -1e-5, 1e-9, 1e-12)],
    ("InverseGamma", "Gamma"): [((1e6, 1e6), (1e6, 1e6)), ((1e4, 2e4), (1.01e4, 5e3))],
    ("InverseGamma", "LogNormal"): [((1e6, 1e6), (0.0, 1e-3))],
    ("InverseGamma", "Normal"): [((1e6, 1e6), (1.0, 1e-3))],
    ("LogNormal", "Gamma"): [((0.0, 1e-3), (1e6, 1e6)), ((1.0, 1e-2), (1.01e4, 3.7e3)), ((-67.0, 3.0), (6e11, 1.7e7))],
    ("LogNormal", "InverseGamma"): [((0.0, 1e-3), (1e6, 1e6)), ((1.0, 1e-2), (1.01e4, 2.7e4))],
    ("LogNormal", "Normal"): [((0.0, 1e-3), (1.0, 1e-3)), ((0.0, 1e-7), (1.0, 1e-7))],
    ("FisherSnedecor", "LogNormal"): [((2e6, 2e6), (0.0, 1.5e-3))],
    ("FisherSnedecor", "HalfNormal"): [((2.5e-3, 5.5e9), (14.5,)), ((1.4e-5, 2e6), (3.8e-3,))],
    ("FisherSnedecor", "Normal"): [((2e6, 2e6), (1.0, 1.5e-3)), ((3.2e-6, 1.3e4), (-0.02, 0.7))],
    ("Weibull", "Exponential"): [((0.5, 1.0 + s), (2.0 - s,)) for s in (1e-2, -1e-5, 1e-9, 1e-12)],
    ("Weibull", "Normal"): [((1.0, 3.6), (0.9, 0.28))],
}


def cases(p, q):
    typical_p, *other_p = P[p]
    typical_q, *other_q = Q[q]
    chosen = [(typical_p, typical_q), *((x, typical_q) for x in other_p), *((typical_p, y) for y in other_q)]
    chosen += [(other_p[0], other_q[0])]
    rows = [(rounded(MAKE[p](*x)), rounded(MAKE[q](*y))) for x, y in chosen]
    return rows + [(MAKE[p](*x), MAKE[q](*y)) for x, y in CLOSE.get((p, q), [])]


def divergence(p, q):
    law_of, variance_of = LAWS[p]

    def kl(params_p, params_q):
        if q == "LogNormal":
            return to_log_normal(law_of(params_p), params_q, variance_of(params_p))
        return TARGETS[q](law_of(params_p), params_q)

    return representable(kl)


def main():
    for p, targets in PAIRS.items():
        for q in targets:
            # At a lower end of 0 the derivative to it is infinite.
            wanted = [("p", "high"), *(("q", name) for name in MAKE[q](*Q[q][0]))] if p == "Uniform" else None
            write(p, q, divergence(p, q), cases(p, q), gradients=wanted)
