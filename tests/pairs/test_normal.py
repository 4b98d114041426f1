"""KL(Normal ‖ ·)."""

from tests.pairs.contract import *  # noqa: F403
from torch.distributions import Normal

CASES = [Case(Normal, Normal)]  # noqa: F405
