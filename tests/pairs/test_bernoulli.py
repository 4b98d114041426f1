"""KL(Bernoulli ‖ ·)."""

import math

import pytest
import torch
from torch.distributions import Bernoulli, Poisson

from kullback.pairs import kl_divergence
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(Bernoulli, Bernoulli), Case(Bernoulli, Poisson)]  # noqa: F405


def d(x):
    return torch.tensor(x, dtype=torch.float64)


@pytest.mark.parametrize(
    ("p", "q", "value", "to_q"),
    [
        (0.0, 0.25, -math.log(0.75), 1 / 0.75),
        (1.0, 0.25, -math.log(0.25), -4.0),
        (0.0, 0.0, 0.0, 1.0),
        (1.0, 1.0, 0.0, -1.0),
        (0.0, 1.0, math.inf, 0.0),
        (1.0, 0.0, math.inf, 0.0),
        (0.3, 0.0, math.inf, 0.0),
        (0.3, 1.0, math.inf, 0.0),
    ],
)
def test_certain_outcomes(p, q, value, to_q):
    p, q = d(p).requires_grad_(), d(q).requires_grad_()
    got = kl_divergence(Bernoulli(p), Bernoulli(q))
    assert got.item() == pytest.approx(value, rel=1e-15)
    got.backward()
    assert p.grad.item() == 0.0
    assert q.grad.item() == pytest.approx(to_q, rel=1e-15)


def test_infinite_logits_are_certain_outcomes():
    value = kl_divergence(
        Bernoulli(logits=d([-math.inf, math.inf, 0.0])), Bernoulli(logits=d([0.0, math.inf, -math.inf]))
    )
    assert value.tolist() == [pytest.approx(math.log(2)), 0.0, math.inf]


@pytest.mark.parametrize(
    ("p", "rate", "value"), [(0.0, 0.0, 0.0), (0.0, 2.0, 2.0), (1.0, 2.0, 2 - math.log(2)), (0.5, 0.0, math.inf)]
)
def test_certain_outcomes_against_poisson(p, rate, value):
    p, rate = d(p).requires_grad_(), d(rate).requires_grad_()
    got = kl_divergence(Bernoulli(p), Poisson(rate))
    assert got.item() == pytest.approx(value, rel=1e-15)
    got.backward()
    assert p.grad.isfinite()
    assert rate.grad.isfinite()
