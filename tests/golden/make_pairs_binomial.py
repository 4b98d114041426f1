"""KL(Binomial ‖ ·) in mpmath: the sum over outcomes."""

from mpmath import binomial, factorial, log

from tests.golden.make_pairs_bernoulli import success
from tests.golden.pairs import near, rounded, write


def outcomes(n, p):
    return [(k, binomial(n, k) * p**k * (1 - p) ** (n - k)) for k in range(n + 1)]


def binomial_binomial(p, q):
    a, b, n, big = success(p), success(q), int(p["total_count"]), int(q["total_count"])
    if n == big:
        return n * (a * log(a / b) + (1 - a) * log((1 - a) / (1 - b)))
    return sum(w * (log(w / binomial(big, k)) - k * log(b) - (big - k) * log(1 - b)) for k, w in outcomes(n, a))


def binomial_poisson(p, q):
    a, n, rate = success(p), int(p["total_count"]), q["rate"]
    return sum(w * (log(w * factorial(k)) - k * log(rate) + rate) for k, w in outcomes(n, a))


def main():
    counts = [(5, 0.3, 10, 0.3), (5, 0.3, 6, 0.25), (40, 0.01, 41, 0.01), (40, 0.99, 41, 0.95), (1, 0.5, 200, 1e-3)]
    counts += [(60, 0.4, 61, 24.0 / 61), (60, 1e-6, 70, 0.5), (3, 1e-30, 4, 2e-30), (100, 0.999, 1000, 0.1)]
    cases = [
        (rounded({"total_count": n, "probs": a}), rounded({"total_count": m, "probs": b})) for n, a, m, b in counts
    ]
    logits = [
        (10, 40.0, 10, 20.0),
        (10, 0.0, 10, 40.0),
        (10, 3.0, 12, -2.0),
        (8, -700.0, 9, 1.0),
        (8, 50.0, 9, 49.0),
        (5, 800.0, 5, -800.0),
    ]
    cases += [({"total_count": n, "logits": a}, {"total_count": m, "logits": b}) for n, a, m, b in logits]
    cases += near({"total_count": 7, "probs": 0.3}) + near({"total_count": 1000000, "probs": 1e-3}, steps=[1, 6, 12])
    write("Binomial", "Binomial", binomial_binomial, cases, digits=1000)
    poisson = [(10, 0.3, 2.0), (10, 0.3, 3.0), (100, 1e-2, 1.0), (100, 1e-4, 0.5), (50, 0.99, 1.0), (3, 1e-30, 1e-29)]
    cases = [(rounded({"total_count": n, "probs": a}), rounded({"rate": r})) for n, a, r in poisson]
    cases += [
        ({"total_count": 12, "logits": a}, {"rate": r}) for a, r in [(-30.0, 1.0), (30.0, 11.0), (0.5, 0.001953125)]
    ]
    write("Binomial", "Poisson", binomial_poisson, cases, digits=400)
