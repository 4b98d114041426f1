"""Draws of p: the mixture of the handbook, every sampler, gradients, batches, infinities, and wrong samplers."""

import math

import pytest
import torch
from torch.distributions import (
    Categorical,
    Distribution,
    Exponential,
    Gamma,
    HalfNormal,
    Independent,
    LowRankMultivariateNormal,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
    StudentT,
    TransformedDistribution,
    Uniform,
)
from torch.distributions.transforms import AffineTransform, TanhTransform

import kullback as kb
from kullback import estimate_kl
from kullback.estimators.transport import transport, uniforms_needed


def mixture(weights, locs, scales):
    weights, locs, scales = (torch.tensor(part, dtype=torch.float64) for part in (weights, locs, scales))
    return MixtureSameFamily(Categorical(weights), Normal(locs, scales))


F = mixture([0.5, 0.5], [-2.0, 1.5], [0.6, 1.0])
G = mixture([0.3, 0.5, 0.2], [-1.0, 1.0, 3.0], [1.0, 0.8, 1.5])
TRUTH = 0.449706893657397804


@pytest.mark.parametrize("method", ["quasi-monte-carlo", "monte-carlo"])
def test_the_mixture_of_the_handbook(method):
    estimate = estimate_kl(F, G, method=method, generator=torch.Generator().manual_seed(3))
    assert abs(float(estimate) - TRUTH) < 4 * float(estimate.stderr)
    assert float(estimate.stderr) < (2e-4 if method == "quasi-monte-carlo" else 6e-3)
    assert "stratified" in estimate.method


def test_a_deterministic_route_is_taken_where_one_exists():
    estimate = estimate_kl(F, G)
    assert estimate.method.startswith("exact")
    assert float(estimate) == pytest.approx(TRUTH, rel=1e-7)
    exact = estimate_kl(Normal(0.0, 1.0), Normal(1.0, 1.0))
    assert float(exact) == pytest.approx(0.5)
    assert float(exact.stderr) < 1e-6


def five_dimensional():
    generator = torch.Generator().manual_seed(0)
    loc = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    f = MixtureSameFamily(Categorical(torch.ones(3)), Independent(Normal(loc[:3], torch.ones_like(loc[:3])), 1))
    g = MixtureSameFamily(Categorical(torch.ones(4)), MultivariateNormal(loc[3:], torch.eye(5, dtype=torch.float64)))
    return f, g


def test_mixtures_in_five_dimensions_lie_between_their_bounds():
    estimate = estimate_kl(*five_dimensional())
    low, high = estimate.diagnostics["bounds"]
    assert low <= estimate.low <= estimate.value <= estimate.high <= high
    assert "quasi" in estimate.method
    plain = estimate_kl(*five_dimensional(), method="monte-carlo")
    assert abs(float(plain) - float(estimate)) < 4 * float(plain.stderr)
    assert float(plain.stderr) > 5 * float(estimate.stderr)


def test_a_flow_over_vectors():
    base = Independent(Normal(torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)), 1)
    flow = TransformedDistribution(base, [AffineTransform(0.5, 0.7, event_dim=1), TanhTransform(cache_size=1)])
    target = TransformedDistribution(base, [TanhTransform(cache_size=1)])
    truth = 3 * float(kb.kl(Normal(0.5, 0.7), Normal(0.0, 1.0)))
    estimate = estimate_kl(flow, target, method="quasi-monte-carlo")
    assert float(estimate) == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize(
    "p",
    [
        Normal(torch.tensor([0.0, 5.0]), torch.tensor([1.0, 2.0])),
        Exponential(torch.tensor([[1.0, 2.0]])),
        Independent(Normal(torch.zeros(4, 3), torch.ones(4, 3)), 1),
        Independent(Normal(torch.zeros(4, 3), torch.ones(4, 3)), 2),
        MultivariateNormal(torch.zeros(2, 3), torch.eye(3)),
        LowRankMultivariateNormal(torch.zeros(3), torch.ones(3, 1), torch.ones(3)),
        HalfNormal(2.0),
        TransformedDistribution(Normal(torch.zeros(3), torch.ones(3)), [AffineTransform(1.0, 3.0, event_dim=1)]),
        Independent(MultivariateNormal(torch.arange(6.0).reshape(2, 3), torch.eye(3)), 1),
    ],
)
def test_uniforms_are_carried_to_the_distribution(p):
    count = uniforms_needed(p)
    assert count is not None
    points = torch.quasirandom.SobolEngine(count, scramble=True, seed=0).draw(4096)
    x = transport(p, points.clamp(1e-7, 1 - 1e-7))
    assert x.shape == (4096, *p.batch_shape, *p.event_shape)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        drawn = p.sample((40_000,))
    torch.testing.assert_close(x.mean(0), drawn.mean(0), atol=0.06, rtol=0.05)
    torch.testing.assert_close(x.std(0), drawn.std(0), atol=0.06, rtol=0.05)
    flat = x.reshape(4096, -1)
    if p.event_shape and isinstance(p, Independent | MultivariateNormal) and not p.batch_shape:
        correlation = torch.corrcoef(flat.T) - torch.eye(flat.shape[1])
        assert float(correlation.abs().max()) < 0.1


