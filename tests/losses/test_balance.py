"""KL balancing against the papers' formulas, the path gradient, schedules, and products with the Fisher matrix."""

import math

import pytest
import torch
from torch.distributions import (
    AffineTransform,
    Categorical,
    Independent,
    MixtureSameFamily,
    Normal,
    TanhTransform,
    TransformedDistribution,
)

from kullback import Logits, kl
from kullback.losses import (
    CapacitySchedule,
    ConstantSchedule,
    CosineSchedule,
    CyclicalSchedule,
    LinearSchedule,
    fisher_vector_product,
    kl_balance,
    natural_step,
    path_kl,
)
from kullback.losses.detached import detached

MAKE = {
    "views": Logits,
    "categorical": lambda x: Categorical(logits=x),
    "normal": lambda x: Independent(Normal(x, x.exp()), 1),
    "transformed": lambda x: Independent(TransformedDistribution(Normal(x, 1.0), [AffineTransform(x, 2.0)]), 1),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("variant", ["dreamer_v2", "dreamer_v3"])
@pytest.mark.parametrize("free", [0.0, 0.3])
def test_balance(make, variant, free):
    torch.manual_seed(1)
    a, b = (torch.randn(6, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    loss = kl_balance(make(a), make(b), variant=variant, free_nats=free, dynamics=0.5)
    found = torch.autograd.grad(loss, (a, b))
    rows = kl(make(a), make(b))
    if variant == "dreamer_v2":
        value = torch.clamp(rows.mean(), min=free)
        to_a, to_b = 0.2, 0.8
    else:
        value = torch.clamp(rows, min=free).mean()
        to_a, to_b = 0.1, 0.5
    want = torch.autograd.grad(value, (a, b))
    torch.testing.assert_close(loss, value * (to_a + to_b))
    torch.testing.assert_close(found, (to_a * want[0], to_b * want[1]))


def test_balance_options():
    torch.manual_seed(0)
    a, b = torch.randn(2, 4, 5, 3)
    rows = kl_balance(Logits(a), Logits(b), event_dims=1, reduction="none")
    assert rows.shape == (4,)
    torch.testing.assert_close(rows, 1.1 * kl(Logits(a), Logits(b)).sum(-1).clamp(min=1.0))
    mask = torch.tensor([True, False, True, True])
    torch.testing.assert_close(kl_balance(Logits(a), Logits(b), event_dims=1, mask=mask), rows[mask].mean())
    compiled = torch.compile(lambda x: kl_balance(Logits(x), Logits(b)), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(a), kl_balance(Logits(a), Logits(b)))
    got = torch.vmap(lambda x, y: kl_balance(Logits(x), Logits(y)))(a, b)
    torch.testing.assert_close(got, torch.stack([kl_balance(Logits(x), Logits(y)) for x, y in zip(a, b, strict=True)]))
    with pytest.raises(ValueError, match="after the mean"):
        kl_balance(Logits(a), Logits(b), variant="dreamer_v2", free_nats=1.0, reduction="none")
    with pytest.raises(ValueError, match="event_dims"):
        kl_balance(Logits(a), Logits(b), event_dims=3)


def test_detached_distributions_keep_their_values():
    x = torch.randn(4, requires_grad=True)
    mixture = MixtureSameFamily(Categorical(logits=x), Normal(x, x.exp()))
    flow = TransformedDistribution(Normal(x, 1.0), [TanhTransform(cache_size=1)])
    for distribution, z in ((mixture, torch.tensor(0.3)), (flow, torch.full((4,), 0.3))):
        copy = detached(distribution)
        torch.testing.assert_close(copy.log_prob(z), distribution.log_prob(z).detach())
        assert not copy.log_prob(z).requires_grad
        assert distribution.log_prob(z).requires_grad


def test_path_kl_is_unbiased_and_has_no_variance_at_the_solution():
    torch.manual_seed(0)
    loc = torch.tensor([0.3, -0.5], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([0.8, 1.2], dtype=torch.float64, requires_grad=True)
    prior = Normal(torch.zeros(2, dtype=torch.float64), 1.0)
    estimate = path_kl(Normal(loc, scale), prior, num_samples=100_000)
    exact = kl(Normal(loc, scale), prior)
    torch.testing.assert_close(estimate, exact, rtol=0, atol=0.02)
    found = torch.autograd.grad(estimate.sum(), (loc, scale))
    torch.testing.assert_close(found, torch.autograd.grad(exact.sum(), (loc, scale)), rtol=0, atol=0.02)
    value = path_kl(Normal(loc, scale), Normal(loc.detach(), scale.detach()), num_samples=2, reduction="sum")
    assert all((g.abs() < 1e-14).all() for g in torch.autograd.grad(value, (loc, scale)))
    z = Normal(loc, scale).rsample((5,))
    torch.testing.assert_close(
        path_kl(Normal(loc, scale), prior.log_prob, samples=z), path_kl(Normal(loc, scale), prior, samples=z)
    )
    with pytest.raises(TypeError, match="differentiable"):
        path_kl(Categorical(logits=loc), Categorical(logits=loc))


def test_the_derivative_of_the_path_gradient_is_unbiased():
    # Quantiles of the noise stand for its distribution.
    noise = torch.special.ndtri((torch.arange(20000, dtype=torch.float64) + 0.5) / 20000)
    prior = Normal(torch.tensor(0.4, dtype=torch.float64), 1.5)

    def estimate(x):
        q = Normal(x[0], x[1])
        return path_kl(q, prior, samples=x[0] + x[1] * noise)

    at = torch.tensor([-0.3, 0.8], dtype=torch.float64)
    want = torch.autograd.functional.hessian(lambda x: kl(Normal(x[0], x[1]), prior), at)
    torch.testing.assert_close(torch.autograd.functional.hessian(estimate, at), want, rtol=1e-2, atol=1e-3)


def test_schedules():
    schedules = [
        ConstantSchedule(2.0),
        LinearSchedule(10, start=0.1, end=0.9),
        CosineSchedule(10),
        CyclicalSchedule(100, cycles=4, ratio=0.5),
        CapacitySchedule(10, end=25.0),
    ]
    for schedule in schedules:
        want = [schedule(step) for step in range(120)]
        assert all(math.isfinite(value) for value in want)
        assert [schedule(), *(schedule.step() for _ in range(50))] == want[:51]
        other = type(schedule)(7)
        other.load_state_dict(schedule.state_dict())
        assert [other.step() for _ in range(20)] == want[51:71]
    cyclical = schedules[3]
    assert [cyclical(s) for s in (0, 12.5, 25, 99)] == [0.0, 1.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="not a state of"):
        schedules[0].load_state_dict(schedules[1].state_dict())
    with pytest.raises(ValueError, match="count"):
        LinearSchedule(0)


def test_fisher_vector_products():
    torch.manual_seed(0)
    theta = torch.randn(4, dtype=torch.float64, requires_grad=True)
    p = theta.softmax(-1).detach()
    vector = torch.randn(4, dtype=torch.float64)
    fisher = torch.diag(p) - torch.outer(p, p)
    for policy in (Logits(theta), Categorical(logits=theta)):
        got = fisher_vector_product(policy, [theta], vector, damping=0.1)
        torch.testing.assert_close(got, fisher @ vector + 0.1 * vector)
    loc, log_std = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    policy = Independent(Normal(loc, log_std.exp()), 1)
    diagonal = torch.cat([(-2 * log_std).exp(), torch.full((3,), 2.0, dtype=torch.float64)]).detach()
    g = torch.randn(6, dtype=torch.float64)
    torch.testing.assert_close(fisher_vector_product(policy, [loc, log_std], g), diagonal * g)
    step = natural_step(policy, [loc, log_std], g, max_kl=0.01)
    torch.testing.assert_close(step.direction, g / diagonal)
    assert step.quadratic_kl.item() == pytest.approx(0.01)
    changes = step.split_like([loc, log_std])
    moved = kl(Independent(Normal(loc + changes[0], (log_std + changes[1]).exp()), 1), policy)
    assert 0.005 < moved.item() < 0.02
    with pytest.raises(ValueError, match="as long as all parameters"):
        fisher_vector_product(policy, [loc, log_std], g[:2])
    zero = natural_step(Normal(loc, 1.0), [loc], torch.zeros(3, dtype=torch.float64))
    assert zero.step.tolist() == [0.0] * 3
