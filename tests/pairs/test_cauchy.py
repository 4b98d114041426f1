"""KL(Cauchy ‖ ·) and KL(HalfCauchy ‖ ·)."""

from torch.distributions import Cauchy, HalfCauchy

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Cauchy, Cauchy),  # noqa: F405
    Case(HalfCauchy, HalfCauchy),  # noqa: F405
]
