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


def test_next_to_one_half_the_log_odds_keep_their_digits() -> None:
    probs = torch.tensor(0.49999549984931946, dtype=torch.float64)
    unit = Uniform(torch.zeros_like(probs), torch.ones_like(probs))
    found = kl_divergence(ContinuousBernoulli(probs), unit).item()
    assert abs(found - 1.3500904099008103281e-11) < 1e-12 * found
