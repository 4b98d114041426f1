"""KL(Gumbel ‖ ·)."""

from torch.distributions import Gumbel, Normal

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Gumbel, Gumbel),  # noqa: F405
    Case(Gumbel, Normal),  # noqa: F405
]
