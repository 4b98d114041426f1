"""KL(Geometric ‖ ·)."""

import math

import pytest
import torch
from torch.distributions import Geometric

from kullback.pairs import kl_divergence
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(Geometric, Geometric)]  # noqa: F405


def d(x):
    return torch.tensor(x, dtype=torch.float64)


@pytest.mark.parametrize(
    ("p", "q", "value", "to_q"),
    [(1.0, 1.0, 0.0, -1.0), (1.0, 0.25, math.log(4), -4.0), (0.25, 1.0, math.inf, 0.0)],
)
def test_certain_success(p, q, value, to_q):
    p, q = d(p).requires_grad_(), d(q).requires_grad_()
    got = kl_divergence(Geometric(p), Geometric(q))
    assert got.item() == pytest.approx(value, rel=1e-15)
    got.backward()
    assert p.grad.item() == 0.0
    assert q.grad.item() == to_q


@pytest.mark.parametrize(("q", "value"), [(0.0, 0.0), (1e-300, math.inf), (0.9, math.inf), (1.0, math.inf)])
def test_success_that_never_comes(q, value):
    """Only without validation: torch's Geometric asks for probs > 0."""
    p, q = d(0.0).requires_grad_(), d(q).requires_grad_()
    got = kl_divergence(Geometric(p, validate_args=False), Geometric(q, validate_args=False))
    got.backward()
    assert got.item() == value
    assert p.grad.item() == 0.0
    assert q.grad.isfinite()
