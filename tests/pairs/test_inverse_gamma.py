"""KL(InverseGamma ‖ ·)."""

from torch.distributions import InverseGamma

from tests.pairs.contract import *  # noqa: F403

CASES = [Case(InverseGamma, InverseGamma)]  # noqa: F405
