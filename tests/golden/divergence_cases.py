"""The pairs whose divergences beside KL are tabulated: chosen, families in turn, near, mixtures, random."""

from __future__ import annotations

import random

from tests.golden.make_univariate import TYPICAL

HEAVY = ("power 1.5", "power 2")
# p, its parameters, q, its parameters, and which powers diverge.
CONTINUOUS = [
    ("Normal", {"loc": 0.0, "scale": 1.0}, "Normal", {"loc": 0.7, "scale": 1.3}, ()),
    ("Normal", {"loc": 0.0, "scale": 1.0}, "Normal", {"loc": 9.0, "scale": 2.5}, ()),
    ("Normal", {"loc": 0.0, "scale": 2.0}, "Normal", {"loc": 0.5, "scale": 1.0}, HEAVY),
    ("Normal", {"loc": 3.0, "scale": 1e-4}, "Normal", {"loc": 3.5, "scale": 2.0}, ()),
    ("Normal", {"loc": 0.0, "scale": 1.0}, "Laplace", {"loc": 0.3, "scale": 0.8}, ()),
    ("Laplace", {"loc": 0.0, "scale": 1.0}, "Normal", {"loc": 0.3, "scale": 0.8}, HEAVY),
    ("Laplace", {"loc": 0.0, "scale": 1.0}, "Laplace", {"loc": 0.5, "scale": 1.5}, ()),
    ("Normal", {"loc": 0.0, "scale": 1.0}, "Cauchy", {"loc": 0.5, "scale": 0.7}, ()),
    ("Cauchy", {"loc": 0.0, "scale": 1.0}, "StudentT", {"df": 1.5, "loc": 0.3, "scale": 1.0}, ()),
    ("StudentT", {"df": 5.0, "loc": 0.0, "scale": 1.0}, "Normal", {"loc": 0.0, "scale": 1.2}, HEAVY),
    ("Gumbel", {"loc": 0.0, "scale": 1.0}, "Normal", {"loc": 0.5, "scale": 1.5}, HEAVY),
    ("Gamma", {"concentration": 2.0, "rate": 3.0}, "Gamma", {"concentration": 3.0, "rate": 2.5}, ()),
    ("Gamma", {"concentration": 2.5, "rate": 1.5}, "Exponential", {"rate": 0.7}, ()),
    ("Gamma", {"concentration": 2.0, "rate": 3.0}, "LogNormal", {"loc": -0.5, "scale": 0.7}, HEAVY),
    ("Gamma", {"concentration": 0.6, "rate": 1.0}, "Normal", {"loc": 0.0, "scale": 2.0}, HEAVY),
    ("Weibull", {"scale": 1.0, "concentration": 1.7}, "Gamma", {"concentration": 1.5, "rate": 1.2}, ()),
    ("Exponential", {"rate": 1.0}, "HalfNormal", {"scale": 1.5}, HEAVY),
    ("HalfNormal", {"scale": 1.0}, "HalfCauchy", {"scale": 0.8}, ()),
    ("Pareto", {"scale": 1.0, "alpha": 2.5}, "Exponential", {"rate": 0.5}, HEAVY),
    ("Beta", {"concentration1": 2.0, "concentration0": 3.0}, "Uniform", {"low": 0.0, "high": 1.0}, ()),
    ("Beta", {"concentration1": 0.5, "concentration0": 0.8}, "Beta", {"concentration1": 0.7, "concentration0": 0.5}, ()),  # noqa: E501
    ("Uniform", {"low": 0.0, "high": 1.0}, "Uniform", {"low": 0.25, "high": 1.5}, HEAVY),
    ("Uniform", {"low": -1.0, "high": 2.0}, "Normal", {"loc": 0.0, "scale": 1.0}, ()),
    ("Normal", {"loc": 0.5, "scale": 1.0}, "Uniform", {"low": -1.0, "high": 2.0}, HEAVY),
    ("Kumaraswamy", {"concentration1": 2.0, "concentration0": 3.0}, "Beta", {"concentration1": 2.5, "concentration0": 2.0}, ()),  # noqa: E501
    ("VonMises", {"loc": 0.3, "concentration": 2.0}, "VonMises", {"loc": -0.5, "concentration": 0.7}, ()),
    ("InverseGamma", {"concentration": 3.0, "rate": 2.0}, "Gamma", {"concentration": 2.0, "rate": 2.0}, HEAVY),
]  # fmt: skip
NEAR = {
    "Normal": {"loc": 0.4, "scale": 1.7},
    "Gamma": {"concentration": 2.3, "rate": 3.1},
    "StudentT": {"df": 3.2, "loc": 0.3, "scale": 0.9},
    "Beta": {"concentration1": 2.2, "concentration0": 0.9},
    "Weibull": {"scale": 1.4, "concentration": 1.8},
    "Gumbel": {"loc": 0.4, "scale": 1.7},
}
# The double exponential tail of the moved law is the lighter one.
LIGHTER = ("Gumbel",)
DISCRETE = [
    ("Poisson", {"rate": 2.0}, "Poisson", {"rate": 3.5}, ()),
    ("Poisson", {"rate": 40.0}, "Poisson", {"rate": 41.0}, ()),
    ("Bernoulli", {"probs": 0.3}, "Bernoulli", {"probs": 0.6}, ()),
    ("Geometric", {"probs": 0.4}, "Geometric", {"probs": 0.3}, ()),
    ("Binomial", {"total_count": 7, "probs": 0.3}, "Binomial", {"total_count": 7, "probs": 0.45}, ()),
    ("Binomial", {"total_count": 5, "probs": 0.3}, "Binomial", {"total_count": 9, "probs": 0.45}, ()),
    ("Binomial", {"total_count": 9, "probs": 0.3}, "Poisson", {"rate": 2.5}, ()),
    ("Poisson", {"rate": 2.5}, "Binomial", {"total_count": 9, "probs": 0.3}, HEAVY),
    ("NegativeBinomial", {"total_count": 3.0, "probs": 0.4}, "NegativeBinomial", {"total_count": 4.5, "probs": 0.5}, ()),  # noqa: E501
    ("NegativeBinomial", {"total_count": 3.0, "probs": 0.4}, "Poisson", {"rate": 2.5}, HEAVY),
    ("Geometric", {"probs": 0.5}, "Poisson", {"rate": 1.5}, HEAVY),
]  # fmt: skip
NEAR_COUNTS = {"Poisson": {"rate": 3.3}, "Geometric": {"probs": 0.35}, "Bernoulli": {"probs": 0.3}}
STEPS = (1, 3, 6, 9)


