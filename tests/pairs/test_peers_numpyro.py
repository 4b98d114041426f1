"""Pairs that NumPyro has rules for, and near relatives, held to samples as its own tests do.

The tolerance there is 5 % at 10,000 samples; here it is that or five standard errors of the mean, at a fixed seed.
"""

import pytest
import torch
from torch.distributions import (
    Beta,
    Dirichlet,
    Gamma,
    HalfNormal,
    Independent,
    InverseGamma,
    Kumaraswamy,
    MultivariateNormal,
    Normal,
    Weibull,
)

from kullback.pairs import kl_divergence

PAIRS = [
    (Beta, Beta),
    (Gamma, Gamma),
    (Gamma, InverseGamma),
    (InverseGamma, InverseGamma),
    (Kumaraswamy, Beta),
    (Kumaraswamy, Kumaraswamy),
    (Normal, Normal),
    (HalfNormal, HalfNormal),
    (Weibull, Gamma),
    (Weibull, Weibull),
]


@pytest.fixture(autouse=True)
def fixed_seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def positive(shape):
    return torch.exp(0.5 * torch.randn(shape, dtype=torch.float64))


def made(family, shape):
    """A law with random parameters: locations normal, all others positive."""
    names = [name for name in family.arg_constraints if name != "covariance_matrix"]
    return family(**{n: torch.randn(shape, dtype=torch.float64) if n == "loc" else positive(shape) for n in names})


def hold(p, q):
    value = kl_divergence(p, q)
    assert value.shape == p.batch_shape
    x = p.sample((10_000,))
    terms = p.log_prob(x) - q.log_prob(x)
    far = (terms.mean(0) - value).abs()
    allowed = torch.maximum(0.05 * value, 5 * terms.std(0) / 100)
    assert bool((far <= allowed).all()), (value, terms.mean(0))


@pytest.mark.parametrize("shape", [(4,), (2, 3)])
@pytest.mark.parametrize(("family_p", "family_q"), PAIRS)
def test_univariate(family_p, family_q, shape):
    p, q = made(family_p, shape), made(family_q, shape)
    if (family_p, family_q) == (Gamma, InverseGamma):
        p = Gamma(p.concentration + 2, p.rate)  # 1/x has a variance, which the samples need, above a concentration of 2
    hold(p, q)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 3, 5)])
def test_dirichlet(shape):
    hold(Dirichlet(positive(shape)), Dirichlet(positive(shape)))


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("event", [(), (4,), (2, 3)])
def test_independent_normals(batch, event):
    """The sum over reinterpreted dimensions of what the normals have."""
    shape = batch + event
    inner = [Normal(torch.randn(shape, dtype=torch.float64), positive(shape)) for _ in range(2)]
    value = kl_divergence(*(Independent(law, len(event)) for law in inner))
    assert value.shape == batch
    wanted = kl_divergence(*inner).flatten(len(batch)).sum(-1) if event else kl_divergence(*inner)
    torch.testing.assert_close(value, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_expanded_normals(batch):
    p, q = Normal(torch.zeros((), dtype=torch.float64), 1.0), Normal(torch.randn(batch, dtype=torch.float64), 2.0)
    value = kl_divergence(p.expand(batch), q)
    assert value.shape == batch
    torch.testing.assert_close(value, kl_divergence(p, q), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("batch_p", "batch_q"), [((1,), (1,)), ((2, 3), (2, 3)), ((5, 1, 3), (2, 3)), ((1, 3), (5, 2, 3))]
)
@pytest.mark.parametrize("shared", [False, True])
def test_a_diagonal_gaussian_is_independent_normals(batch_p, batch_q, shared):
    """Also where one scale serves a whole batch of locations."""

    def both(batch):
        loc, scale = torch.randn(*batch, 5, dtype=torch.float64), positive((*([] if shared else batch), 5))
        joint = MultivariateNormal(loc, scale_tril=torch.diag_embed(scale))
        return Independent(Normal(loc, scale), 1), joint

    (p, joint_p), (q, joint_q) = both(batch_p), both(batch_q)
    value = kl_divergence(joint_p, joint_q)
    assert value.shape == torch.broadcast_shapes(batch_p, batch_q)
    for one, other in ((p, q), (p, joint_q), (joint_p, q)):
        torch.testing.assert_close(kl_divergence(one, other), value, rtol=1e-12, atol=0)


def test_a_gaussian_with_correlations():
    """The number there, to its digits."""
    wide = MultivariateNormal(torch.ones(2), torch.tensor([[2.0, 0.8], [0.8, 0.5]]))
    value = kl_divergence(MultivariateNormal(torch.zeros(2), torch.eye(2)), wide)
    torch.testing.assert_close(value, torch.tensor(3.21138), rtol=0, atol=2e-5)
