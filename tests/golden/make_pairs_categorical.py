"""KL(Categorical ‖ ·) in mpmath; weights and logits are normalised here, as their maker meant them."""

from mpmath import exp, fsum, inf, log

from tests.golden.pairs import write


def weights(params):
    given = params["probs"] if "probs" in params else [exp(x) for x in params["logits"]]
    total = fsum(given)
    return [x / total for x in given]


def categorical_categorical(p, q):
    pairs = list(zip(weights(p), weights(q), strict=True))
    if any(x and not y for x, y in pairs):
        return inf
    return fsum(x * log(x / y) for x, y in pairs if x)


def multinomial_multinomial(p, q):
    return p["total_count"] * categorical_categorical(p, q)


def tables():
    probs = [([0.25, 0.5, 0.25], [0.5, 0.125, 0.375]), ([0.5, 0.25, 0.25], [2**-100, 0.5, 0.5 - 2**-53])]
    probs += [([0.25, 0.75, 2**-60], [0.5, 0.5, 2**-80])]
    cases = [({"probs": a}, {"probs": b}) for a, b in probs]
    return cases + [({"probs": [0.5, 0.5]}, {"probs": [0.5 + 2**-k, 0.5 - 2**-k]}) for k in (5, 10, 20, 30, 40)]


def main():
    write("Categorical", "Categorical", categorical_categorical, tables())
    write("OneHotCategorical", "OneHotCategorical", categorical_categorical, tables())
    counted = [({"total_count": 7, **p}, {"total_count": 7, **q}) for p, q in tables()]
    write("Multinomial", "Multinomial", multinomial_multinomial, counted)
