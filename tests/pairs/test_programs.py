"""Integrals by recorded programs give what torch's operations give, and decline what they were not recorded for."""

from __future__ import annotations

import math
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution
from torch.distributions import transforms as maps

from kullback import kl_divergence, kl_method
from kullback.kernels import native
from kullback.kernels.pointwise import Pointwise
from kullback.pairs import counting, univariate
from kullback.pairs.densities import programs
from kullback.pairs.parameters import gives_logits
from kullback.pairs.univariate import kl_by_integral

pytestmark = pytest.mark.skipif(native.library() is None, reason="programs are native")


def t(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def by_torch(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor]:
    counted = kl_method(p, q) == "series"
    return (counting if counted else univariate)._by_operations(p, q, None)


# Each pair in elements of very different kinds: narrow, wide, far apart, nearly equal, infinite.
PAIRS = {
    "Beta ‖ Kumaraswamy": (
        d.Beta(t(2.0, 300.0, 0.1, 1.0), t(3.0, 2e4, 0.2, 2.0)),
        d.Kumaraswamy(t(1.5, 40.0, 2.0, 1.0), t(2.0, 0.5, 2.0, 2.0 + 1e-2)),
    ),
    "Gamma ‖ Cauchy": (d.Gamma(t(2.0, 1e6, 0.05), t(1.0, 1e-3, 1e8)), d.Cauchy(t(0.0, 1e9, 3.0), t(1.0, 1e-3, 1e-8))),
    "StudentT ‖ Laplace": (d.StudentT(t(0.5, 1.0, 3.0, 1e4)), d.Laplace(t(0.0, 0.0, 1e6, 0.1), t(1.0, 1.0, 1.0, 0.7))),
    "Pareto ‖ GeneralizedPareto": (
        d.Pareto(t(1.0, 2.0), t(3.0, 0.7)),
        d.GeneralizedPareto(t(0.0, 0.0), t(1.0, 5.0), t(0.3, -0.1)),
    )
    if hasattr(d, "GeneralizedPareto")
    else (d.Pareto(t(1.0), t(3.0)), d.FisherSnedecor(t(4.0), t(5.0))),
    "Uniform ‖ VonMises": (d.Uniform(t(-1.0, -4.0), t(2.0, 1.0)), d.VonMises(t(0.3, 0.0), t(2.0, 1.0))),
    "InverseGamma ‖ Gumbel": (d.InverseGamma(t(3.0, 0.5), t(2.0, 2.0)), d.Gumbel(t(1.0, 0.0), t(1.0, 2.0))),
    "GeneralizedPareto ‖ Gamma": (
        d.GeneralizedPareto(t(0.0, 0.0), t(1.0, 0.3), t(0.2, 0.4)),
        d.Gamma(t(2.0, 0.5), t(1.0)),
    )
    if hasattr(d, "GeneralizedPareto")
    else (d.Weibull(t(1.0), t(1.3)), d.HalfCauchy(t(1.0))),
    "Mixture ‖ Laplace": (
        d.MixtureSameFamily(
            d.Categorical(probs=torch.stack([t(0.5, 1e-12, 0.3), t(0.5, 1.0, 0.7), t(0.0, 0.0, 1.0)], -1)),
            d.Normal(t(-1.0, 2.0, 1e3), torch.stack([t(1.0, 1e-4, 3.0)] * 3)),
        ),
        d.Laplace(t(0.3, -2.0, 1.0), t(1.0, 2.0, 0.1)),
    ),
    "StudentT ‖ Mixture": (
        d.StudentT(t(5.0, 1.0, 3.0), t(0.0, 1.0, 9.0), t(1.0, 2.0, 1e-3)),
        d.MixtureSameFamily(d.Categorical(logits=t(0.3, -0.4)), d.Laplace(t(-2.0, 3.0), t(0.7, 1.5))).expand([3]),
    ),
    "Mixture ‖ Mixture": (
        d.MixtureSameFamily(d.Categorical(logits=t(0.0, 1.0)), d.Normal(t(-2.0, 2.0), t(0.5, 1.0))),
        d.MixtureSameFamily(d.Categorical(logits=t(0.3, -0.4, 2.0)), d.Cauchy(t(-2.0, 0.0, 3.0), t(0.7, 1.0, 1.5))),
    ),
    "tanh of Normal ‖ Uniform": (
        d.TransformedDistribution(d.Normal(t(0.2, 4.0), t(1.1, 1e-3)), [maps.TanhTransform()]),
        d.Uniform(t(-1.0, -1.0), t(1.0, 2.0)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_agrees_with_torchs_operations(name: str) -> None:
    p, q = PAIRS[name]
    found, expected = univariate._by_programs(p, q), by_torch(p, q)
    assert found is not None
    torch.testing.assert_close(found[0], expected[0].expand_as(found[0]), rtol=1e-11, atol=0)
    assert not found[0].isnan().any()
    assert (found[1] < 1e-10 * found[0].clamp_min(1e-4)).logical_or(found[0].isinf()).all()


def test_one_element_and_many_shapes() -> None:
    p, q = d.Beta(t(2.0)[0], t(3.0)[0]), d.Weibull(t(1.0)[0], t(1.7)[0])
    one = kl_by_integral(p, q)[0]
    assert one.shape == ()
    wide = kl_by_integral(p.expand([2, 1]), q.expand([3]))[0]
    torch.testing.assert_close(wide, one.expand(2, 3), rtol=1e-14, atol=0)
    assert kl_divergence(p.expand([0]), q).shape == (0,)


def test_conditions_of_the_example_do_not_stick() -> None:
    """Supports that begin together in the first call, apart in the second, and overlap only partly in the third."""
    target = d.Gumbel(t(0.0), t(1.0))
    for low, high in ((0.0, 1.0), (5.0, 6.0), (-1e8, 1e8), (1e-30, 1e-20)):
        p = d.Uniform(t(low), t(high))
        torch.testing.assert_close(kl_by_integral(p, target)[0], by_torch(p, target)[0], rtol=1e-11, atol=0)
    for loc in (0.0, -1.0, 0.5):
        p = d.Pareto(t(1.0), t(3.0))
        q = d.TransformedDistribution(d.Gamma(t(2.0), t(1.0)), [maps.AffineTransform(t(loc), t(1.0))])
        assert kl_by_integral(p, q)[0].isfinite().all()
    q = d.TransformedDistribution(d.Gamma(t(2.0), t(1.0)), [maps.AffineTransform(t(2.0), t(1.0))])
    assert kl_by_integral(d.Pareto(t(1.0), t(3.0)), q)[0].item() == math.inf


def followed(law: Distribution, leaves: list[Tensor]) -> Distribution:
    """The same law with parameters that ask for derivatives."""
    state = {}
    for name in law.arg_constraints:
        given = getattr(law, name)
        if name not in {"probs", "logits"} or (name == "logits") == gives_logits(law):
            leaves.append(given.detach().clone().requires_grad_())
            state[name] = leaves[-1]
    if isinstance(law, d.MixtureSameFamily):
        parts = followed(law.mixture_distribution, leaves), followed(law.component_distribution, leaves)
        return d.MixtureSameFamily(*parts, validate_args=False)  # type: ignore[arg-type]
    if type(law) is d.TransformedDistribution:
        return d.TransformedDistribution(followed(law.base_dist, leaves), law.transforms)
    return type(law)(**state, validate_args=False)


# Of a component, or a q, that is 1e-4 or less of p wide the derivatives of torch's operations keep five digits.
NARROW = {"Gamma ‖ Cauchy", "Mixture ‖ Laplace"}


@pytest.mark.parametrize("name", [name for name in PAIRS if name not in NARROW])
def test_gradients_agree_with_those_of_torchs_operations(name: str) -> None:
    leaves: list[Tensor] = []
    p, q = (followed(law, leaves) for law in PAIRS[name])
    found = univariate._by_programs(p, q)
    if found is None:  # seen too seldom
        assert name == "tanh of Normal ‖ Uniform"
        return
    expected = by_torch(p, q)[0]
    finite = expected.isfinite()
    values = [torch.where(finite, value, 0.0).sum() for value in (found[0], expected)]
    slopes, others = (torch.autograd.grad(v, leaves, retain_graph=True, allow_unused=True) for v in values)
    for slope, other in zip(slopes, others, strict=True):
        assert (slope is None) == (other is None) or not (slope if other is None else other).any()
        if slope is not None and other is not None:
            torch.testing.assert_close(slope, other, rtol=1e-8, atol=1e-10 * float(other.abs().max()))


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (d.Beta(t(2.0, 0.7), t(3.0, 4.0)), d.Weibull(t(1.0, 0.4), t(1.7, 1.1))),
        (d.Laplace(t(0.3), t(1.0)), d.StudentT(t(4.0), t(0.1), t(1.2))),
        (
            d.MixtureSameFamily(d.Categorical(logits=t(0.0, 1.0)), d.Normal(t(-2.0, 2.0), t(0.5, 1.0))),
            d.Gumbel(t(0.3), t(1.5)),
        ),
        (
            d.Poisson(t(3.0, 40.0)),
            d.MixtureSameFamily(d.Categorical(probs=t(0.3, 0.7)), d.NegativeBinomial(t(3.0, 30.0), t(0.5, 0.6))),
        ),
        (d.Geometric(t(0.3)), d.NegativeBinomial(t(1.0), t(0.7 - 1e-6))),
    ],
    ids=lambda law: type(law).__name__,
)
def test_derivatives_of_derivatives_are_those_of_torchs_operations(p: Distribution, q: Distribution) -> None:
    leaves: list[Tensor] = []
    p, q = followed(p, leaves), followed(q, leaves)
    found, expected = kl_divergence(p, q), by_torch(p, q)[0]
    curvatures = []
    for value in (found, expected):
        first = torch.autograd.grad(value.sum(), leaves, create_graph=True)
        mixed = sum(((k + 1) * slope).sum() for k, slope in enumerate(first))
        assert isinstance(mixed, Tensor)
        curvatures.append([*first, *torch.autograd.grad(mixed, leaves, retain_graph=True)])
    plain = torch.autograd.grad(found.sum(), leaves, retain_graph=True)
    batched = torch.autograd.grad(
        found, leaves, torch.eye(found.numel(), dtype=torch.float64), is_grads_batched=True, retain_graph=True
    )
    for a, b in zip(*curvatures, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
    for slope, each, other in zip(plain, batched, curvatures[1], strict=False):
        torch.testing.assert_close(slope, other, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(each.sum(0), other, rtol=1e-9, atol=1e-11)


def test_pointwise_is_its_formula_with_two_derivatives() -> None:
    def formula(z: Tensor, scale: Tensor) -> Tensor:
        return torch.where(z > 0, torch.exp(-((z / scale) ** 2) / 2), torch.log1p(z * z) * scale)

    native_form = Pointwise(formula)
    z, scale = torch.linspace(-2, 2, 40, dtype=torch.float64).reshape(2, 20), t(0.5, 2.0).unsqueeze(-1)
    torch.testing.assert_close(native_form(z, scale), formula(z, scale), rtol=1e-14, atol=0)
    assert torch.autograd.gradcheck(native_form, (z.requires_grad_(), scale.requires_grad_()))
    assert torch.autograd.gradgradcheck(native_form, (z, scale))
    torch.testing.assert_close(torch.vmap(native_form)(z, scale), formula(z, scale), rtol=1e-14, atol=0)


def test_one_unforeseen_element_does_not_slow_the_others() -> None:
    """A width of 1e-200 is beyond what was recorded; only that element goes by torch's operations."""
    scale = torch.ones(50, dtype=torch.float64)
    scale[7] = 1e-200
    p, q = d.Cauchy(torch.zeros(50, dtype=torch.float64), scale), d.Laplace(t(0.2), t(1.0))
    p, q = q.expand([50]), p
    with mock.patch.object(univariate, "_by_operations", wraps=univariate._by_operations) as by_operations:
        found = kl_by_integral(p, q)[0]
    for call in by_operations.call_args_list:
        assert call.args[2] is not None
        assert len(call.args[2]) <= 1
    torch.testing.assert_close(found, by_torch(p, q)[0], rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("p", "q", "truth"),
    [
        # By mpmath's quadrature with 40 digits at the stored numbers.
        (
            d.Gamma(t(2.5), t(0.625)),
            d.MixtureSameFamily(d.Categorical(logits=t(-0.75, -0.625)), d.Normal(t(-0.625, 2.375), t(0.75, 0.6875))),
            8.4280971476343602786,
        ),
        (
            d.FisherSnedecor(t(8.75), t(11.75)),
            d.MixtureSameFamily(d.Categorical(logits=t(-0.4375, -1.0)), d.Normal(t(-0.25, 1.625), t(1.25, 1.1875))),
            0.70954155139753634068,
        ),
    ],
)
def test_the_error_contains_the_truth_between_components(p: Distribution, q: Distribution, truth: float) -> None:
    """Where one component takes over from the other the logarithm of a mixture bends, close to the real axis."""
    for value, error in (kl_by_integral(p, q), by_torch(p, q)):
        assert abs(value.item() - truth) <= 1e-11 * truth
        assert abs(value.item() - truth) <= error.item()


def test_a_map_with_numbers_is_recorded_when_it_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And for these numbers only."""
    monkeypatch.setattr(programs, "_sights", {})
    monkeypatch.setattr(programs, "_known", {})

    def mapped(shift: float) -> Distribution:
        return d.TransformedDistribution(d.Normal(t(0.2, 1.0), t(1.1, 0.3)), [maps.AffineTransform(shift, 0.5)])

    q = d.Cauchy(t(0.0, 1.0), t(1.0, 2.0))
    expected = by_torch(mapped(0.25), q)[0]
    found = [kl_by_integral(mapped(0.25), q)[0] for _ in range(8)]
    assert programs._known
    for value in found:
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    assert univariate._by_programs(mapped(0.75), q) is None
    torch.testing.assert_close(kl_by_integral(mapped(0.75), q)[0], by_torch(mapped(0.75), q)[0], rtol=1e-12, atol=0)
