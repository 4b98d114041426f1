"""KL(RelaxedBernoulli ‖ ·) in mpmath: the integral of two logistic densities on the logit scale."""

from mpmath import coth, exp, log, log1p, mpf, quad

from tests.golden.make_pairs_continuous_bernoulli import eta
from tests.golden.pairs import rounded, write


def log_logistic(x):
    return -abs(x) - 2 * log1p(exp(-abs(x)))


def relaxed_bernoulli_relaxed_bernoulli(p, q):
    a, b, c = eta(p), eta(q), q["temperature"] / p["temperature"]
    if c == 1:
        return (a - b) * coth((a - b) / 2) - 2 if a != b else mpf(0)

    def integrand(x):
        log_p = log_logistic(x)
        return exp(log_p) * (log_p - log(c) - log_logistic(c * (a + x) - b))

    # The kink of |x| and of the other density's logarithm.
    points = sorted({-mpf(120), -mpf(30), mpf(0), mpf(30), mpf(120), max(min(b / c - a, mpf(110)), -mpf(110))})
    return quad(integrand, points, maxdegree=9)


def main():
    equal = [(1.0, -2.0), (800.0, -800.0), (0.0, 5.0), (2.9, -0.1), (3.1, 0.0), (40.0, 41.0)]
    cases = [(rounded({"temperature": 0.5, "logits": a}), rounded({"temperature": 0.5, "logits": b})) for a, b in equal]
    cases += [
        ({"temperature": 2.0, "probs": a}, {"temperature": 2.0, "probs": b}) for a, b in [(0.25, 0.5), (0.75, 0.125)]
    ]
    other = [(1.0, 0.5, 1.0, -2.0), (1.0, 0.5, 8.0, 0.25), (2.0, -1.0, 0.25, 3.0), (1.0, 20.0, 1.5, -20.0)]
    other += [(1.0, 1.0, 100.0, 1.0), (1.0, 0.75, 0.01, 0.5), (1.0, 0.5, 1.0009765625, 0.5)]
    cases += [
        (rounded({"temperature": t, "logits": a}), rounded({"temperature": u, "logits": b})) for t, a, u, b in other
    ]
    # Not by the same factor: the slope in the logits would be 0.
    for e in (2**-6, -(2**-16), 2**-27, -(2**-36)):
        moved = [(0.5 * (1 + e), 0.75 * (1 - e)), (0.5 * (1 + e), 0.75), (0.5, 0.75 * (1 + e))]
        cases += [({"temperature": 0.5, "logits": 0.75}, {"temperature": t, "logits": b}) for t, b in moved]
    write("RelaxedBernoulli", "RelaxedBernoulli", relaxed_bernoulli_relaxed_bernoulli, cases, digits=48)
    hard = [(1.0, 0.5, 1.0, -2.0), (2.0, 0.5, 1.25, -2.0), (1.0, 300.0, 2.0, -300.0), (1.0, -800.0, 1.0, -799.0)]
    hard += [(1.0, -1.0, 64.0, 3.0), (1.0, 0.5, 2.0**-10, 0.5), (0.5, -40.0, 0.5 + 2.0**-20, -40.0)]
    logit = [
        (rounded({"temperature": t, "logits": a}), rounded({"temperature": u, "logits": b})) for t, a, u, b in hard
    ]
    write("LogitRelaxedBernoulli", "LogitRelaxedBernoulli", relaxed_bernoulli_relaxed_bernoulli, logit, digits=48)
