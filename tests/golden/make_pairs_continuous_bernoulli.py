"""KL(ContinuousBernoulli ‖ ·) in mpmath."""

from mpmath import exp, expm1, inf, log, mpf, pi

from tests.golden.pairs import near, rounded, write


def eta(params):
    return params["logits"] if "logits" in params else log(params["probs"] / (1 - params["probs"]))


def log_normalizer(x):
    return log(expm1(x) / x) if x else mpf(0)


def mean(x):
    return 1 / (1 - exp(-x)) - 1 / x if x else mpf(1) / 2


def second_moment(x):
    return exp(x) / expm1(x) - 2 * mean(x) / x if x else mpf(1) / 3


def continuous_bernoulli_continuous_bernoulli(p, q):
    a, b = eta(p), eta(q)
    return log_normalizer(b) - log_normalizer(a) - (b - a) * mean(a)


def negative_entropy(p):
    a = eta(p)
    return a * mean(a) - log_normalizer(a)


def continuous_bernoulli_uniform(p, q):
    return negative_entropy(p) + log(q["high"] - q["low"]) if q["low"] <= 0 and q["high"] >= 1 else inf


def continuous_bernoulli_exponential(p, q):
    return negative_entropy(p) + q["rate"] * mean(eta(p)) - log(q["rate"])


def continuous_bernoulli_normal(p, q):
    a, loc, scale = eta(p), q["loc"], q["scale"]
    square = second_moment(a) - 2 * loc * mean(a) + loc**2
    return negative_entropy(p) + log(scale) + log(2 * pi) / 2 + square / (2 * scale**2)


def main():
    logits = [(1.0, -2.0), (40.0, 800.0), (-20.0, -100.0), (800.0, -800.0), (800.0, 790.0), (0.5, 5.0), (800.0, 1.0)]
    logits += [(2.5, 700.0), (1.0, 1e-8), (1e-8, 3e-8), (3.0, 7.5), (-5.0, 1.5), (800.0, 2.5), (6.0, 1.75), (1e6, 2.0)]
    cases = [(rounded({"logits": a}), rounded({"logits": b})) for a, b in logits]
    probs = [(0.3, 0.6), (0.499, 0.49), (0.001, 0.999), (1e-6, 0.5), (0.3, 0.4990001)]
    cases += [(rounded({"probs": a}), rounded({"probs": b})) for a, b in probs]
    cases += (
        near({"probs": 0.3})
        + near({"logits": 1e-3}, steps=[1, 4, 8, 12])
        + near({"logits": -30.0}, steps=[1, 4, 8, 12])
    )
    cases += near({"probs": 0.4997}, steps=[4, 8, 12])
    write("ContinuousBernoulli", "ContinuousBernoulli", continuous_bernoulli_continuous_bernoulli, cases, digits=1000)
    p = [{"logits": 2.5}, {"probs": 0.3}, {"probs": 0.501}, {"logits": 1e-6}, {"logits": 800.0}, {"logits": -90.0}]
    bounds = [{"low": -1.0, "high": 2.0}, {"low": -0.25, "high": 1.0009765625}, {"low": -1e30, "high": 1e30}]
    cases = [(rounded(a), rounded(b)) for a in p for b in bounds] + [({"logits": 1.5}, {"low": 0.0, "high": 0.5})]
    # Next to ½ the log-odds are a difference.
    cases += [({"probs": 0.5 + 2.0**-20}, {"low": -1e-300, "high": 1.0 + 2.0**-52})]
    write("ContinuousBernoulli", "Uniform", continuous_bernoulli_uniform, cases, digits=1000)
    cases = [(rounded(a), rounded({"rate": r})) for a in p for r in (1.5, 1e-6, 80.0, 1e5)]
    write("ContinuousBernoulli", "Exponential", continuous_bernoulli_exponential, cases, digits=1000)
    scales = [(0.25, 0.5), (1.0, 1e-3), (0.0, 1e-3), (-1e4, 1e4), (0.5, 1e20)]
    cases = [(rounded(a), rounded({"loc": m, "scale": s})) for a in p for m, s in scales]
    write("ContinuousBernoulli", "Normal", continuous_bernoulli_normal, cases, digits=1000)
