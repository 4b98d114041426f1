"""Mixtures: the same in whatever order components are written, close ones, those without weight, counts."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from torch import distributions as d

import kullback as kb

t = functools.partial(torch.tensor, dtype=torch.float64)
DIVERGENCES = (kb.kl, kb.js, kb.total_variation)
# Weights and parameters; components that differ much, are alike, or have next to no weight.
MIXTURES = {
    "Beta": (d.Beta, [0.5, 0.8, 0.35, 0.34, 0.8], [1.1, 1.1, 17.4, 3.8, 16.7], [3.9, 3.9, 542.7, 12.9, 1.02]),
    "Normal": (d.Normal, [0.3, 0.3, 0.4], [0.0, 1e-9, -4e3], [1.0, 1e4, 1e-4]),
    "StudentT": (d.StudentT, [1e-12, 0.5, 0.3], [3.0, 1.5, 3.0], [-1.0, 2.0, 2.0], [1e-3, 1.0, 1e3]),
    "Laplace": (d.Laplace, [0.9, 0.1, 0.0], [1.0, 1.0, 50.0], [1.0, 2.0, 1.0]),
    "Poisson": (d.Poisson, [0.2, 0.5, 0.3], [3.0, 40.0, 1e4]),
    "Binomial": (d.Binomial, [0.2, 1e-12, 0.3], [30.0, 30.0, 20.0], [0.2, 0.9, 0.4]),
}


def mixture(family, weights, *parameters, order=None, moved=0.0):
    numbers = [t(row) for row in (weights, *parameters)]
    shift = moved * torch.arange(1, len(weights) + 1, dtype=torch.float64)
    first, last = 0, len(numbers) - 1
    numbers = [row * (1 + shift * (i in {first, last})) for i, row in enumerate(numbers)]
    if order is not None:
        numbers = [row[..., order] for row in numbers]
    return d.MixtureSameFamily(d.Categorical(numbers[0]), family(*numbers[1:]))


@pytest.mark.parametrize("name", MIXTURES)
def test_the_same_in_another_order(name):
    family, *numbers = MIXTURES[name]
    order = torch.arange(len(numbers[0])).roll(1)
    p, q = mixture(family, *numbers), mixture(family, *numbers, order=order)
    for divergence in DIVERGENCES:
        assert 0 <= divergence(p, q).item() < 1e-13


@pytest.mark.parametrize("name", [name for name in MIXTURES if name not in {"Poisson", "Binomial"}])
def test_close_in_another_order(name):
    family, *numbers = MIXTURES[name]
    order = torch.arange(len(numbers[0])).flip(0)
    for step in (1e-4, 1e-9):
        p, q = mixture(family, *numbers), mixture(family, *numbers, moved=step)
        again = mixture(family, *numbers, moved=step, order=order)
        assert kb.kl(p, again).item() == pytest.approx(kb.kl(p, q).item(), rel=1e-10)


def test_an_order_for_each_element():
    weights, loc, scale = t([0.2, 0.3, 0.5]), t([0.0, 5.0, -3.0]), t([1.0, 0.1, 2.0])
    orders = torch.tensor([[0, 1, 2], [2, 0, 1], [1, 0, 2]])
    p = d.MixtureSameFamily(d.Categorical(weights), d.Normal(loc, scale))
    moved = loc * (1 + 1e-5)
    q = d.MixtureSameFamily(d.Categorical(weights[orders]), d.Normal(moved[orders], scale[orders]))
    value = kb.kl(p, q)
    torch.testing.assert_close(value, value[:1].expand(3), rtol=1e-10, atol=0.0)

    def one(order):
        return kb.kl(p, d.MixtureSameFamily(d.Categorical(weights[order]), d.Normal(moved[order], scale[order])))

    torch.testing.assert_close(torch.func.vmap(one)(orders), value, rtol=1e-9, atol=0.0)


# Weights that changed a little, of components whose ends are parameters; KL by mpmath.
ENDS = {
    "Pareto": (
        (d.Pareto, [16.79482693998227, 2.9093211335971305, 1.3776454769181614], [0.6319698968817128, 1.1, 4.0]),
        [0.4114437368703925, 0.6427959605676489, 0.501036896556834],
        [0.4192114800540084, 0.683266599802381, 0.471574675843585],
        0.0011905840023094951,
    ),
    "Uniform": (
        (d.Uniform, [0.0, 0.5, -1.0], [1.0, 1.5, 0.25]),
        [0.3, 0.3, 0.4],
        [0.3001, 0.3, 0.3999],
        1.8414255139990477e-8,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_close_weights_of_distributions_with_ends(name):
    (family, *parameters), weights, others, want = ENDS[name]
    p, q = mixture(family, weights, *parameters), mixture(family, others, *parameters)
    found = kb.kl_with_error(p, q)
    assert found.value.item() == pytest.approx(want, rel=1e-12)
    assert abs(found.value.item() - want) <= found.error.item()


def test_largest_ratio_of_counts():
    """Unbounded if the slowest tail among components with weight is p's; mpmath's value at the best count if not."""
    first, second = mixture(d.Poisson, [0.5, 0.5], [3.0, 7.0]), mixture(d.Poisson, [0.5, 0.5], [9.0, 4.0])
    absent = mixture(d.Poisson, [0.5, 0.0], [3.0, 17.0])
    order = functools.partial(kb.renyi, alpha=math.inf)
    assert order(first, second).item() == pytest.approx(1.0114345794286917, rel=1e-13)
    assert order(second, first).item() == math.inf
    assert order(absent, second).item() == pytest.approx(1.6864318320708272, rel=1e-13)
    slow = mixture(d.NegativeBinomial, [1.0, 0.0], [3.0, 3.0], [0.3, 0.9])
    assert kb.chi2(slow, mixture(d.NegativeBinomial, [1.0, 1.0], [3.0, 3.0], [0.35, 0.4])).item() < 1


def test_order_0_from_the_smaller_part():
    """Of a Binomial of 7 trials 0 and 1 are what is left, (1 − p)⁷ + 7p(1 − p)⁶."""
    p, q = mixture(d.Binomial, [0.5, 0.5], [1.0, 1.0], [0.3, 0.6]), d.Binomial(t(7.0), t(0.9773187008995748))
    assert kb.renyi(p, q, 0.0).item() == pytest.approx(20.791009561701919, rel=1e-13)


@pytest.mark.parametrize("divergence", [kb.kl, kb.js])
def test_corners_at_one_place(divergence):
    """Distributions that are symmetric about 1 have no slope in the locations of their components."""
    weights, scale_p, scale_q = t([0.4, 0.6]), t([1e-3, 1.0]), t([1e-3, 2.0])

    def value(loc_p, loc_q):
        p = d.MixtureSameFamily(d.Categorical(weights), d.Laplace(loc_p, scale_p))
        return divergence(p, d.MixtureSameFamily(d.Categorical(weights.flip(0)), d.Laplace(loc_q, scale_q)))

    places = t([1.0, 1.0]).requires_grad_(), t([1.0, 1.0]).requires_grad_()
    for slopes in (torch.autograd.grad(value(*places), places), torch.func.grad(value, (0, 1))(*places)):
        for slope in slopes:
            torch.testing.assert_close(slope * scale_p, torch.zeros(2, dtype=torch.float64), rtol=0.0, atol=1e-10)
