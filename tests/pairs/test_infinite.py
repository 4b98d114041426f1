"""Pairs that are infinite: whatever the parameters, or because p reaches beyond q."""

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
from torch import distributions as d

import kullback
from kullback.divergences.kl import integral as kl_by_integral
from kullback.pairs import kl_divergence, kl_method, kl_with_error
from kullback.pairs.parameters import tensors_of
from kullback.pairs.table import examples

# A power tail has no moment generating function, and may have no mean or variance; E 1/x is infinite where
# the density at 0 is not 0.
BY_TAILS = [
    *itertools.product([d.Cauchy], [d.Gumbel, d.Laplace, d.Normal]),
    *itertools.product([d.HalfCauchy], [d.Exponential, d.Gamma, d.Gumbel, d.HalfNormal, d.InverseGamma]),
    *itertools.product([d.HalfCauchy], [d.Laplace, d.Normal]),
    *itertools.product([d.Exponential, d.HalfNormal], [d.InverseGamma]),
    (d.StudentT, d.Gumbel),
]


@pytest.mark.parametrize(("p", "q"), BY_TAILS, ids=lambda family: family.__name__)
def test_infinite_with_zero_gradient_as_the_tails_say(p: type, q: type) -> None:
    one, other = examples()[p], examples()[q]
    assert kl_method(one, other) == "infinite"
    assert kl_divergence(one.expand((2, 1)), other.expand((3,))).tolist() == [[math.inf] * 3] * 2
    assert kl_with_error(one, other).certified
    # The tail rules of the integral, element by element, come to the same.
    assert kl_by_integral(one, other)[0] == math.inf
    names = [name for name in p.arg_constraints if isinstance(getattr(one, name), torch.Tensor)]
    leaves = {name: getattr(one, name).clone().requires_grad_() for name in names}
    moved = p(**leaves)
    assert tensors_of(moved)
    kl_divergence(moved, other).backward()
    assert all(leaf.grad is not None and leaf.grad.item() == 0 for leaf in leaves.values())


OUTSIDE = [
    (d.Bernoulli(0.0), d.Bernoulli(1.0)),
    (d.Bernoulli(1.0), d.Bernoulli(0.0)),
    (d.Categorical(torch.tensor([0.9, 0.1])), d.Categorical(torch.tensor([1.0, 0.0]))),
    (d.Beta(1.0, 2.0), d.Uniform(0.25, 1.0)),
    (d.Beta(1.0, 2.0), d.Uniform(0.0, 0.75)),
    (d.Beta(1.0, 2.0), d.Pareto(1.0, 2.0)),
    (d.Binomial(31, torch.tensor(0.7)), d.Binomial(30, torch.tensor(0.3))),
    (d.ContinuousBernoulli(0.25), d.Uniform(0.25, 1.0)),
    (d.ContinuousBernoulli(0.25), d.Pareto(1.0, 2.0)),
    *itertools.product(
        (d.Exponential(1.0), d.Gamma(1.0, 2.0)),
        (d.Beta(1.0, 2.0), d.Pareto(1.0, 2.0), d.Uniform(0.0, 1.0), d.ContinuousBernoulli(0.75)),
    ),
    *itertools.product(
        (d.Gumbel(-1.0, 2.0), d.Laplace(-1.0, 2.0), d.Normal(-1.0, 2.0)),
        (d.Beta(1.0, 2.0), d.Exponential(1.0), d.Gamma(3.0, 4.0), d.Pareto(3.0, 4.0), d.Uniform(-3.0, 4.0)),
    ),
    *itertools.product(
        (d.Pareto(2.0, 1.0),), (d.Beta(1.0, 2.0), d.Exponential(2.0), d.Gamma(3.0, 4.0), d.Uniform(2.0, 3.0))
    ),
    (d.Pareto(1.0, 2.0), d.Pareto(2.0, 2.0)),
    (d.Poisson(2.0), d.Bernoulli(0.5)),
    (d.Poisson(2.3), d.Binomial(10, torch.tensor(0.2))),
    (d.Uniform(-1.0, 1.0), d.Beta(2.0, 2.0)),
    (d.Uniform(0.0, 2.0), d.Beta(3.0, 4.0)),
    (d.Uniform(-1.0, 2.0), d.Exponential(3.0)),
    (d.Uniform(-1.0, 2.0), d.Gamma(3.0, 4.0)),
    (d.Uniform(-1.0, 2.0), d.Pareto(3.0, 4.0)),
    (d.Uniform(-1.0, 2.0), d.Uniform(-0.5, 2.0)),
]


@pytest.fixture(scope="module")
def installed() -> Iterator[None]:
    kullback.install_into_torch()
    yield
    kullback.uninstall_from_torch()


@pytest.mark.parametrize(("p", "q"), OUTSIDE, ids=lambda p: type(p).__name__)
@pytest.mark.usefixtures("installed")
def test_torchs_own_cases_of_a_p_outside_of_q(p: d.Distribution, q: d.Distribution) -> None:
    assert kl_divergence(p, q).item() == torch.distributions.kl_divergence(p, q).item() == math.inf
