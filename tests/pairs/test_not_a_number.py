"""A parameter that is NaN makes its own element NaN, and no other: never a number, an infinity or an exception."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

import kullback
from kullback.kernels import native

CONTINUOUS: dict[type[Distribution], dict[str, float]] = {
    d.Beta: {"concentration1": 2.0, "concentration0": 1.5},
    d.Cauchy: {"loc": 0.3, "scale": 1.2},
    d.Chi2: {"df": 3.0},
    d.Exponential: {"rate": 1.3},
    d.Gamma: {"concentration": 2.0, "rate": 1.5},
    d.Gumbel: {"loc": 0.3, "scale": 1.0},
    d.HalfCauchy: {"scale": 1.0},
    d.HalfNormal: {"scale": 1.0},
    d.InverseGamma: {"concentration": 3.0, "rate": 1.0},
    d.Kumaraswamy: {"concentration1": 2.0, "concentration0": 1.5},
    d.Laplace: {"loc": 0.3, "scale": 1.2},
    d.LogNormal: {"loc": 0.0, "scale": 0.7},
    d.Normal: {"loc": 0.3, "scale": 1.2},
    d.Pareto: {"scale": 0.5, "alpha": 4.0},
    d.StudentT: {"df": 5.0, "loc": 0.0, "scale": 1.0},
    d.Uniform: {"low": 0.1, "high": 0.8},
    d.VonMises: {"loc": 0.1, "concentration": 2.0},
    d.Weibull: {"scale": 1.0, "concentration": 1.5},
}
DISCRETE: dict[type[Distribution], dict[str, float]] = {
    d.Bernoulli: {"probs": 0.3},
    d.Binomial: {"total_count": 5.0, "probs": 0.3},
    d.Geometric: {"probs": 0.4},
    d.NegativeBinomial: {"total_count": 5.0, "probs": 0.3},
    d.Poisson: {"rate": 2.0},
}
# torch itself refuses these, whatever validate_args says.
REFUSED = {(d.StudentT, "df")}
DIVERGENCES: list[Callable[..., Tensor]] = [
    kullback.chi2,
    kullback.cross_entropy,
    kullback.hellinger,
    kullback.jeffreys,
    kullback.js,
    kullback.total_variation,
]


def distribution(kind: type[Distribution], parameters: dict[str, float], lost: str | None = None) -> Distribution:
    """Three equal elements, the middle one with a parameter that is NaN."""
    tensors = {name: torch.full((3,), value, dtype=torch.float64) for name, value in parameters.items()}
    if lost is not None:
        tensors[lost][1] = torch.nan
    return kind(**tensors, validate_args=False)


def with_lost(kind: type[Distribution], parameters: dict[str, float]) -> list[Distribution]:
    return [distribution(kind, parameters, name) for name in parameters if (kind, name) not in REFUSED]


def only_the_middle_is_lost(value: Tensor, plain: Tensor) -> bool:
    infinite_anyway = bool(plain.isinf().all() and value[1].isinf())
    return (bool(value[1].isnan()) or infinite_anyway) and torch.allclose(value[::2], plain[::2], rtol=1e-9)


@pytest.mark.parametrize("kind", [*CONTINUOUS, *DISCRETE], ids=lambda kind: kind.__name__)
@pytest.mark.sample(4)
def test_kl_of_every_pair(kind: type[Distribution]) -> None:
    families = CONTINUOUS if kind in CONTINUOUS else DISCRETE
    p = distribution(kind, families[kind])
    for other, parameters in families.items():
        q = distribution(other, parameters)
        plain = kullback.kl(p, q)
        pairs = [(broken, q) for broken in with_lost(kind, families[kind])]
        pairs += [(p, broken) for broken in with_lost(other, parameters)]
        for broken_p, broken_q in pairs:
            assert only_the_middle_is_lost(kullback.kl(broken_p, broken_q), plain), (broken_p, broken_q)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda divergence: divergence.__name__)
@pytest.mark.parametrize(
    ("kind", "other"),
    [(d.Normal, d.Normal), (d.Normal, d.Cauchy), (d.Gamma, d.Gamma), (d.Poisson, d.Geometric)],
    ids=lambda kind: kind.__name__,
)
def test_divergences(divergence: Callable[..., Tensor], kind: type[Distribution], other: type[Distribution]) -> None:
    families = CONTINUOUS | DISCRETE
    q = distribution(other, families[other])
    plain = divergence(distribution(kind, families[kind]), q)
    for broken in with_lost(kind, families[kind]):
        assert only_the_middle_is_lost(divergence(broken, q), plain), broken


def test_structures() -> None:
    cauchy = distribution(d.Cauchy, CONTINUOUS[d.Cauchy])
    broken = distribution(d.Laplace, CONTINUOUS[d.Laplace], "loc")
    assert kullback.kl(d.Independent(broken, 1), d.Independent(cauchy, 1)).isnan()
    weights = torch.tensor([[1.0, 1.0], [torch.nan, 1.0], [1.0, 1.0]], dtype=torch.float64)
    parts = d.Normal(torch.tensor([0.0, 1.0], dtype=torch.float64).expand(3, 2), 1.0)
    mixture = d.MixtureSameFamily(d.Categorical(weights, validate_args=False), parts, validate_args=False)
    assert kullback.kl(mixture, cauchy).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("kind", [d.Normal, d.Gamma, d.Beta, d.Chi2, d.LogNormal], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parameters_outside_the_domain_are_no_numbers_either(kind: type[Distribution], dtype: torch.dtype) -> None:
    """torch checks them only if it is asked to, and the native kernels take parameters apart bit by bit."""
    parameters = CONTINUOUS[kind]
    *_, last = parameters
    good = kind(**{k: torch.tensor(v, dtype=dtype) for k, v in parameters.items()})
    bad = kind(
        **{k: torch.tensor(-v if k == last else v, dtype=dtype) for k, v in parameters.items()}, validate_args=False
    )
    assert not kullback.kl(bad, good).isfinite()
    assert not kullback.kl(good, bad).isfinite()
    bad_tensor = torch.tensor(-1.0, dtype=dtype, requires_grad=True)
    leaf = kind(
        **{k: bad_tensor if k == last else torch.tensor(v, dtype=dtype) for k, v in parameters.items()},
        validate_args=False,
    )
    (slope,) = torch.autograd.grad(kullback.kl(leaf, good), bad_tensor)
    assert slope.isnan() or native.library() is None
