"""KL of folded laws centred at 0 against their own kind, in mpmath."""

from mpmath import log

from tests.golden.make_pairs_cauchy import cauchy_cauchy
from tests.golden.pairs import near, rounded, write


def half_normal(p, q):
    ratio = (p["scale"] / q["scale"]) ** 2
    return (ratio - 1 - log(ratio)) / 2


def half_cauchy(p, q):
    return cauchy_cauchy({"loc": 0, **p}, {"loc": 0, **q})


def main():
    hard = [(1.0, 2.0), (7.0, 0.25), (1e-25, 1.0), (1e-30, 1e30), (1e30, 1e-30), (1e-25, 1e-25)]
    cases = (
        [(rounded({"scale": s}), rounded({"scale": t})) for s, t in hard]
        + near({"scale": 1.3})
        + near({"scale": 1e-30})
    )
    write("HalfNormal", "HalfNormal", half_normal, cases)
    write("HalfCauchy", "HalfCauchy", half_cauchy, cases)
