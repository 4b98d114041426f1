"""KL(Binomial ‖ ·) in mpmath: the sum over outcomes, or for many trials an integral over log Γ's."""

from mpmath import binomial, exp, expm1, factorial, fsum, inf, log, log1p, mpf

from tests.golden.make_pairs_bernoulli import success
from tests.golden.pairs import near, rounded, write


def outcomes(n, p):
    return [(k, binomial(n, k) * p**k * (1 - p) ** (n - k)) for k in range(n + 1)]


def by_malmsten(n, big, p):
    """E log n!/(n − x)! less the same of N (infinite for none), beyond μ log(n/N) and so on, to 45 digits.

    The trapezoid rule in log t, for ∫ (e^(−nt) − e^(−Nt)) [(e^(μt) − 1)/t − (E eˣᵗ − 1)/(e^t − 1)] dt/t.
    """
    mean, failures = n * p, n * (1 - p)

    def integrand(t):
        v = expm1(t)
        part = (exp(-failures * t) - exp(-n * t)) / t - (exp(n * (log1p(p * v) - t)) - exp(-n * t)) / v
        return part if big == inf else -expm1(-(big - n) * t) * part

    digits, step = 45 * log(10), mpf(1) / 12
    low, high = -log(n) - digits - abs(log(p)), log(2 * digits) - min(log(failures), 0)
    extra = step * fsum(integrand(exp(low + step * k)) for k in range(int((high - low) / step) + 1))
    return mean, extra


def binomial_binomial(p, q):
    a, b, n, big = success(p), success(q), int(p["total_count"]), int(q["total_count"])
    if n == big:
        return n * (a * log(a / b) + (1 - a) * log((1 - a) / (1 - b)))
    if n > 2000:
        mean, extra = by_malmsten(mpf(n), mpf(big), a)
        rest = big - mean
        return extra + mean * log(mean / (big * b)) + rest * log(rest / (big * (1 - b)))
    return sum(w * (log(w / binomial(big, k)) - k * log(b) - (big - k) * log(1 - b)) for k, w in outcomes(n, a))


def of_one_trial(p, q):
    """A Bernoulli is a Binomial of one trial; more trials than q has are infinitely surprising."""
    p, q = {"total_count": 1, **p}, {"total_count": 1, **q}
    return binomial_binomial(p, q) if p["total_count"] <= q["total_count"] else inf


def binomial_poisson(p, q):
    a, n, rate = success(p), int(p["total_count"]), q["rate"]
    if n > 2000:
        mean, extra = by_malmsten(mpf(n), inf, a)
        return extra + mean * log(mean / rate) - mean + rate
    return sum(w * (log(w * factorial(k)) - k * log(rate) + rate) for k, w in outcomes(n, a))


def main():
    counts = [(5, 0.3, 10, 0.3), (5, 0.3, 6, 0.25), (40, 0.01, 41, 0.01), (40, 0.99, 41, 0.95), (1, 0.5, 200, 1e-3)]
    counts += [(60, 0.4, 61, 24.0 / 61), (60, 1e-6, 70, 0.5), (3, 1e-30, 4, 2e-30), (100, 0.999, 1000, 0.1)]
    counts += [(10**6, 0.75, 10**6 + 1, 0.75), (10**9, 1e-6, 3 * 10**9, 3.3e-7)]
    cases = [
        (rounded({"total_count": n, "probs": a}), rounded({"total_count": m, "probs": b})) for n, a, m, b in counts
    ]
    # Not a float32: neither are the counts.
    cases += [({"total_count": 10**12, "probs": 0.3}, {"total_count": 10**12 + 3, "probs": 0.3})]
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
    chances = [({"probs": 0.3}, {"probs": 0.2}), ({"probs": 1e-30}, {"probs": 0.5}), ({"probs": 0.99}, {"probs": 1e-3})]
    chances += [({"logits": a}, {"logits": b}) for a, b in ((1.0, -2.0), (-700.0, 3.0), (30.0, -30.0), (-1.0, -1.0625))]
    one = [(p, {"total_count": n, **q}) for p, q in chances for n in (1, 2, 40)]
    write("Bernoulli", "Binomial", of_one_trial, [(rounded(p), rounded(q)) for p, q in one], digits=1000)
    several = [({"total_count": n, **p}, q) for p, q in chances for n in (1, 2)]
    write("Binomial", "Bernoulli", of_one_trial, [(rounded(p), rounded(q)) for p, q in several], digits=1000)
    poisson = [(10, 0.3, 2.0), (10, 0.3, 3.0), (100, 1e-2, 1.0), (100, 1e-4, 0.5), (50, 0.99, 1.0), (3, 1e-30, 1e-29)]
    poisson += [(10**6, 1e-19, 1e-13), (7, 1e-19, 7e-19), (10**7, 0.9, 9e6)]
    cases = [(rounded({"total_count": n, "probs": a}), rounded({"rate": r})) for n, a, r in poisson]
    # Not a float32: neither is the count.
    huge = [(0.3, 3e11), (1e-3, 1.001e9)]
    cases += [({"total_count": 10**12, "probs": a}, {"rate": r}) for a, r in huge]
    logits = [(-30.0, 1.0), (30.0, 11.0), (0.5, 0.001953125), (30.0, 12.0), (-200.0, 1e-9)]
    cases += [({"total_count": 12, "logits": a}, {"rate": r}) for a, r in logits]
    # Equal to the mean but for twelve digits, where the divergence is that of the shapes.
    cases += [
        ({"total_count": 7, "probs": a}, {"rate": 7 * a * (1 + step)}) for a in (0.3, 1e-19) for step in (1e-6, 1e-12)
    ]
    write("Binomial", "Poisson", binomial_poisson, cases, digits=400)