def moved(parameters, exponent):
    """Every other parameter a little larger, the rest smaller."""
    return {k: v * (1 + (-1) ** i * 10.0**-exponent) for i, (k, v) in enumerate(parameters.items())}


# How far on in the list of families the partner of each is.
TURNS = (5,)


def rotated():
    """Every third family against another at the parameters of `make_univariate`."""
    names = list(TYPICAL)
    return [
        (p, TYPICAL[p], q, TYPICAL[q])
        for i, p in list(enumerate(names))[::3]
        for q in (names[(i + turn) % len(names)] for turn in TURNS)
    ]


# Narrow against wide, far apart, heavy tails, large parameters.
HARD = [
    ("Normal", {"loc": 0.375, "scale": 1e-08}, "Normal", {"loc": 0.0, "scale": 1.0}),
    ("Normal", {"loc": 0.375, "scale": 1e-08}, "Cauchy", {"loc": 0.0, "scale": 1.0}),
    ("Cauchy", {"loc": -1000000.0, "scale": 1.0}, "Normal", {"loc": 0.0, "scale": 1.0}),
    ("Laplace", {"loc": -40.0, "scale": 2.0}, "Normal", {"loc": 50.0, "scale": 3.0}),
    ("LogNormal", {"loc": -3.0, "scale": 3.0}, "Gamma", {"concentration": 0.5, "rate": 1.0}),
    ("StudentT", {"df": 1.0625, "loc": 0.25, "scale": 0.0001}, "Laplace", {"loc": 0.0, "scale": 1.0}),
]  # fmt: skip
_NEAR_HERE = {
    "ContinuousBernoulli": {"probs": 0.3},
    "RelaxedBernoulli": {"temperature": 0.8, "logits": 0.4},
    "LogitRelaxedBernoulli": {"temperature": 1.3, "logits": -0.7},
    "Kumaraswamy": {"concentration1": 1.7, "concentration0": 2.6},
    "VonMises": {"loc": 0.4, "concentration": 1.7},
    "FisherSnedecor": {"df1": 5.0, "df2": 7.0},
    "GeneralizedPareto": {"loc": 0.0, "scale": 1.2, "concentration": 0.2},
    "HalfCauchy": {"scale": 0.9},
    "LogNormal": {"loc": 0.2, "scale": 0.6},
    "InverseGamma": {"concentration": 3.2, "rate": 2.0},
    "Cauchy": {"loc": 0.3, "scale": 0.8},
    "Laplace": {"loc": 0.3, "scale": 0.8},
}
NEAR_SINGLE = [(n, a, n, moved(a, k)) for n, a in _NEAR_HERE.items() for k in (9,)]


