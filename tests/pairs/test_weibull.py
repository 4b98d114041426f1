"""KL(Weibull ‖ ·)."""

from torch.distributions import Weibull

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Weibull, Weibull),  # noqa: F405
]
