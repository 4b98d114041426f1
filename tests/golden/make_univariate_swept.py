"""Pairs of univariate laws with parameters drawn at random: `python -m tests.golden.make_univariate_swept`.

Scales differ by up to 1e16, locations by up to 1e6 of them, shapes lie between 0.03 and 1e4, tails are heavy. What was
drawn is the same every time; rows for which two orders of the rule disagree are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import mpmath as mp

from tests.golden import univariate_laws as laws
from tests.golden.make_univariate import _row, _write

_ROWS, _SEED, _TRIES = 100, 11, 8
_RANDOM = random.Random(_SEED)
_uniform, _choice = _RANDOM.uniform, _RANDOM.choice


def _power(low: float, high: float) -> float:
    return 10 ** _uniform(low, high)


def _sign() -> int:
    return _choice([-1, 1])


def _place() -> float:
    return _choice([0.0, _uniform(-3, 3), _sign() * _power(0, 6), _uniform(-3, 3)])


def _scale() -> float:
    return _choice([_uniform(0.3, 3), _power(-8, 8), _power(-2, 2)])


def _shape() -> float:
    return _choice([_uniform(0.5, 5), _power(-1.5, 4), _power(-0.5, 1.5)])


def _chance() -> float:
    return _choice([_uniform(0.02, 0.98), _power(-9, -1), 1 - _power(-9, -1)])


def _interval() -> dict[str, float]:
    low = _choice([_uniform(0.01, 0.5), _power(-8, -1)])
    return {"low": low, "high": low + _choice([_uniform(0.1, 0.5), _power(-8, -0.5)])}


def _placed() -> dict[str, float]:
    return {"loc": _place(), "scale": _scale()}


DRAWS: dict[str, Callable[[], dict[str, float]]] = {
    "Beta": lambda: {"concentration1": _shape(), "concentration0": _shape()},
    "Cauchy": _placed,
    "Chi2": lambda: {"df": 2 * _shape()},
    "ContinuousBernoulli": lambda: {"probs": _chance()},
    "Exponential": lambda: {"rate": _scale()},
    "FisherSnedecor": lambda: {"df1": 2 * _shape(), "df2": 2 * _shape() + 2},
    "Gamma": lambda: {"concentration": _shape(), "rate": _scale()},
    "GeneralizedPareto": lambda: {
        "loc": 0.0,
        "scale": _scale(),
        "concentration": _choice([_uniform(0.05, 0.4), _uniform(-0.9, -0.05), 0.0, 1e-6]),
    },
    "Gumbel": _placed,
    "HalfCauchy": lambda: {"scale": _scale()},
    "HalfNormal": lambda: {"scale": _scale()},
    "InverseGamma": lambda: {"concentration": _shape() + _choice([0, 2]), "rate": _scale()},
    "Kumaraswamy": lambda: {"concentration1": _shape(), "concentration0": _shape()},
    "Laplace": _placed,
    "LogNormal": lambda: {"loc": _uniform(-5, 5), "scale": _power(-6, 0.7)},
    "LogitRelaxedBernoulli": lambda: {"temperature": _power(-2, 2), "logits": _uniform(-30, 30)},
    "Normal": _placed,
    "Pareto": lambda: {"scale": _scale(), "alpha": _uniform(0.5, 6)},
    "RelaxedBernoulli": lambda: {"temperature": _power(-1, 1), "logits": _uniform(-10, 10)},
    "StudentT": lambda: {"df": _choice([_uniform(1.05, 6), _power(0, 3)]), "loc": _place(), "scale": _scale()},
    "Uniform": _interval,
    "VonMises": lambda: {"loc": _uniform(-3.1, 3.1), "concentration": _power(-3, 4)},
    "Weibull": lambda: {"scale": _scale(), "concentration": _power(-0.7, 1.7)},
}


def swept() -> None:
    """Rows until there are enough."""
    rows: list = []
    while len(rows) < _ROWS:
        p, q = _RANDOM.sample(list(DRAWS), 2)
        for _ in range(_TRIES):
            given = DRAWS[p](), DRAWS[q]()
            law_p, law_q = laws.make(p, given[0]), laws.make(q, given[1])
            inside = law_p.lower >= law_q.lower and law_p.upper <= law_q.upper
            if inside and not laws.diverges(p, given[0], q, given[1]):
                row = _row(p, given[0], q, given[1])
                rows += [row] if row is not None and mp.mpf(row["kl"]) < mp.mpf("1e290") else []
                break
    _write("swept", rows)


if __name__ == "__main__":
    swept()
