"""KL(Normal ‖ ·), KL(HalfNormal ‖ ·), KL(LogNormal ‖ ·)."""

from torch.distributions import Gumbel, HalfNormal, Laplace, LogNormal, Normal, Weibull

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Normal, Normal),  # noqa: F405
    Case(Normal, Gumbel),  # noqa: F405
    Case(Normal, Laplace),  # noqa: F405
    Case(HalfNormal, HalfNormal),  # noqa: F405
    Case(LogNormal, LogNormal),  # noqa: F405
    Case(LogNormal, Normal),  # noqa: F405
    Case(LogNormal, Weibull),  # noqa: F405
]
