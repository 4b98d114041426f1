"""KL(HalfNormal ‖ ·)."""

from torch.distributions import HalfNormal

from tests.pairs.contract import *  # noqa: F403

CASES = [Case(HalfNormal, HalfNormal)]  # noqa: F405
