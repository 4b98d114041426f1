"""What torch's own tests ask of `kl_divergence`, with kullback installed: every pair of a few laws of each family.

They compare with the mean of log p − log q of samples, within 0.1·(1 + KL); here also within six standard errors.
"""

import itertools
import math

import pytest
import torch
from torch.distributions import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Cauchy,
    Chi2,
    ContinuousBernoulli,
    Dirichlet,
    Exponential,
    Gamma,
    Gumbel,
    HalfNormal,
    InverseGamma,
    Laplace,
    LogNormal,
    Normal,
    OneHotCategorical,
    Pareto,
    Poisson,
    Uniform,
    kl_divergence,
)

import kullback


@pytest.fixture(autouse=True)
def installed():
    kullback.install_into_torch()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
    kullback.uninstall_from_torch()


def laws(family, *columns):
    """A maker of laws, one batch element for each index of the columns of parameters."""
    tensors = [torch.tensor(column, dtype=torch.float64) for column in columns]
    return lambda index: family(*(tensor[index] for tensor in tensors))


def of_thirty_trials(probs):
    return Binomial(30, probs)


SIMPLEX = [[0.4, 0.3, 0.3], [0.2, 0.7, 0.1], [0.33, 0.33, 0.34], [0.2, 0.2, 0.6]]
FOUR = [-2.0, 2.0, -3.0, 3.0], [1.0, 2.0, 1.0, 2.0]
LAWS = {
    "Bernoulli": laws(Bernoulli, [0.1, 0.2, 0.6, 0.9]),
    "Binomial": laws(of_thirty_trials, [0.1, 0.2, 0.6, 0.9]),
    "Beta": laws(Beta, [1.0, 2.5, 1.0, 2.5], [1.5, 1.5, 3.5, 3.5]),
    "Categorical": laws(Categorical, SIMPLEX),
    "Cauchy": laws(Cauchy, *FOUR),
    "Chi2": laws(Chi2, [1.0, 2.0, 2.5, 5.0]),
    "ContinuousBernoulli": laws(ContinuousBernoulli, [0.1, 0.2, 0.5, 0.9]),
    "Dirichlet": laws(Dirichlet, [[0.1, 0.2, 0.7], [0.5, 0.4, 0.1], [0.33, 0.33, 0.34], [0.2, 0.2, 0.4]]),
    "Exponential": laws(Exponential, [1.0, 2.5, 5.0, 10.0]),
    "Gamma": laws(Gamma, [1.0, 2.5, 1.0, 2.5], [1.5, 1.5, 3.5, 3.5]),
    "Gumbel": laws(Gumbel, [-2.0, 4.0, -3.0, 6.0], [1.0, 2.5, 1.0, 2.5]),
    "HalfNormal": laws(HalfNormal, [1.0, 2.0, 1.0, 2.0]),
    "InverseGamma": laws(InverseGamma, [1.0, 2.5, 1.0, 2.5], [1.5, 1.5, 3.5, 3.5]),
    "Laplace": laws(Laplace, [-2.0, 4.0, -3.0, 6.0], [1.0, 2.5, 1.0, 2.5]),
    "LogNormal": laws(LogNormal, *FOUR),
    "Normal": laws(Normal, *FOUR),
    "OneHotCategorical": laws(OneHotCategorical, SIMPLEX),
    "Poisson": laws(Poisson, [0.3, 1.0, 5.0, 10.0]),
}
SAME = [(name, name) for name in LAWS]
ACROSS = [
    ("Beta", "ContinuousBernoulli"),
    ("Beta", "Exponential"),
    ("Beta", "Gamma"),
    ("Beta", "Normal"),
    ("ContinuousBernoulli", "Exponential"),
    ("ContinuousBernoulli", "Normal"),
    ("Exponential", "Gamma"),
    ("Exponential", "Normal"),
    ("Gamma", "Exponential"),
    ("Gamma", "Normal"),
    ("Gumbel", "Normal"),
    ("Laplace", "Normal"),
    ("Normal", "Laplace"),
    ("Bernoulli", "Poisson"),
    ("Binomial", "Poisson"),
]


@pytest.mark.parametrize(("name_p", "name_q"), SAME + ACROSS)
@pytest.mark.sample(3)
def test_every_pair_of_parameters(name_p, name_q):
    indices = torch.arange(4)
    p, q = LAWS[name_p](indices.repeat_interleave(4)), LAWS[name_q](indices.repeat(4))
    value = kl_divergence(p, q)
    assert value.shape == (16,)
    x = p.sample((20_000,))
    terms = p.log_prob(x) - q.log_prob(x)
    far = (terms.mean(0) - value).abs()
    assert bool((far <= 0.1 * (1 + value)).all())
    assert bool((far <= 6 * terms.std(0) / math.sqrt(20_000) + 1e-12).all())
    if name_p == name_q:
        assert bool((value.reshape(4, 4).diagonal() == 0).all())


OUTSIDE = [
    (Bernoulli(0.0), Bernoulli(1.0)),
    (Bernoulli(1.0), Bernoulli(0.0)),
    (Categorical(torch.tensor([0.9, 0.1])), Categorical(torch.tensor([1.0, 0.0]))),
    (Beta(1.0, 2.0), Uniform(0.25, 1.0)),
    (Beta(1.0, 2.0), Uniform(0.0, 0.75)),
    (Beta(1.0, 2.0), Pareto(1.0, 2.0)),
    (Binomial(31, torch.tensor(0.7)), Binomial(30, torch.tensor(0.3))),
    (ContinuousBernoulli(0.25), Uniform(0.25, 1.0)),
    (ContinuousBernoulli(0.25), Pareto(1.0, 2.0)),
    *itertools.product(
        (Exponential(1.0), Gamma(1.0, 2.0)),
        (Beta(1.0, 2.0), Pareto(1.0, 2.0), Uniform(0.0, 1.0), ContinuousBernoulli(0.75)),
    ),
    *itertools.product(
        (Gumbel(-1.0, 2.0), Laplace(-1.0, 2.0), Normal(-1.0, 2.0)),
        (Beta(1.0, 2.0), Exponential(1.0), Gamma(3.0, 4.0), Pareto(3.0, 4.0), Uniform(-3.0, 4.0)),
    ),
    *itertools.product((Pareto(2.0, 1.0),), (Beta(1.0, 2.0), Exponential(2.0), Gamma(3.0, 4.0), Uniform(2.0, 3.0))),
    (Pareto(1.0, 2.0), Pareto(2.0, 2.0)),
    (Poisson(2.0), Bernoulli(0.5)),
    (Poisson(2.3), Binomial(10, torch.tensor(0.2))),
    (Uniform(-1.0, 1.0), Beta(2.0, 2.0)),
    (Uniform(0.0, 2.0), Beta(3.0, 4.0)),
    (Uniform(-1.0, 2.0), Exponential(3.0)),
    (Uniform(-1.0, 2.0), Gamma(3.0, 4.0)),
    (Uniform(-1.0, 2.0), Pareto(3.0, 4.0)),
    (Uniform(-1.0, 2.0), Uniform(-0.5, 2.0)),
]


@pytest.mark.parametrize(("p", "q"), OUTSIDE, ids=lambda law: type(law).__name__)
def test_infinite(p, q):
    assert kl_divergence(p, q).item() == math.inf


def test_edges():
    """No NaN where a probability is 0 on both sides."""
    zero = torch.tensor([0.0, 1.0])
    assert kl_divergence(Bernoulli(zero), Bernoulli(zero)).tolist() == [0.0, 0.0]
    assert kl_divergence(Categorical(zero), Categorical(zero)).item() == 0.0
