"""install_into_torch and uninstall_from_torch: torch's own function gives our answers, then its own again."""

import pytest
import torch
from torch import distributions as d
from torch.distributions import kl as torch_kl

import kullback


@pytest.fixture
def installed():
    before = dict(torch_kl._KL_REGISTRY)
    kullback.install_into_torch()
    yield
    kullback.uninstall_from_torch()
    assert before == torch_kl._KL_REGISTRY


MIXTURE = d.MixtureSameFamily(d.Categorical(torch.tensor([0.3, 0.7])), d.Normal(torch.tensor([0.0, 2.0]), 1.0))
TANH = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.TanhTransform()])
PAIRS = [
    (d.Normal(0.0, 1.0), d.Normal(2e-4, 1.0)),
    (d.Normal(torch.zeros(2, dtype=torch.float64), 1.0), d.Normal(1e-8, 1.0)),
    (d.Normal(0.0, 1.0), d.Uniform(torch.zeros(3), torch.ones(3))),
    (d.Independent(d.Normal(torch.zeros(3), 1.0), 1), d.Independent(d.Normal(torch.ones(3), 1.0), 1)),
    (d.LogNormal(0.0, 1.0), d.LogNormal(1.0, 2.0)),
    (MIXTURE, d.Normal(0.0, 1.0)),
    (d.Laplace(0.0, 1.0), MIXTURE),
    (MIXTURE, MIXTURE.expand((2,))),
    (TANH, MIXTURE),
    (d.LogNormal(0.0, 1.0), d.TransformedDistribution(d.Gamma(2.0, 1.0), [d.AffineTransform(0.0, 2.0)])),
]


@pytest.mark.usefixtures("installed")
def test_torch_answers_as_kullback_does():
    for p, q in PAIRS:
        got, want = torch.distributions.kl_divergence(p, q), kullback.kl_divergence(p, q)
        assert got.shape == want.shape, (p, q)
        assert torch.equal(got, want), (p, q)


@pytest.mark.usefixtures("installed")
def test_subclasses_follow():
    class Mine(d.Normal):
        pass

    assert torch.distributions.kl_divergence(Mine(0.0, 1.0), d.Normal(2e-4, 1.0)) > 0


def test_uninstalling_without_installing_changes_nothing():
    before = dict(torch_kl._KL_REGISTRY)
    kullback.uninstall_from_torch()
    assert before == torch_kl._KL_REGISTRY


@pytest.mark.usefixtures("installed")
def test_a_wrong_answer_of_torch_does_not_come_back():
    fold = [d.transforms.AbsTransform()]
    p, q = (d.TransformedDistribution(d.Normal(at, 1.0), fold) for at in (-1.0, 1.0))
    with pytest.raises(NotImplementedError):
        torch.distributions.kl_divergence(p, q)
