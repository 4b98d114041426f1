"""The evidence lower bound: both terms on one scale, its importance-weighted form against a known evidence."""

import math

import pytest
import torch
from torch.distributions import Normal

from kullback.losses import elbo, importance_weighted_bound, multi_sample_bound


def test_latents_per_data_point():
    ll, kl = torch.tensor([-1.0, -2.0, -4.0]), torch.tensor([0.5, 1.0, 2.0])
    assert elbo(ll, kl, beta=2.0, reduction="none").tolist() == [-2.0, -4.0, -8.0]
    assert elbo(ll, kl, reduction="sum").item() == -10.5
    mask = torch.tensor([True, False, True])
    assert elbo(ll, kl, mask=mask).item() == -3.75
    assert elbo(ll, kl.mean()).item() == pytest.approx(elbo(ll, kl).item())


def test_an_epoch_sums_to_the_bound_of_the_data_set():
    ll, kl = torch.randn(10, dtype=torch.float64), torch.tensor(7.0, dtype=torch.float64)
    want = ll.sum() - 3 * kl
    for options in ({"n_data": 10}, {"n_batches": 3}):
        parts = [elbo(part, kl, beta=3.0, reduction="sum", **options) for part in ll.split(4)]
        torch.testing.assert_close(sum(parts), want)
    torch.testing.assert_close(elbo(ll, kl, beta=3.0, n_data=10), want / 10)
    torch.testing.assert_close(elbo(ll, kl, beta=3.0, n_batches=1), want / 10)
    torch.testing.assert_close(elbo(ll, kl, beta=3.0, n_data=10, n_batches=1), want / 10)


def test_errors():
    ll = torch.zeros(3)
    with pytest.raises(ValueError, match='reduction="sample"'):
        elbo(ll, torch.zeros(3, 2))
    with pytest.raises(ValueError, match="one number"):
        elbo(ll, torch.zeros(3), n_data=10)
    with pytest.raises(ValueError, match="n_data is a count"):
        elbo(ll, torch.tensor(1.0), n_data=0)


def test_importance_weighted_bound_reaches_the_evidence():
    # z ~ N(0, 1), x | z ~ N(z, 1): log p(x) = log N(x; 0, √2); q is a poor posterior.
    torch.manual_seed(0)
    x, q = torch.tensor(1.5, dtype=torch.float64), Normal(torch.tensor(0.3, dtype=torch.float64), 1.0)
    evidence = Normal(0.0, math.sqrt(2.0)).log_prob(x)
    z = q.sample((2000, 200))
    log_weight = Normal(0.0, 1.0).log_prob(z) + Normal(z, 1.0).log_prob(x) - q.log_prob(z)
    tight = importance_weighted_bound(log_weight, dim=0)
    assert abs(tight - evidence) < 0.01
    assert multi_sample_bound(log_weight) < importance_weighted_bound(log_weight[:10]) < tight + 0.01
    torch.testing.assert_close(importance_weighted_bound(log_weight[:1]), multi_sample_bound(log_weight[:1]))


def test_doubly_reparameterized_gradient_has_the_mean_of_the_standard_one():
    torch.manual_seed(0)
    x = torch.tensor(1.5, dtype=torch.float64)
    loc = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    noise = torch.randn(8, 20000, dtype=torch.float64)

    def bound(gradient):
        z = loc + noise
        q = Normal(loc.detach() if gradient != "standard" else loc, 1.0)
        log_weight = Normal(0.0, 1.0).log_prob(z) + Normal(z, 1.0).log_prob(x) - q.log_prob(z)
        return importance_weighted_bound(log_weight, gradient=gradient)

    values = [bound(gradient) for gradient in ("standard", "doubly_reparameterized")]
    assert values[0].item() == values[1].item()
    standard, double = (torch.autograd.grad(value, loc)[0].item() for value in values)
    assert double == pytest.approx(standard, rel=0.05)


def test_transforms():
    log_weight = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    for function in (importance_weighted_bound, multi_sample_bound):
        assert torch.autograd.gradgradcheck(lambda w, f=function: f(w * w), log_weight)
        torch.testing.assert_close(torch.vmap(function, in_dims=1)(log_weight), function(log_weight, reduction="none"))
        compiled = torch.compile(function, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(log_weight), function(log_weight))
    ll, kl = torch.randn(4), torch.rand(4)
    torch.testing.assert_close(torch.compile(elbo, fullgraph=True, backend="eager")(ll, kl), elbo(ll, kl))
    torch.testing.assert_close(torch.vmap(elbo)(ll, kl), elbo(ll, kl, reduction="none"))
    with pytest.raises(ValueError, match="dimension of the samples"):
        importance_weighted_bound(torch.tensor(1.0))
