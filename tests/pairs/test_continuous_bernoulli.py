"""KL(ContinuousBernoulli ‖ ·)."""

import torch
from torch.distributions import ContinuousBernoulli, Exponential, Normal, Uniform

from kullback.pairs import kl_divergence
from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(ContinuousBernoulli, ContinuousBernoulli),  # noqa: F405
    Case(ContinuousBernoulli, Exponential),  # noqa: F405
    Case(ContinuousBernoulli, Normal),  # noqa: F405
    Case(ContinuousBernoulli, Uniform),  # noqa: F405
]


def test_logit_zero_is_the_uniform():
    x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    value = kl_divergence(ContinuousBernoulli(x), Uniform(torch.tensor(0.0), torch.tensor(1.0)))
    value.backward()
    assert value.item() == 0.0
    assert x.grad.item() == 0.0
