"""An element's divergence is the same alone, in any batch and under vmap, for every family and divergence."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from torch import Tensor
from torch import distributions as d

import kullback as kb

DIVERGENCES = {
    "kl": kb.kl,
    "js": kb.js,
    "skew_kl": functools.partial(kb.skew_kl, alpha=0.1),
    "scaled_js": functools.partial(kb.scaled_js, beta=0.3),
    "total_variation": kb.total_variation,
    "hellinger": kb.hellinger,
    "chi2": kb.chi2,
    "renyi 0.3": functools.partial(kb.renyi, alpha=0.3),
    "renyi 3": functools.partial(kb.renyi, alpha=3.0),
    "renyi 0": functools.partial(kb.renyi, alpha=0.0),
    "renyi inf": functools.partial(kb.renyi, alpha=math.inf),
    "cross_entropy": kb.cross_entropy,
}
# Three elements of each family: typical, narrow or steep, far from the first.
FAMILIES = {
    d.Beta: ([2.0, 0.4, 60.0], [1.5, 0.7, 3.0]),
    d.Cauchy: ([0.0, 5.0, -30.0], [1.0, 0.01, 4.0]),
    d.Exponential: ([1.0, 40.0, 0.02],),
    d.FisherSnedecor: ([5.0, 2.0, 30.0], [7.0, 3.0, 9.0]),
    d.Gamma: ([2.0, 0.3, 90.0], [1.0, 3.0, 2.0]),
    d.Gumbel: ([0.0, 1.0, -9.0], [1.0, 0.05, 3.0]),
    d.HalfNormal: ([1.0, 0.01, 30.0],),
    d.InverseGamma: ([3.0, 1.1, 40.0], [1.0, 0.1, 50.0]),
    d.Kumaraswamy: ([2.0, 0.6, 30.0], [3.0, 0.5, 2.0]),
    d.Laplace: ([0.3, 5.0, -30.0], [1.2, 0.01, 4.0]),
    d.LogNormal: ([0.0, 2.0, -3.0], [1.0, 0.05, 2.0]),
    d.Normal: ([0.1, 5.0, -30.0], [1.0, 0.02, 9.0]),
    d.Pareto: ([1.0, 0.1, 5.0], [2.0, 3.0, 1.1]),
    d.StudentT: ([4.0, 2.5, 30.0], [0.0, 3.0, -20.0], [1.0, 0.1, 5.0]),
    d.Uniform: ([0.0, -2.0, 0.3], [1.0, 5.0, 0.4]),
    d.Weibull: ([1.0, 0.2, 30.0], [1.5, 0.6, 5.0]),
    d.Poisson: ([3.0, 0.1, 200.0],),
    d.Geometric: ([0.3, 0.9, 0.01],),
    d.NegativeBinomial: ([3.0, 0.5, 90.0], [0.4, 0.7, 0.2]),
}


def function_of(name: str, p: type, q: type) -> torch.types.Any:
    size = len(FAMILIES[p])

    def f(*parameters: Tensor) -> Tensor:
        first, second = p(*parameters[:size], validate_args=False), q(*parameters[size:], validate_args=False)
        return DIVERGENCES[name](first, second)

    return f


def pairs() -> list[tuple[type, type]]:
    """Every family as p and as q: its next but two of the same kind."""
    counts = [d.Poisson, d.Geometric, d.NegativeBinomial]
    continuous = [family for family in FAMILIES if family not in counts]
    return [
        (kind[i], kind[(i + step) % len(kind)])
        for kind, step in ((continuous, 3), (counts, 1))
        for i in range(len(kind))
    ]


@pytest.mark.sample(11)
@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize(("p", "q"), pairs(), ids=lambda kind: kind.__name__)
def test_alone_in_a_batch_and_under_vmap(name: str, p: type, q: type) -> None:
    f = function_of(name, p, q)
    batch = [torch.tensor(v, dtype=torch.float64) for kind in (p, q) for v in FAMILIES[kind]]
    alone = torch.stack([f(*(t[i] for t in batch)) for i in range(3)])
    assert not alone.isnan().any()
    assert torch.allclose(f(*batch), alone, rtol=1e-11, atol=0)
    assert torch.allclose(f(*(t.flip(0) for t in batch)).flip(0), alone, rtol=1e-11, atol=0)
    assert torch.allclose(torch.func.vmap(f)(*batch), alone, rtol=1e-7, atol=1e-15)
