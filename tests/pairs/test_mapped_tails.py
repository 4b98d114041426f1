"""Whether a divergence of mapped distributions is infinite does not depend on the map, nor does its value."""

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
from kullback.densities.canonical_transforms import canonical_transforms as plain_words

t = functools.partial(torch.tensor, dtype=torch.float64)
# The same map in other words, so that the two sides do not end with maps that cancel.
MAPS = {
    "exp": ([ExpTransform()], [AffineTransform(0.0, 2.0), ExpTransform(), PowerTransform(t(0.5))]),
    "sigmoid": ([SigmoidTransform()], [AffineTransform(0.0, 0.5), TanhTransform(), AffineTransform(0.5, 0.5)]),
    "tanh": ([TanhTransform()], [AffineTransform(0.0, 2.0), SigmoidTransform(), AffineTransform(-1.0, 2.0)]),
    "mirrored exp": (
        [AffineTransform(0.0, -1.0), ExpTransform()],
        [AffineTransform(0.0, 2.0), ExpTransform(), PowerTransform(t(-0.5))],
    ),
}
STAY = [AffineTransform(0.0, 2.0), AffineTransform(0.0, 0.5)]
RENYI_2, RENYI_INF = functools.partial(kb.renyi, alpha=2.0), functools.partial(kb.renyi, alpha=math.inf)
PAIRS = {
    "E x^1.7 of a Pareto": (kb.kl, d.Pareto(t(1.0), t(1.8)), d.Weibull(t(1.0), t(1.7))),
    "E x² of a Pareto": (kb.kl, d.Pareto(t(1.0), t(1.8)), d.Normal(t(1.0), t(1.7))),
    "a slow Weibull": (RENYI_2, d.Weibull(t(1.5), t(0.6)), d.Normal(t(0.3), t(1.2))),
    "a slow Weibull and an exponential": (RENYI_2, d.Weibull(t(1.5), t(0.6)), d.Exponential(t(1.0))),
    "Weibulls of one order": (RENYI_2, d.Weibull(t(1.5), t(0.6)), d.Weibull(t(2.0), t(0.6))),
    "Weibulls of one order, too slow": (RENYI_2, d.Weibull(t(2.0), t(0.6)), d.Weibull(t(0.2), t(0.6))),
    "a LogNormal": (RENYI_2, d.LogNormal(t(0.2), t(0.4)), d.Laplace(t(0.3), t(1.2))),
    "Student-t distributions, too slow": (RENYI_2, d.StudentT(t(2.0)), d.StudentT(t(4.5))),
    "the largest ratio": (RENYI_INF, d.Weibull(t(1.5), t(1.7)), d.Normal(t(0.3), t(1.2))),
    "the largest ratio of a LogNormal": (RENYI_INF, d.LogNormal(t(0.2), t(0.4)), d.Gumbel(t(0.3), t(1.2))),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("chain", MAPS)
def test_as_before_the_map(name, chain):
    divergence, p, q = PAIRS[name]
    want = divergence(p, q).item()
    first, second = MAPS[chain]
    for one, other in ((first, second), (second, first)):
        mapped = TransformedDistribution(p, one), TransformedDistribution(q, other)
        assert divergence(*mapped).item() == pytest.approx(want, rel=1e-9)


# Far out the logarithms of such densities are 1e20 and their difference is not: only maps that cancel keep it.
HEAVY = {
    "E √x of a Pareto": (kb.kl, d.Pareto(t(1.0), t(0.6)), d.Weibull(t(1.0), t(0.5))),
    "Student-t distributions": (RENYI_2, d.StudentT(t(2.0)), d.StudentT(t(3.5))),
    "hardly a tail": (kb.kl, d.Pareto(t(1.5), t(1e-6)), d.Pareto(t(1.5), t(2e-6))),
}
WORDS = {
    **MAPS,
    "exp twice": ([ExpTransform(), ExpTransform()], [*STAY, ExpTransform(), ExpTransform()]),
    "a multiple of exp": (
        [ExpTransform(), AffineTransform(0.0, 3.0)],
        [AffineTransform(math.log(3.0), 1.0), ExpTransform()],
    ),
    "what is missing to 1": (
        [SigmoidTransform(), AffineTransform(1.0, -1.0)],
        [AffineTransform(0.0, -1.0), SigmoidTransform()],
    ),
    "there and back": (
        [TanhTransform(), TanhTransform().inv, SigmoidTransform()],
        [AffineTransform(1.0, 4.0), AffineTransform(1.0, 4.0).inv, SigmoidTransform()],
    ),
}


@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.parametrize("chain", WORDS)
def test_maps_that_cancel(name, chain):
    divergence, p, q = HEAVY[name]
    want = divergence(p, q).item()
    first, second = WORDS[chain]
    for one, other in ((first, second), (second, first)):
        mapped = TransformedDistribution(p, one), TransformedDistribution(q, other)
        assert divergence(*mapped).item() == pytest.approx(want, rel=1e-11)


def test_the_parameter_of_a_power_has_its_slope():
    """The k-th power of a LogNormal(0, 1) is LogNormal(0, k); KL to LogNormal(0.3, 1) has the slope k − 1/k."""
    exponent = t(0.5).requires_grad_()
    p = TransformedDistribution(d.Normal(t(0.0), t(1.0)), [ExpTransform(), PowerTransform(exponent)])
    value = kb.kl(p, TransformedDistribution(d.Normal(t(0.3), t(1.0)), [AffineTransform(0.0, 1.0), ExpTransform()]))
    (slope,) = torch.autograd.grad(value, exponent)
    assert slope.item() == pytest.approx(0.5 - 2.0, rel=1e-12)


@pytest.mark.parametrize("chain", WORDS)
def test_maps_in_other_words_are_the_same_maps(chain):
    z = t([0.2, 0.35, 0.7])
    for maps in WORDS[chain]:
        there, plainly = z, z
        for transform in maps:
            there = transform(there)
        for transform in plain_words(maps):
            plainly = transform(plainly)
        torch.testing.assert_close(plainly, there, rtol=1e-14, atol=0.0)


# Distributions of the positive half-line or a part of it.
SQUARED = {
    "crossings in both tails": (d.HalfNormal(t(1.5)), d.Exponential(t(1.5))),
    "an end that is singular": (d.Beta(t(0.5), t(0.7)), d.LogNormal(t(0.2), t(0.4))),
}
if hasattr(d, "GeneralizedPareto"):  # newer than the oldest torch supported
    SQUARED["an end at infinity that is a tensor"] = (
        d.GeneralizedPareto(t(0.3), t(1.0), t(0.2)),
        d.Beta(t(2.0), t(3.0)),
    )


@pytest.mark.parametrize("name", SQUARED)
def test_squares_in_other_words(name):
    p, q = SQUARED[name]
    square = PowerTransform(t(2.0))
    mapped = (
        TransformedDistribution(p, [square]),
        TransformedDistribution(q, [AffineTransform(0.0, 2.0), square, AffineTransform(0.0, 0.25)]),
    )
    for divergence in (kb.total_variation, kb.js, kb.hellinger):
        want = divergence(p, q).item()
        assert divergence(*mapped).item() == pytest.approx(want, rel=1e-11)
        assert divergence(*mapped[::-1]).item() == pytest.approx(divergence(q, p).item(), rel=1e-11)
