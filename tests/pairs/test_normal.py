"""KL(Normal ‖ ·)."""

from torch.distributions import Normal

from tests.pairs.contract import *  # noqa: F403

CASES = [Case(Normal, Normal)]  # noqa: F405
