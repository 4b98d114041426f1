"""KL(RelaxedOneHotCategorical ‖ ·) in mpmath.

At equal temperatures partial fractions of the expected logarithm at distinct ratios; at different ones the logistic
integral of two classes, and for more the expected logarithm by Frullani's integral.
"""

from mpmath import digamma, euler, exp, expm1, fprod, fsum, log, loggamma, mpf

from tests.golden.make_pairs_relaxed_bernoulli import relaxed_bernoulli_relaxed_bernoulli
from tests.golden.pairs import rounded, write


def relaxed_one_hot_categorical_relaxed_one_hot_categorical(p, q):
    change = log_weights(q), log_weights(p)
    u = [y - x for y, x in zip(*change, strict=True)]
    r, count = [exp(x) for x in u], len(u)
    if len(set(u)) < count:  # equal ratios are the limit of distinct ones
        r = [x * (1 + mpf(10) ** -60 * i) for i, x in enumerate(r)]
    total = mpf(0)
    for i, x in enumerate(r):
        weight = mpf(1)
        for j, y in enumerate(r):
            weight *= x / (x - y) if i != j else 1
        total += weight * (log(x) - euler)
    return count * (total - digamma(count)) - fsum(u)


def different_temperatures(p, q):
    a, b = log_weights(p), log_weights(q)
    if len(a) == 2:
        laws = [{"temperature": d["temperature"], "logits": x[0] - x[1]} for d, x in ((p, a), (q, b))]
        return relaxed_bernoulli_relaxed_bernoulli(*laws)
    c, count = q["temperature"] / p["temperature"], len(a)
    v = [y - c * x for x, y in zip(a, b, strict=True)]
    top = max(v)

    def remaining(s):
        return 1 / (1 + exp(s)) - fprod(laplace_transform(s + x - top, c) for x in v)

    mean_log = top - euler + trapezoid(remaining, -45 - loggamma(1 + c), 45 * max(c, mpf(1)))
    return (1 - count) * log(c) - fsum(v) + count * ((c - 1) * euler - digamma(count) + mean_log)


def laplace_transform(s, c):
    """E exp(−eˢ·E^c) for an exponential variable E, over its logarithm y; by parts where c > 1."""
    if c > 1:
        return trapezoid(lambda y: -exp(y - exp(y)) * expm1(-exp((y - s) / c)), mpf(-45), mpf(4))
    return trapezoid(lambda y: exp(y - exp(y) - exp(s + c * y)), mpf(-45), mpf(4))


def trapezoid(f, low, high):
    """Analytic in a strip of half-width π/2 at least: errs by e^(−4π²)."""
    step = mpf(1) / 4
    return step * fsum(f(low + step * k) for k in range(int((high - low) / step)))


def log_weights(params):
    """Stored parameters are normalised by torch; the divergence does not depend on it."""
    return params["logits"] if "logits" in params else [log(x) for x in params["probs"]]


def main():
    tables = [
        ([0.25, 0.5, 0.25], [0.5, 0.125, 0.375]),
        ([0.5, 0.5], [0.25, 0.75]),
        ([0.5, 0.25, 0.25], [0.75, 0.125, 0.125]),
    ]
    tables += [([2**-30, 0.5, 0.5 - 2**-30], [0.25, 0.5, 0.25]), ([0.25] * 4, [0.125, 0.125, 0.25, 0.5])]
    tables += [([2**-120, 1 - 2**-53, 2**-53], [2**-53, 2**-120, 1 - 2**-53])]
    tables += [([0.25] * 4, [0.25 + 2**-k, 0.25 - 2**-k - 2**-24, 0.25 + 2**-24, 0.25]) for k in (8, 20, 22)]
    cases = [({"temperature": 0.5, "probs": a}, {"temperature": 0.5, "probs": b}) for a, b in tables]
    write(
        "RelaxedOneHotCategorical",
        "RelaxedOneHotCategorical",
        relaxed_one_hot_categorical_relaxed_one_hot_categorical,
        cases,
        gradients=[("p", "probs"), ("q", "probs")],
        digits=800,
    )

    def law(temperature, probs):
        return rounded({"temperature": temperature, "probs": probs})

    a, b = [0.25, 0.5, 0.25], [0.5, 0.125, 0.375]
    cases = [(law(0.5, a), law(0.75, b)), (law(2.0, a), law(0.5, b)), (law(0.5, a), law(4.0, b))]
    cases += [(law(0.5, a), law(0.515625, a)), (law(0.5, a), law(0.5 - 2**-8, [0.25 + 2**-8, 0.5, 0.25 - 2**-8]))]
    two, moved = [0.25, 0.75], [0.5, 0.5]
    cases += [(law(1.0, two), law(t, moved)) for t in (0.03125, 0.875, 1.25, 32.0)]
    for k in (6, 14, 22):
        e = 2.0**-k
        cases += [(law(0.5, two), law(0.5 + e, two)), (law(0.5, two), law(0.5 - e, [0.25 - e, 0.75 + e]))]
    cases += [
        ({"temperature": 0.5, "probs": two}, {"temperature": 0.5 + 2**-33, "probs": [0.25 + 2**-34, 0.75 - 2**-34]})
    ]
    write("ExpRelaxedCategorical", "ExpRelaxedCategorical", different_temperatures, cases, digits=48)
