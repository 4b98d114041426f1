"""Univariate integrals whose value is known by hand: components with gaps between them, and a flat density."""

from __future__ import annotations

import math

import pytest
import torch
from torch import distributions as d
from torch.distributions import ExpTransform, MixtureSameFamily, TransformedDistribution

from kullback.pairs import kl_divergence, kl_with_error


@pytest.mark.parametrize("gap", [0.1, 1e-4, 1e-5, 1e-9])
def test_a_gap_between_components(gap: float) -> None:
    half = torch.tensor([0.5, 0.5], dtype=torch.float64)
    low = torch.tensor([0.0, 0.5 + gap / 2], dtype=torch.float64)
    high = torch.tensor([0.5 - gap / 2, 1.0], dtype=torch.float64)
    p = MixtureSameFamily(d.Categorical(half), d.Uniform(low, high))
    q = d.Uniform(torch.zeros((), dtype=torch.float64), 1.0)
    # Half of the mass lies on either part; the widths are those of the stored ends.
    want = -(math.log(2 * (high[0] - low[0]).item()) + math.log(2 * (high[1] - low[1]).item())) / 2
    found = kl_with_error(p, q)
    assert abs(found.value.item() - want) <= 2e-16 + 1e-13 * want
    assert abs(found.value.item() - want) <= found.error.item() + 2e-16
    assert kl_divergence(q, p).item() == math.inf
    wide = kl_divergence(p, d.Uniform(torch.tensor(-gap, dtype=torch.float64), 1.0))
    assert wide.item() == pytest.approx(want + math.log1p(gap), rel=1e-12, abs=2e-16)


def test_the_exponential_of_components_that_end() -> None:
    low, high = torch.tensor([0.0, 2.0], dtype=torch.float64), torch.tensor([1.0, 3.0], dtype=torch.float64)
    half = torch.tensor([0.5, 0.5], dtype=torch.float64)
    base = MixtureSameFamily(d.Categorical(half), d.Uniform(low, high))
    p = TransformedDistribution(base, [ExpTransform()])
    # log p = −log 2 − log x on [1, e] and [e², e³], where E log x = 3/2.
    want = math.log(20.0) - math.log(2.0) - 1.5
    found = kl_with_error(p, d.Uniform(torch.ones((), dtype=torch.float64), 21.0))
    assert abs(found.value.item() - want) <= min(1e-12, found.error.item())
    assert kl_divergence(d.Uniform(torch.ones((), dtype=torch.float64), 20.0), p).item() == math.inf


@pytest.mark.parametrize(("name", "at", "want"), [("logits", 0.0, 0.25), ("probs", 0.5, 1.0)])
def test_a_flat_continuous_bernoulli_has_a_derivative(name: str, at: float, want: float) -> None:
    # −Cov(x, log x + 2·log(1 − x)) for a uniform x, and 4 times that in the probability.
    given = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    q = d.Beta(torch.tensor(2.0, dtype=torch.float64), 3.0)
    kl_divergence(d.ContinuousBernoulli(**{name: given}), q).backward()
    assert given.grad.item() == pytest.approx(want, rel=1e-12)
