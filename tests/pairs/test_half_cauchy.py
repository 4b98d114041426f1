"""KL(HalfCauchy ‖ ·)."""

from torch.distributions import HalfCauchy

from tests.pairs.contract import *  # noqa: F403

CASES = [Case(HalfCauchy, HalfCauchy)]  # noqa: F405


def test_equal_tiny_scales() -> None:
    p = HalfCauchy(torch.tensor(1e-25))  # noqa: F405
    assert kl_divergence(p, p).item() == 0.0  # noqa: F405
