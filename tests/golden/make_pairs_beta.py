"""KL(Beta ‖ ·) in mpmath: minus the entropy of Beta(a, b), minus the expectation of log q."""

from mpmath import digamma, expm1, inf, log, loggamma, mpf, pi

from tests.golden.pairs import near, rounded, write


def _moments(p):
    a, b = p["concentration1"], p["concentration0"]
    log_beta = loggamma(a) + loggamma(b) - loggamma(a + b)
    log_x, log_1mx = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
    return a, b, (a - 1) * log_x + (b - 1) * log_1mx - log_beta, log_x, log_1mx


def beta_beta(p, q):
    _, _, negentropy, log_x, log_1mx = _moments(p)
    a, b = q["concentration1"], q["concentration0"]
    return negentropy + loggamma(a) + loggamma(b) - loggamma(a + b) - (a - 1) * log_x - (b - 1) * log_1mx


def beta_uniform(p, q):
    return _moments(p)[2] + log(q["high"] - q["low"]) if q["low"] <= 0 and q["high"] >= 1 else inf


def beta_continuous_bernoulli(p, q):
    a, b, negentropy, _, _ = _moments(p)
    t = q["logits"]
    return negentropy + (log(expm1(t) / t) if t else 0) - t * a / (a + b)


def beta_gamma(p, q):
    a, b, negentropy, log_x, _ = _moments(p)
    k, rate = q["concentration"], q["rate"]
    return negentropy - k * log(rate) + loggamma(k) - (k - 1) * log_x + rate * a / (a + b)


def beta_exponential(p, q):
    return beta_gamma(p, {"concentration": mpf(1), "rate": q["rate"]})


def beta_normal(p, q):
    a, b, negentropy, _, _ = _moments(p)
    c = a + b
    square = a * b / c**2 / (c + 1) + (a / c - q["loc"]) ** 2
    return negentropy + log(2 * pi * q["scale"] ** 2) / 2 + square / q["scale"] ** 2 / 2


def _p(a, b):
    return rounded({"concentration1": a, "concentration0": b})


LAWS = [
    (2.0, 3.0),
    (0.5, 0.25),
    (1e-6, 1e-6),
    (1e6, 1e6),
    (1e12, 1e12),
    (1e12, 1.0),
    (1e-6, 1e12),
    (3.0, 1e-6),
    (40.0, 7.0),
]


# A derivative to a bound of the support is one-sided where the bound touches; those of p are what the table holds.
GIVEN = [("p", "concentration1"), ("p", "concentration0")]


def main():
    hard = [
        ((2.0, 3.0), (3.0, 1.5)),
        ((1e6, 1e6), (1.1e6, 1.1e6)),
        ((1e12, 1e12), (1.001e12, 1.001e12)),
        ((1e4, 1e4), (10010.0, 1e4)),
        ((1e-6, 1e12), (1e-6, 1.1e12)),
        ((1e12, 1e-6), (5.0, 1e-6)),
        ((1e-6, 1e-6), (1e12, 1e12)),
        ((1e12, 1e12), (1e-6, 1e-6)),
        ((2.83, 1.1e-7), (1717.0, 1.1e-7)),
    ]
    cases = [(_p(*p), _p(*q)) for p, q in hard]
    for at in [(1.3, 0.7), (1e12, 1e12), (1e9, 1e-3)]:
        cases += near({"concentration1": at[0], "concentration0": at[1]}, steps=range(1, 13, 2))
    write("Beta", "Beta", beta_beta, cases, digits=120)
    limits = [(-1.0, 3.0), (0.0, 1.0), (0.5, 1.0), (-1e-12, 1.0), (-1e30, 1e30)]
    uniforms = [{"low": low, "high": high} for low, high in limits]
    write(
        "Beta",
        "Uniform",
        beta_uniform,
        [(_p(*a), rounded(q)) for a in LAWS for q in uniforms],
        gradients=GIVEN,
        digits=120,
    )
    some = [*LAWS, (1.0, 1.0), (1.001, 1.0), (1.0, 1 - 1e-6)]
    logits = [{"logits": t} for t in (0.5, 0.0, -3.0, 1e-3, -1e-7, 40.0, -800.0)]
    close = [(_p(a, 1.0), rounded({"logits": a})) for a in (2.0, 50.0, 1e12)]
    # Both laws are all but the same Exponential.
    close += [(_p(1.0, 800.0), {"logits": -800.0}), (_p(1.0, 1e12), {"logits": -1000000000011.0})]
    cases = [(_p(*a), rounded(q)) for a in some for q in logits] + close
    write("Beta", "ContinuousBernoulli", beta_continuous_bernoulli, cases, digits=120)
    gammas = [(2.0, 1.5), (0.5, 30.0), (1e-6, 1e-6), (1e6, 2e6)]
    close = [((3.0, 1e8), (3.0, 1e8)), ((1e-3, 50.0), (1e-3, 50.0)), ((2.0, 1e3), (2.001, 1e3))]
    cases = [(a, g) for a in LAWS for g in gammas] + close
    # The slope of the mean in the larger concentration is b/(a+b)².
    cases += [((6.1e11, 6e-5), (0.5, 6.7e21)), ((5.5e8, 7e-5), (1.15e11, 4.3e-5)), ((1e12, 1e-6), (3.0, 1e30))]
    # Gammas of the same mean and, nearly, the same variance.
    cases += [((1e12, 1e12), (2e12, 4e12)), ((1e12, 1e12), (2.0000001e12, 4e12)), ((0.3, 1e9), (0.3, 1e9))]
    cases += [((1e6, 1e9), (1.001e6, 1.002001e9)), ((1e4, 1e8), (10001.0, 100020001.0))]
    shaped = [(_p(*a), rounded({"concentration": k, "rate": r})) for a, (k, r) in cases]
    write("Beta", "Gamma", beta_gamma, shaped, digits=120)
    cases = [(_p(*a), rounded({"rate": r})) for a in LAWS for r in (1.5, 1e-30, 1e6)]
    cases += [(_p(1.0, 1e6), {"rate": 1e6}), (_p(4e8, 2e-6), {"rate": 4e11})]
    write("Beta", "Exponential", beta_exponential, cases, digits=120)
    normals = [(0.5, 0.3), (0.4, 1e-3), (-3.0, 1e10), (0.4, 1e-6), (1.0, 1e-12)]
    close = [((1e6, 1e6), (0.5, 3.5355e-4)), ((1e12, 3e12), (0.25, 2.165e-7)), ((30.0, 70.0), (0.3, 0.0456))]
    cases = [(a, n) for a in LAWS for n in normals] + close
    shaped = [(_p(*a), rounded({"loc": m, "scale": s})) for a, (m, s) in cases]
    # The closest Normal to rounding, and one whose slope to the scale is left over from equal squares.
    shaped += [(_p(30.0, 70.0), {"loc": 0.3, "scale": 0.04559819}), (_p(30.0, 70.0), {"loc": -1e8, "scale": 1e8})]
    shaped += [(_p(3.0, 1.0), {"loc": 0.75 + 1e-12, "scale": 0.19364916731037085})]
    write("Beta", "Normal", beta_normal, shaped, digits=120)
