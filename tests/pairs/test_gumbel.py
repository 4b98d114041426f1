"""KL(Gumbel ‖ ·) and KL(Weibull ‖ ·)."""

from torch.distributions import Gumbel, Normal, Weibull

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Gumbel, Gumbel),  # noqa: F405
    Case(Gumbel, Normal),  # noqa: F405
    Case(Weibull, Weibull),  # noqa: F405
]
