"""KL(Binomial ‖ ·)."""

import math

import pytest
import torch
from torch.distributions import Bernoulli, Binomial, Poisson

from kullback.pairs import kl_divergence
from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Binomial, Binomial, gradient_tolerance=1e-6),  # noqa: F405
    *(Case(p, q) for p, q in ((Binomial, Poisson), (Binomial, Bernoulli), (Bernoulli, Binomial))),  # noqa: F405
]


def d(x):
    return torch.tensor(x, dtype=torch.float64)


@pytest.mark.parametrize(
    ("n", "p", "big", "q", "value"),
    [
        (10, 1.0, 10, 1.0, 0.0),
        (10, 1.0, 10, 0.9, 1.0536051565782628),
        (10, 0.1, 10, 0.0, math.inf),
        (10, 0.1, 5, 0.1, math.inf),
        (10, 0.0, 5, 0.1, 5 * 0.10536051565782628),
        (10, 0.0, 5, 0.0, 0.0),
        (5, 0.3, 10, 0.0, math.inf),
        (5, 0.3, 10, 1.0, math.inf),
        (5, 1.0, 10, 0.5, -math.log(math.comb(10, 5) / 2**10)),
        (5, 0.0, 10, 0.5, 10 * math.log(2)),
        (0, 0.3, 0, 0.6, 0.0),
        (0, 0.3, 3, 0.5, 3 * math.log(2)),
        (0, 0.3, 0, 1.0, 0.0),
    ],
)
def test_certain_outcomes_and_unequal_counts(n, p, big, q, value):
    p, q = d(p).requires_grad_(), d(q).requires_grad_()
    got = kl_divergence(Binomial(n, p), Binomial(big, q))
    assert got.item() == pytest.approx(value, rel=1e-13)
    got.backward()
    assert p.grad.isfinite()
    assert q.grad.isfinite()


def test_a_million_trials_against_a_million_and_one():
    # Summed over outcomes by mpmath with 40 digits.
    p, q = Binomial(10**6, d(0.3)), Binomial(10**6 + 1, d(0.3))
    assert kl_divergence(p, q).item() == pytest.approx(2.142855867348075687823721e-07, rel=1e-9)


def test_one_bernoulli_is_one_trial():
    assert kl_divergence(Bernoulli(d(0.3)), Binomial(4, d(0.2))).item() == pytest.approx(
        kl_divergence(Binomial(1, d(0.3)), Binomial(4, d(0.2))).item()
    )
    assert kl_divergence(Binomial(2, d([0.3, 0.0])), Bernoulli(d(0.25))).tolist() == [
        math.inf,
        pytest.approx(-math.log(0.75)),
    ]


@pytest.mark.parametrize(
    ("n", "p", "rate", "value"),
    [
        (10, 0.0, 2.0, 2.0),
        (0, 0.5, 2.0, 2.0),
        (3, 1.0, 2.0, 2 - 3 * math.log(2) + math.log(6)),
        (3, 0.5, 0.0, math.inf),
    ],
)
def test_certain_outcomes_against_poisson(n, p, rate, value):
    p, rate = d(p).requires_grad_(), d(rate).requires_grad_()
    got = kl_divergence(Binomial(n, p), Poisson(rate))
    assert got.item() == pytest.approx(value, rel=1e-13)
    got.backward()
    assert p.grad.isfinite()
    assert rate.grad.isfinite()


@pytest.mark.parametrize("given", [{"logits": -765.0}, {"logits": -800.0}, {"probs": 1e-310}, {"probs": 5e-324}])
@pytest.mark.parametrize("other", [Binomial(61, d(0.25)), Poisson(d(0.5))], ids=["binomial", "poisson"])
def test_a_chance_that_underflows_has_a_finite_gradient(given, other):
    """All mass at 0, as far as can be told: −log q(0)."""
    leaves = {name: d(value).requires_grad_() for name, value in given.items()}
    value = kl_divergence(Binomial(60, **leaves), other)
    assert value.item() == pytest.approx(-other.log_prob(d(0.0)).item(), rel=1e-14)
    value.backward()
    assert all(bool(leaf.grad.isfinite()) for leaf in leaves.values())


@pytest.mark.parametrize("by_logits", [False, True])
def test_few_failures_beside_many_leave_gradients_finite(by_logits):
    # One formula is for few failures, another for many; where one is not used it must not disturb.
    rate = d([0.3, 0.5, 0.999, 1e-6, 0.3])
    given = (rate.logit() if by_logits else rate).requires_grad_()
    name = "logits" if by_logits else "probs"

    def of(counts, rates):
        return Binomial(d(counts), **{name: rates})

    count, big, other = [50.0, 1000.0, 3.0, 30.0, 2.0], [51.0, 5000.0, 5.0, 31.0, 1.0], d([0.4, 0.2, 0.9, 0.5, 0.5])
    other = other.logit() if by_logits else other
    together = kl_divergence(of(count, given), of(big, other))
    (found,) = torch.autograd.grad(together.sum(), given)
    for i in range(5):
        one = given[i].detach().requires_grad_()
        value = kl_divergence(of(count[i], one), of(big[i], other[i]))
        value.backward()
        assert together[i].item() == pytest.approx(value.item(), rel=1e-14)
        assert found[i].item() == pytest.approx(one.grad.item(), rel=1e-13)
