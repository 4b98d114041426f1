"""What torch keeps on an object once it has been used changes no answer, not even its dtype."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import distributions as d
from torch.distributions import Distribution

from kullback import kl
from kullback.pairs.table import examples

USES = ("mean", "mode", "variance", "probs", "logits", "scale_tril", "covariance_matrix", "precision_matrix", "support")


def fresh(distribution: Distribution) -> Distribution:
    """Another object. A deep copy of a Gumbel cannot be sampled: its inverse transform is a weak reference."""
    return copy.copy(distribution) if isinstance(distribution, d.Gumbel) else copy.deepcopy(distribution)


def used(distribution: Distribution) -> Distribution:
    distribution = fresh(distribution)
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a Wishart may say that it drew a singular matrix
        value = distribution.sample()
    uses: list[Callable[[], object]] = [lambda: distribution.log_prob(value), distribution.entropy]
    uses += [lambda name=name: getattr(distribution, name) for name in USES]
    for use in uses:
        with contextlib.suppress(NotImplementedError, AttributeError):
            use()
    return distribution


def check(p: Distribution, q: Distribution) -> None:
    expected = kl(p, q)
    assert not expected.isnan().any()
    for a, b in ((used(p), q), (p, used(q)), (used(p), used(q))):
        found = kl(a, b)
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


@pytest.mark.parametrize("kind", examples(), ids=lambda kind: kind.__name__)
def test_equal_distributions(kind: type[Distribution]) -> None:
    check(fresh(examples()[kind]), fresh(examples()[kind]))


def arguments(dtype: torch.dtype) -> dict[type[Distribution], list[dict[str, torch.Tensor]]]:
    """Two different distributions of each kind, given by what torch derives the rest from."""
    square = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=dtype)
    ones = torch.ones(2, dtype=dtype)
    return {
        d.VonMises: [{"loc": ones[0] * x, "concentration": ones[0] * x} for x in (1.0, 2.5)],
        d.Bernoulli: [{"logits": ones[0] * x} for x in (-40.0, 3.0)],
        d.Categorical: [{"probs": x * ones + torch.arange(2, dtype=dtype)} for x in (0.0, 3.0)],
        d.NegativeBinomial: [{"total_count": ones[0] * 3, "logits": ones[0] * x} for x in (-1.0, 2.0)],
        d.MultivariateNormal: [{"loc": ones * x, "precision_matrix": square * x} for x in (1.0, 3.0)],
        d.LowRankMultivariateNormal: [
            {"loc": ones * x, "cov_factor": square * x, "cov_diag": ones * x} for x in (1.0, 3.0)
        ],
        d.Wishart: [{"df": ones[0] * 5, "covariance_matrix": square * x} for x in (1.0, 3.0)],
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", arguments(torch.float32))
def test_different_distributions(kind: type[Distribution], dtype: torch.dtype) -> None:
    p, q = arguments(dtype)[kind]
    check(kind(**p), kind(**q))
