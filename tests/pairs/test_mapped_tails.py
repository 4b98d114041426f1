"""Whether a divergence of mapped laws is infinite does not depend on the map, nor does its value."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from torch import distributions as d
from torch.distributions import TransformedDistribution
from torch.distributions.transforms import (
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    TanhTransform,
)

import kullback as kb

t = functools.partial(torch.tensor, dtype=torch.float64)
# Two maps that undo each other, so that the two sides do not end with the same list of maps.
STAY = [AffineTransform(0.0, 2.0), AffineTransform(0.0, 0.5)]
MAPS = {
    "exp": [ExpTransform()],
    "sigmoid": [SigmoidTransform()],
    "tanh": [AffineTransform(0.5, -2.0), TanhTransform()],
    "exp twice": [ExpTransform(), ExpTransform()],
    "root of exp": [AffineTransform(0.0, -1.0), ExpTransform(), PowerTransform(t(0.5))],
}
RENYI_2, RENYI_INF = functools.partial(kb.renyi, alpha=2.0), functools.partial(kb.renyi, alpha=math.inf)
PAIRS = {
    "E x^1.7 of a Pareto": (kb.kl, d.Pareto(t(1.0), t(1.8)), d.Weibull(t(1.0), t(1.7))),
    "E x² of a Pareto": (kb.kl, d.Pareto(t(1.0), t(1.8)), d.Normal(t(1.0), t(1.7))),
    "E √x of a Pareto": (kb.kl, d.Pareto(t(1.0), t(0.6)), d.Weibull(t(1.0), t(0.5))),
    "a slow Weibull": (RENYI_2, d.Weibull(t(1.5), t(0.6)), d.Normal(t(0.3), t(1.2))),
    "a slow Weibull and an exponential": (RENYI_2, d.Weibull(t(1.5), t(0.6)), d.Exponential(t(1.0))),
    "Weibulls of one order": (RENYI_2, d.Weibull(t(1.5), t(0.6)), d.Weibull(t(2.0), t(0.6))),
    "Weibulls of one order, too slow": (RENYI_2, d.Weibull(t(2.0), t(0.6)), d.Weibull(t(0.2), t(0.6))),
    "a LogNormal": (RENYI_2, d.LogNormal(t(0.2), t(0.4)), d.Laplace(t(0.3), t(1.2))),
    "Student-t laws": (RENYI_2, d.StudentT(t(2.0)), d.StudentT(t(3.5))),
    "Student-t laws, too slow": (RENYI_2, d.StudentT(t(2.0)), d.StudentT(t(4.5))),
    "the largest ratio": (RENYI_INF, d.Weibull(t(1.5), t(1.7)), d.Normal(t(0.3), t(1.2))),
    "the largest ratio of a LogNormal": (RENYI_INF, d.LogNormal(t(0.2), t(0.4)), d.Gumbel(t(0.3), t(1.2))),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("chain", MAPS)
def test_as_before_the_map(name, chain):
    divergence, p, q = PAIRS[name]
    want = divergence(p, q).item()
    mapped = TransformedDistribution(p, MAPS[chain]), TransformedDistribution(q, [*STAY, *MAPS[chain]])
    assert divergence(*mapped).item() == pytest.approx(want, rel=1e-9)


def test_both_answers_occur():
    values = [divergence(p, q).item() for divergence, p, q in PAIRS.values()]
    assert sum(map(math.isinf, values)) == 8