def test_gradients_reach_the_parameters():
    loc = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([1.2], dtype=torch.float64, requires_grad=True)
    for method in ("quasi-monte-carlo", "monte-carlo"):
        value = estimate_kl(Normal(loc, scale), Normal(1.0, 2.0), method=method, num_draws=1 << 15).value
        found = torch.autograd.grad(value.sum(), (loc, scale))
        expected = torch.autograd.grad(kb.kl(Normal(loc, scale), Normal(1.0, 2.0)).sum(), (loc, scale))
        torch.testing.assert_close(found, expected, rtol=0.05, atol=0.01)


def test_gradients_without_reparameterised_draws_use_the_score():
    rate = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    other = torch.tensor(4.0, dtype=torch.float64, requires_grad=True)
    p, q = torch.distributions.Poisson(rate), torch.distributions.Poisson(other)
    estimate = estimate_kl(p, q, method="monte-carlo", num_draws=1 << 16)
    found = torch.autograd.grad(estimate.value, (rate, other))
    expected = torch.autograd.grad(kb.kl(p, q), (rate, other))
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0.01)


def test_batches_keep_their_shape():
    p, q = Normal(torch.zeros(3, 1), torch.ones(3, 1)), Normal(torch.arange(4.0), torch.ones(4))
    estimate = estimate_kl(p, q, method="quasi-monte-carlo")
    assert estimate.value.shape == estimate.low.shape == estimate.stderr.shape == (3, 4)
    torch.testing.assert_close(estimate.value.float(), kb.kl(p, q), atol=1e-3, rtol=1e-3)


def test_the_control_variate_narrows_the_interval():
    p, q = Gamma(torch.tensor(3.0), torch.tensor(1.0)), Gamma(torch.tensor(3.2), torch.tensor(1.1))
    estimate = estimate_kl(p, q, method="monte-carlo")
    assert estimate.diagnostics["control_variate"] > 0.5
    assert abs(float(estimate) - float(kb.kl(p, q))) < 4 * float(estimate.stderr)


def test_no_control_variate_where_p_does_not_cover_q():
    p, q = Uniform(0.0, 1.0), Normal(0.0, 1.0)
    estimate = estimate_kl(p, q, method="monte-carlo")
    assert abs(float(estimate) - float(kb.kl(p, q))) < 4 * float(estimate.stderr)
    assert any("mean of q/p" in warning for warning in estimate.warnings)


def test_heavy_tails():
    p = Independent(StudentT(torch.full((2,), 3.0), torch.zeros(2)), 1)
    q = Independent(StudentT(torch.full((2,), 5.0), torch.ones(2)), 1)
    truth = float(kb.kl(p, q))
    estimate = estimate_kl(p, q, method="monte-carlo")
    assert abs(float(estimate) - truth) < 4 * float(estimate.stderr)


def test_draws_outside_the_support_are_infinite():
    estimate = estimate_kl(Normal(0.0, 1.0), Exponential(1.0), method="monte-carlo")
    assert float(estimate) == float(estimate.low) == math.inf
    assert any("infinite" in warning for warning in estimate.warnings)


def test_a_generator_decides_the_draws_and_torch_keeps_its_state():
    state = torch.get_rng_state()
    first, second = (estimate_kl(*five_dimensional(), num_draws=256) for _ in range(2))
    other = estimate_kl(*five_dimensional(), num_draws=256, generator=torch.Generator().manual_seed(9))
    plain = [estimate_kl(*five_dimensional(), num_draws=256, method="monte-carlo").value for _ in range(2)]
    assert torch.equal(first.value, second.value)
    assert torch.equal(*plain)
    assert not torch.equal(first.value, other.value)
    assert torch.equal(state, torch.get_rng_state())


def test_refusals():
    with pytest.raises(kb.ShapeError, match="event shapes"):
        estimate_kl(Normal(0.0, 1.0), MultivariateNormal(torch.zeros(2), torch.eye(2)), method="monte-carlo")
    with pytest.raises(kb.InputValueError, match="num_draws"):
        estimate_kl(F, G, method="monte-carlo", num_draws=3)
    with pytest.raises(kb.NoRouteError, match="monte-carlo"):
        estimate_kl(Gamma(1.0, 1.0), Gamma(2.0, 1.0), method="quasi-monte-carlo")


def test_a_class_without_a_sampler_is_refused_by_name():
    class Still(Distribution):
        arg_constraints = {}  # noqa: RUF012

        def log_prob(self, value):
            return -value.abs()

    with pytest.raises(kb.NoRouteError, match="Still cannot be drawn from"):
        estimate_kl(Still(validate_args=False), Normal(0.0, 1.0))
