"""KL(NegativeBinomial ‖ ·) in mpmath: the sum over outcomes, or for large means an integral over log Γ's."""

from mpmath import exp, expm1, fsum, log, log1p, mp

from tests.golden.make_pairs_bernoulli import success
from tests.golden.pairs import near, rounded, write


def negative_binomial_negative_binomial(p, q):
    a, b, r, s = success(p), success(q), p["total_count"], q["total_count"]
    linear = r * log(1 - a) - s * log(1 - b) + r * a / (1 - a) * log(a / b)
    if r == s:
        return linear
    if r * a / (1 - a) > 1000 or r > 1e7:
        return linear + by_malmsten(r, s, a / (1 - a))
    # Terms follow from each other by ratios; the sum stops where the rest is below the working precision.
    weight, change, total, k = (1 - a) ** r, mp.mpf(0), mp.mpf(0), 0
    while weight * (1 + k) > mp.eps * mp.mpf(10) ** -5 or k < r * a / (1 - a):
        total += weight * change
        change += log((k + r) / (k + s))
        weight *= (k + r) / (k + 1) * a
        k += 1
    return linear + total


def by_malmsten(r, s, odds):
    """E log Γ(x + r)Γ(s)/(Γ(r)Γ(x + s)) to 45 digits: the trapezoid rule in log t."""

    def integrand(t):
        u = -expm1(-t)
        return (exp(-s * t) - exp(-r * t)) * -expm1(-r * log1p(odds * u)) / u

    digits, step = 45 * log(10), mp.mpf(1) / 12
    low, high = -log(max(r, s, r * odds, 1)) - digits - abs(log(r * odds)), log(2 * digits) - log(min(r, s))
    return step * fsum(integrand(exp(low + step * k)) for k in range(int((high - low) / step) + 1))


def main():
    hard = [
        (3.5, 0.6, 1.2, 0.7),
        (3.0, 0.4, 3.0, 0.6),
        (1e-3, 0.3, 2.0, 0.4),
        (50.0, 0.1, 0.01, 0.2),
        (0.5, 0.9, 0.7, 0.1),
    ]
    hard += [(1e-6, 0.5, 2e-6, 0.5), (1e6, 1e-6, 1.1e6, 1e-6), (1e12, 1e-12, 1e12, 3e-12)]
    hard += [
        (1e12, 1e-3, 1.5e12, 1e-3),
        (2e11, 0.3, 7e11, 0.11),
        (1e12, 1e-12, 1.1e12, 3e-12),
        (5e-3, 1e-6, 1.5e6, 4e-15),
    ]
    hard += [
        (1e8, 0.5, 3.0, 0.999),
        (30.0, 1 - 1e-6, 2000.0, 0.9999),
        (1e-5, 0.25, 3e3, 0.9),
        (40.0, 0.9999, 1e9, 0.25),
    ]
    cases = [(rounded({"total_count": r, "probs": a}), rounded({"total_count": s, "probs": b})) for r, a, s, b in hard]
    logits = [
        (2.0, -6.0, 2.0, 3.0),
        (2.0, -100.0, 3.0, -100.0),
        (1.5, -1.0, 2.5, 0.25),
        (5e-05, 39.5, 9e-05, -21.5),
        (11.25, -38.0, 11.5, 1.5),
    ]
    cases += [({"total_count": r, "logits": a}, {"total_count": s, "logits": b}) for r, a, s, b in logits]
    cases += near({"total_count": 2.3, "probs": 0.35}, steps=[1, 2, 3, 5, 7, 9, 12])
    write("NegativeBinomial", "NegativeBinomial", negative_binomial_negative_binomial, cases, digits=160)
