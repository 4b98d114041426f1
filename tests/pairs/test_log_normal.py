"""KL(LogNormal ‖ ·)."""

from torch.distributions import LogNormal

from tests.pairs.contract import *  # noqa: F403

CASES = [Case(LogNormal, LogNormal)]  # noqa: F405
