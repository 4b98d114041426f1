"""KL(LKJCholesky ‖ ·)."""

from torch.distributions import LKJCholesky

from tests.pairs.contract import *  # noqa: F403

CASES = [Case(LKJCholesky, LKJCholesky)]  # noqa: F405
