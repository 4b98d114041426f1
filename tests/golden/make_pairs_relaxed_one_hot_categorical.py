"""KL(RelaxedOneHotCategorical ‖ ·) at equal temperatures in mpmath: partial fractions of the expected logarithm."""

from mpmath import digamma, euler, exp, fsum, log, mpf

from tests.golden.pairs import write


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
