"""KL(RelaxedBernoulli ‖ ·)."""

import math

import pytest
import torch
from torch.distributions import RelaxedBernoulli
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback.pairs import kl_divergence
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(RelaxedBernoulli, RelaxedBernoulli), Case(LogitRelaxedBernoulli, LogitRelaxedBernoulli)]  # noqa: F405


def d(x):
    return torch.tensor(x, dtype=torch.float64)


def test_certain_outcomes():
    p, q = d([0.0, 1.0, 1.0, 0.5]).requires_grad_(), d([0.0, 1.0, 0.0, 1.0]).requires_grad_()
    value = kl_divergence(RelaxedBernoulli(d(0.5), p), RelaxedBernoulli(d(0.5), q))
    assert value.tolist() == [0.0, 0.0, math.inf, math.inf]
    value.sum().backward()
    assert p.grad.tolist() == q.grad.tolist() == [0.0] * 4


@pytest.mark.parametrize("c", [1e-6, 1e6])
def test_extreme_temperatures(c):
    # The expected logarithm of the density of a logistic far wider than, or far narrower than, p's.
    value = kl_divergence(RelaxedBernoulli(d(1.0), logits=d(0.0)), RelaxedBernoulli(d(c), logits=d(0.0)))
    truth = -math.log(c) + 2 * math.log(2) - 2 if c < 1 else 2 * c * math.log(2) - math.log(c) - 2
    assert value.item() == pytest.approx(truth, rel=1e-8)


def test_even_odds_pull_nowhere():
    # The slope in the log-odds is odd in c·a − b, so that there is none at even odds whatever the temperatures.
    t, u = d([1.0, 0.5, 0.5, 1.0]), d([2.0, 0.499, 1e-3, 1.0])
    given = [torch.full_like(t, 0.5).requires_grad_() for _ in range(2)]
    kl_divergence(RelaxedBernoulli(t, given[0]), RelaxedBernoulli(u, given[1])).sum().backward()
    assert max(x.grad.abs().max().item() for x in given) < 1e-10
