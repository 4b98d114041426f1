"""install_into_torch and uninstall_from_torch: torch's own function gives our answers, then its own again."""

from typing import ClassVar

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


class Point(d.Distribution):
    """A distribution of somebody else's, with somebody else's formulas."""

    arg_constraints: ClassVar = {}

    def __init__(self, at):
        self.at = at
        super().__init__(at.shape, validate_args=False)


@pytest.fixture
def theirs():
    keys = [(Point, d.Normal), (d.Independent, d.MultivariateNormal)]
    before = {key: torch_kl._KL_REGISTRY.get(key) for key in keys}
    torch.distributions.register_kl(*keys[0])(lambda p, q: -q.log_prob(p.at))
    torch.distributions.register_kl(*keys[1])(lambda p, q: -q.log_prob(p.base_dist.at))
    yield
    for key, formula in before.items():
        if formula is None:
            del torch_kl._KL_REGISTRY[key]
        else:
            torch_kl._KL_REGISTRY[key] = formula
    torch_kl._KL_MEMOIZE.clear()


@pytest.mark.usefixtures("theirs", "installed")
def test_pairs_of_other_libraries_keep_their_answers():
    point, at = Point(torch.zeros(2)), torch.ones(2)
    kl = torch.distributions.kl_divergence
    normal, joint = d.Normal(at, 1.0), d.MultivariateNormal(at, torch.eye(2))
    torch.testing.assert_close(kl(point, normal), -normal.log_prob(point.at))
    torch.testing.assert_close(kl(d.Independent(point, 1), joint), -joint.log_prob(point.at))
    torch.testing.assert_close(kl(d.Independent(point, 1), d.Independent(normal, 1)), -normal.log_prob(point.at).sum())
    # …and what kullback answers under the same entry is still kullback's.
    close = d.Independent(d.Normal(at.double(), 1.0), 1)
    near = d.MultivariateNormal(at.double() + 1e-9, torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(kl(close, near), kullback.kl(close, near), rtol=0, atol=0)


@pytest.mark.usefixtures("installed")
def test_a_mixture_of_vectors_says_what_to_do():
    parts = d.Independent(d.Normal(torch.zeros(2, 3), 1.0), 1)
    p = d.MixtureSameFamily(d.Categorical(torch.ones(2)), parts)
    with pytest.raises(NotImplementedError, match="kl_with_error"):
        torch.distributions.kl_divergence(p, p)


@pytest.mark.usefixtures("installed")
def test_a_wrong_answer_of_torch_does_not_come_back():
    fold = [d.transforms.AbsTransform()]
    p, q = (d.TransformedDistribution(d.Normal(at, 1.0), fold) for at in (-1.0, 1.0))
    with pytest.raises(NotImplementedError):
        torch.distributions.kl_divergence(p, q)
