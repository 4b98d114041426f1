"""Distributions without elements, or met while `torch.set_default_device` says elsewhere."""

import pytest
import torch
from torch import distributions as d

import kullback
from kullback.pairs import kl_divergence
from kullback.pairs.table import examples

PAIRS = [
    (d.Normal, d.Normal),  # a native formula
    (d.Gamma, d.Gamma),
    (d.Chi2, d.Gumbel),  # a closed form
    (d.Normal, d.Uniform),  # infinite
    (d.Weibull, d.StudentT),  # an integral
    (d.VonMises, d.Kumaraswamy),
    (d.Poisson, d.NegativeBinomial),  # a series
]


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


@pytest.mark.parametrize("divergence", [kullback.js, kullback.total_variation, kullback.hellinger, kullback.chi2])
def test_divergences_while_tensors_are_made_elsewhere(divergence):
    for p, q in (pair((d.Normal, d.Laplace)), pair((d.Poisson, d.NegativeBinomial))):
        with torch.device("meta"):
            elsewhere = divergence(p, q)
        assert torch.equal(elsewhere, divergence(p, q))
