"""KL(Beta ‖ ·)."""

import math

import torch
from torch.distributions import Beta, ContinuousBernoulli, Exponential, Gamma, Normal, Uniform

from kullback.pairs.dispatch import kl_divergence
from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Beta, Beta),  # noqa: F405
    Case(Beta, Uniform),  # noqa: F405
    Case(Beta, ContinuousBernoulli, value_tolerance=1e-9),  # noqa: F405
    Case(Beta, Gamma),  # noqa: F405
    Case(Beta, Exponential),  # noqa: F405
    Case(Beta, Normal),  # noqa: F405
]


def test_probabilities_given_near_one_half():
    probs = torch.tensor(0.5 + 2.0**-11, dtype=torch.float64)
    one = torch.ones((), dtype=torch.float64)
    # The uniform distribution against a truncated exponential with rate t: log(sinh(t/2)/(t/2)).
    t = 2 * math.atanh(2.0**-10)
    value = kl_divergence(Beta(one, one), ContinuousBernoulli(probs))
    torch.testing.assert_close(value, torch.tensor(t**2 / 24 - t**4 / 2880, dtype=torch.float64), rtol=1e-10, atol=0)