def mixtures():
    """Near ones, all parameters of all components moved, and the weights."""
    found = []
    for of, parts in (
        ("Normal", {"loc": [-1.0, 1.5], "scale": [0.5, 1.0]}),
        ("ContinuousBernoulli", {"probs": [0.2, 0.7]}),
    ):
        other = {
            n: [v * (1 + (-1) ** (i + j) * 1e-9) for j, v in enumerate(vs)] for i, (n, vs) in enumerate(parts.items())
        }
        # Weights whose sum is 1 to the bit, so that torch stores them as they are.
        weights = [0.25 + 2.0**-27, 0.75 - 2.0**-27]
        p = {"weights": [0.25, 0.75], "of": of, "parts": parts}
        found.append(("Mixture", p, "Mixture", {"weights": weights, "of": of, "parts": other}))
    return found


GRADIENTS = [
    ("ContinuousBernoulli", {"probs": 0.3}, "ContinuousBernoulli", {"probs": 0.3001}),
    ("Gamma", {"concentration": 2.0, "rate": 3.0}, "LogNormal", {"loc": -0.5, "scale": 0.75}),
    ("Normal", {"loc": 0.25, "scale": 1.25}, "Normal", {"loc": 0.2500001, "scale": 1.2499999}),
    ("Beta", {"concentration1": 2.25, "concentration0": 1.5}, "Kumaraswamy", {"concentration1": 1.75, "concentration0": 2.5}),  # noqa: E501
]  # fmt: skip


def drawn(count, seed=17):
    """Pairs of families with random parameters, most between 1e-3 and 1e3, some between 1e-6 and 1e6.

    Shapes below 0.4 are left out: the axis of x, on which the truth is computed, does not reach far enough into their
    poles and tails. So is Gumbel as p, whose ends `make_distribution_divergences` cannot judge beside a power.
    """
    draw = random.Random(seed)

    def size():
        reach = draw.choice([0.5, 3.0, 3.0, 6.0])
        return float(f"{10 ** draw.uniform(-reach, reach):.5g}")

    def place():
        return draw.choice([0.0, draw.choice([-1, 1]) * size()])

    def shape():
        return float(f"{10 ** draw.uniform(-1, 2):.5g}")

    laws = {
        "Beta": lambda: {"concentration1": shape(), "concentration0": shape()},
        "Cauchy": lambda: {"loc": place(), "scale": size()},
        "Exponential": lambda: {"rate": size()},
        "FisherSnedecor": lambda: {"df1": shape(), "df2": shape()},
        "Gamma": lambda: {"concentration": shape(), "rate": size()},
        "Gumbel": lambda: {"loc": place(), "scale": size()},
        "HalfCauchy": lambda: {"scale": size()},
        "HalfNormal": lambda: {"scale": size()},
        "InverseGamma": lambda: {"concentration": shape(), "rate": size()},
        "Kumaraswamy": lambda: {"concentration1": shape(), "concentration0": shape()},
        "Laplace": lambda: {"loc": place(), "scale": size()},
        "LogNormal": lambda: {"loc": draw.uniform(-5, 5), "scale": float(f"{10 ** draw.uniform(-3, 0.7):.5g}")},
        "Normal": lambda: {"loc": place(), "scale": size()},
        "Pareto": lambda: {"scale": size(), "alpha": shape()},
        "StudentT": lambda: {"df": shape(), "loc": place(), "scale": size()},
        "Uniform": lambda: {"low": -size(), "high": size()},
        "Weibull": lambda: {"scale": size(), "concentration": shape()},
    }
    names = sorted(laws)
    for _ in range(count):
        p, q = draw.choice(names), draw.choice(names)
        row = p, laws[p](), q, laws[q]()
        shapes = [v for own in (row[1], row[3]) for k, v in own.items() if k in _SHAPES]
        if p != "Gumbel" and all(v >= 0.4 for v in shapes):
            yield row


_SHAPES = ("alpha", "concentration", "concentration0", "concentration1", "df", "df1", "df2")
