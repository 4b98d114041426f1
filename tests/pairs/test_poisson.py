"""KL(Poisson ‖ ·)."""

import math

import pytest
import torch
from torch.distributions import Bernoulli, Binomial, Poisson

from kullback.pairs import kl_divergence
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(Poisson, Poisson)]  # noqa: F405
BOUNDED = [Case(Poisson, Bernoulli), Case(Poisson, Binomial)]  # noqa: F405


@pytest.mark.parametrize("bounded", BOUNDED, ids=str)
@both_precisions  # noqa: F405
def test_bounded_q_by_its_table(bounded, dtype):
    """Values and gradients of the battery; nothing else applies to a p that must be certain."""
    test_value(bounded, dtype)  # noqa: F405
    for row in rows(bounded, dtype):  # noqa: F405
        params = {side: tensors(row[side], dtype, grad=True) for side in "pq"}  # noqa: F405
        kl_divergence(*bounded.build(params["p"], params["q"])).backward()
        want = float(row.get("gradient", {"q.probs": 0.0})["q.probs"])
        assert close(params["q"]["probs"].grad.item(), want, GRADIENT[dtype], dtype)  # noqa: F405
        assert params["p"]["rate"].grad is None or params["p"]["rate"].grad.item() == 0.0


def d(x):
    return torch.tensor(x, dtype=torch.float64)


@pytest.mark.parametrize(
    ("p", "q", "value", "to_q"), [(0.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 1.0), (2.0, 0.0, math.inf, 0.0)]
)
def test_rate_of_zero(p, q, value, to_q):
    p, q = d(p).requires_grad_(), d(q).requires_grad_()
    got = kl_divergence(Poisson(p), Poisson(q))
    assert got.item() == value
    got.backward()
    assert p.grad.item() == 0.0
    assert q.grad.item() == to_q


def test_bounded_q_is_finite_only_at_rate_zero():
    rate, probs = d([0.0, 1.0, 0.0, 0.0]).requires_grad_(), d([0.1, 0.1, 1.0, 0.0]).requires_grad_()
    value = kl_divergence(Poisson(rate), Bernoulli(probs))
    assert value.tolist() == [pytest.approx(0.10536051565782628, rel=1e-15), math.inf, math.inf, 0.0]
    value.sum().backward()
    assert probs.grad.tolist() == [pytest.approx(1 / 0.9), 0.0, 0.0, 1.0]
    assert rate.grad is None or rate.grad.tolist() == [0.0] * 4
    value = kl_divergence(Poisson(d(0.0)), Binomial(d([10.0, 0.0, 0.0]), logits=d([-2.0, 3.0, math.inf])))
    assert value.tolist() == [pytest.approx(10 * math.log1p(math.exp(-2))), 0.0, 0.0]
    assert kl_divergence(Poisson(d(1e-300)), Binomial(1000, d(0.5))).item() == math.inf
