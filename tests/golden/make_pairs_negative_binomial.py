"""KL(NegativeBinomial ‖ ·) in mpmath: the sum over outcomes."""

from mpmath import log, mp

from tests.golden.make_pairs_bernoulli import success
from tests.golden.pairs import near, rounded, write


def negative_binomial_negative_binomial(p, q):
    a, b, r, s = success(p), success(q), p["total_count"], q["total_count"]
    linear = r * log(1 - a) - s * log(1 - b) + r * a / (1 - a) * log(a / b)
    if r == s:
        return linear
    # Terms follow from each other by ratios; the sum stops where the rest is below the working precision.
    weight, change, total, k = (1 - a) ** r, mp.mpf(0), mp.mpf(0), 0
    while weight * (1 + k) > mp.eps * mp.mpf(10) ** -5 or k < r * a / (1 - a):
        total += weight * change
        change += log((k + r) / (k + s))
        weight *= (k + r) / (k + 1) * a
        k += 1
    return linear + total


def main():
    hard = [
        (3.5, 0.6, 1.2, 0.7),
        (3.0, 0.4, 3.0, 0.6),
        (1e-3, 0.3, 2.0, 0.4),
        (50.0, 0.1, 0.01, 0.2),
        (0.5, 0.9, 0.7, 0.1),
    ]
    hard += [(1e-6, 0.5, 2e-6, 0.5), (1e6, 1e-6, 1.1e6, 1e-6), (1e12, 1e-12, 1e12, 3e-12)]
    cases = [(rounded({"total_count": r, "probs": a}), rounded({"total_count": s, "probs": b})) for r, a, s, b in hard]
    logits = [(2.0, -6.0, 2.0, 3.0), (2.0, -100.0, 3.0, -100.0), (1.5, -1.0, 2.5, 0.25)]
    cases += [({"total_count": r, "logits": a}, {"total_count": s, "logits": b}) for r, a, s, b in logits]
    cases += near({"total_count": 2.3, "probs": 0.35}, steps=[1, 2, 3, 5, 7, 9, 12])
    write("NegativeBinomial", "NegativeBinomial", negative_binomial_negative_binomial, cases, digits=160)
