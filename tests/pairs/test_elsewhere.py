"""Laws without elements, on another device, or met while `torch.set_default_device` says elsewhere.

The first call with two classes records their formula, so every call here is a first one.
"""

import pytest
import torch
from torch import distributions as d

import kullback
from kullback.pairs import kl_divergence
from kullback.pairs.densities import count_programs, programs
from kullback.pairs.families import examples
from kullback.pairs.parameters import recordable

PAIRS = [
    (d.Normal, d.Normal),  # a native formula
    (d.Gamma, d.Gamma),
    (d.Chi2, d.Gumbel),  # a recorded one
    (d.Normal, d.Uniform),  # infinite
    (d.Weibull, d.StudentT),  # an integral
    (d.VonMises, d.Kumaraswamy),
    (d.Poisson, d.NegativeBinomial),  # a series
]


@pytest.fixture(autouse=True)
def nothing_recorded(monkeypatch):
    for module in (programs, count_programs):
        monkeypatch.setattr(module, "_known", {})


def pair(families):
    return [examples()[family] for family in families]


def names(families):
    return "-".join(family.__name__ for family in families)


@pytest.mark.parametrize("families", PAIRS, ids=names)
def test_without_elements(families):
    p, q = pair(families)
    assert kl_divergence(p.expand((0,)), q.expand((2, 0))).shape == (2, 0)
    assert torch.isfinite(kl_divergence(p, q)) or families[1] in (d.Uniform, d.Kumaraswamy)


@pytest.mark.parametrize("families", PAIRS, ids=names)
def test_while_tensors_are_made_elsewhere(families):
    p, q = pair(families)
    with torch.device("meta"):  # what torch.set_default_device sets
        elsewhere = kl_divergence(p, q)
    assert torch.equal(elsewhere, kl_divergence(p, q))


@pytest.mark.parametrize("sister", [kullback.js, kullback.total_variation, kullback.hellinger, kullback.chi2])
def test_sisters_while_tensors_are_made_elsewhere(sister):
    for p, q in (pair((d.Normal, d.Laplace)), pair((d.Poisson, d.NegativeBinomial))):
        with torch.device("meta"):
            elsewhere = sister(p, q)
        assert torch.equal(elsewhere, sister(p, q))


def test_formulas_are_recorded_from_numbers_at_hand():
    """A law on another device takes torch's operations, first calls included."""
    p, q = pair((d.Normal, d.Normal))
    numbers = torch.empty(3, device="meta")
    assert recordable(p, q)
    assert not recordable(p, d.Normal(numbers, numbers, validate_args=False))
    assert not recordable(p, q.expand((0,)))
