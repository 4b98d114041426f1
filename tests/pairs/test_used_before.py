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


def fresh(law: Distribution) -> Distribution:
    """Another object. A deep copy of a Gumbel cannot be sampled: its inverse transform is a weak reference."""
    return copy.copy(law) if isinstance(law, d.Gumbel) else copy.deepcopy(law)


def used(law: Distribution) -> Distribution:
    law = fresh(law)
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a Wishart may say that it drew a singular matrix
        value = law.sample()
    uses: list[Callable[[], object]] = [lambda: law.log_prob(value), law.entropy]
    uses += [lambda name=name: getattr(law, name) for name in USES]
    for use in uses:
        with contextlib.suppress(NotImplementedError, AttributeError):
            use()
    return law


def check(p: Distribution, q: Distribution) -> None:
    expected = kl(p, q)
    assert not expected.isnan().any()
    for a, b in ((used(p), q), (p, used(q)), (used(p), used(q))):
        found = kl(a, b)
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


@pytest.mark.parametrize("kind", examples(), ids=lambda kind: kind.__name__)
def test_equal_laws(kind: type[Distribution]) -> None:
    check(fresh(examples()[kind]), fresh(examples()[kind]))


def pair(kind: type[Distribution], dtype: torch.dtype) -> tuple[Distribution, Distribution]:
    """Two different laws of one kind, given by what torch derives the rest from."""
    square = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=dtype)
    ones = torch.ones(2, dtype=dtype)
    arguments: dict[type[Distribution], list[dict[str, object]]] = {
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
    p, q = arguments[kind]
    return kind(**p), kind(**q)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "kind",
    [
        d.Bernoulli,
        d.Categorical,
        d.LowRankMultivariateNormal,
        d.MultivariateNormal,
        d.NegativeBinomial,
        d.VonMises,
        d.Wishart,
    ],
)
def test_different_laws(kind: type[Distribution], dtype: torch.dtype) -> None:
    check(*pair(kind, dtype))


def test_a_von_mises_of_any_concentration() -> None:
    """torch keeps a number for its sampler that is NaN here."""
    huge = torch.tensor(1e200, dtype=torch.float64)
    p, q = (d.VonMises(torch.zeros_like(huge), concentration) for concentration in (huge, huge / 2))
    assert p._proposal_r.isnan()
    assert kl(p, q).item() >= 0
