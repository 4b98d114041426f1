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


PAIRS = [
    (d.Normal(0.0, 1.0), d.Normal(2e-4, 1.0)),
    (d.Normal(torch.zeros(2, dtype=torch.float64), 1.0), d.Normal(1e-8, 1.0)),
    (d.Normal(0.0, 1.0), d.Uniform(torch.zeros(3), torch.ones(3))),
    (d.Independent(d.Normal(torch.zeros(3), 1.0), 1), d.Independent(d.Normal(torch.ones(3), 1.0), 1)),
    (d.LogNormal(0.0, 1.0), d.LogNormal(1.0, 2.0)),
]


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=lambda x: type(x).__name__)
@pytest.mark.usefixtures("installed")
def test_torch_answers_as_kullback_does(p, q):
    got = torch.distributions.kl_divergence(p, q)
    want = kullback.kl_divergence(p, q)
    assert got.shape == want.shape
    assert torch.equal(got, want)


@pytest.mark.usefixtures("installed")
def test_subclasses_follow():
    class Mine(d.Normal):
        pass

    assert torch.distributions.kl_divergence(Mine(0.0, 1.0), d.Normal(2e-4, 1.0)) > 0


@pytest.mark.usefixtures("installed")
def test_twice_is_once():
    kullback.install_into_torch()


def test_uninstalling_without_installing_changes_nothing():
    before = dict(torch_kl._KL_REGISTRY)
    kullback.uninstall_from_torch()
    assert before == torch_kl._KL_REGISTRY


def test_an_entry_somebody_replaced_stays_theirs():
    before = torch_kl._KL_REGISTRY[d.Normal, d.Normal]
    kullback.install_into_torch()
    try:

        def theirs(p, q):
            return torch.zeros(())

        torch.distributions.register_kl(d.Normal, d.Normal)(theirs)
        kullback.uninstall_from_torch()
        assert torch_kl._KL_REGISTRY[d.Normal, d.Normal] is theirs
    finally:
        torch_kl._KL_REGISTRY[d.Normal, d.Normal] = before
        torch_kl._KL_MEMOIZE.clear()
