"""KL(Weibull ‖ ·)."""

from torch.distributions import Gamma, Weibull

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Weibull, Weibull),  # noqa: F405
    Case(Weibull, Gamma),  # noqa: F405
]
