"""KL(Cauchy ‖ ·)."""

from torch.distributions import Cauchy

from tests.pairs.contract import *  # noqa: F403

CASES = [Case(Cauchy, Cauchy)]  # noqa: F405


def test_reproducer_of_torchs_nan() -> None:
    f = torch.tensor  # noqa: F405
    value = kl_divergence(Cauchy(f(0.0), f(1e20)), Cauchy(f(0.0), f(2e20)))  # noqa: F405
    assert value.item() == pytest.approx(0.11778304, rel=1e-6)  # noqa: F405
