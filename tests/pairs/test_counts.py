"""Pairs of distributions of counts: very wide ones, degenerate ones, mixtures; `counts.json` has the ordinary ones."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from torch import distributions as d
from torch.distributions import MixtureSameFamily

import kullback as kb
from kullback.pairs import kl_divergence, kl_method
from tests.divergences.test_golden import build, sides, table
from tests.golden import counts

t = functools.partial(torch.tensor, dtype=torch.float64)


def test_the_probabilities_of_the_table_are_torchs() -> None:
    for name, given in (side for row in table("counts")[:36] for side in sides(row)):
        numbers = range(int(min(counts.largest(name, given), 12)) + 1)
        wanted = [float(counts.probability(name, given, k)) for k in numbers]
        found = build([name, given]).log_prob(t(list(numbers))).exp()
        assert found.tolist() == pytest.approx(wanted, rel=1e-9), (name, given)


def test_atoms_against_a_density_are_infinite_in_both_directions() -> None:
    mixture = MixtureSameFamily(d.Categorical(t([0.5, 0.5])), d.Normal(t([0.0, 1.0]), t(1.0)))
    for density in (d.VonMises(t(0.0), t(1.0)), d.Normal(t(0.0), t(1.0)), mixture):
        for p, q in ((density, d.Poisson(t(2.0))), (d.Poisson(t(2.0)), density)):
            assert kl_method(p, q) == "infinite"
            assert kl_divergence(p, q).item() == math.inf


def test_equal_distributions_of_different_names() -> None:
    for p, q in [
        (d.Geometric(t(0.25)), d.NegativeBinomial(t(1.0), t(0.75))),
        (d.Bernoulli(t(0.25)), d.Categorical(t([0.75, 0.25]))),
        (d.Categorical(t([0.75, 0.25])), d.Binomial(1, t(0.25))),
    ]:
        assert 0 <= kl_divergence(p, q).item() < 1e-27
    near = kl_divergence(d.Poisson(t(3.0)), d.NegativeBinomial(t(1e6), t(3.0 / (1e6 + 3.0))))
    assert near.item() == pytest.approx(9 / 4e12, rel=1e-4)


def test_degenerate_counts() -> None:
    zero = d.Poisson(t([0.0, 1.0]))
    value = kl_divergence(zero, d.Bernoulli(t(0.25)))
    assert value.tolist() == [pytest.approx(-math.log(0.75)), math.inf]
    assert kl_divergence(d.Geometric(t(0.5)), d.Poisson(t(0.0))).item() == math.inf
    holes = d.Categorical(t([0.5, 0.0, 0.5]))
    assert kl_divergence(d.Binomial(2, t(0.5)), holes).item() == math.inf
    assert kl_divergence(holes, d.Binomial(2, t(0.5))).item() == pytest.approx(math.log(2))


def test_mixtures() -> None:
    thin = MixtureSameFamily(d.Categorical(t([1 - 1e-12, 1e-12])), d.Poisson(t([3.0, 300.0])))
    plain = d.Poisson(t(3.0))
    # −log of the first weight, since the second component has its mass elsewhere.
    assert kl_divergence(plain, thin).item() == pytest.approx(1e-12, rel=1e-9)
    want = 1e-12 * (math.log(1e-12) - 1 + 300 * math.log(100) - 297)
    assert kl_divergence(thin, plain).item() == pytest.approx(want + 1e-24, rel=1e-3)
    two = MixtureSameFamily(d.Categorical(t([0.5, 0.5])), d.Binomial(4, t([0.25, 0.75])))
    k = torch.arange(5, dtype=torch.float64)
    q = d.Geometric(t(0.25))
    log_p = two.log_prob(k)
    want = (log_p.exp() * (log_p - q.log_prob(k))).sum().item()
    assert kl_divergence(two, q).item() == pytest.approx(want, rel=1e-12)


def test_an_infinite_element_has_no_gradient() -> None:
    """Log-odds of −800 are a probability of 0 in float64; their slope is 0 where p reaches beyond q, not NaN."""
    logits, probs = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (-800.0, 0.625))
    value = kb.kl(d.Geometric(probs), d.Binomial(t(1e6), logits=logits))
    assert value.item() == math.inf
    assert [g.item() for g in torch.autograd.grad(value, [probs, logits])] == [0.0, 0.0]
