"""KL(Exponential ‖ ·)."""

from torch.distributions import Exponential, Gamma, Gumbel, Normal

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Exponential, Exponential),  # noqa: F405
    Case(Exponential, Gamma),  # noqa: F405
    Case(Exponential, Gumbel),  # noqa: F405
    Case(Exponential, Normal),  # noqa: F405
]


def test_a_shift_of_1e_8_is_seen() -> None:
    p, q = (Exponential(torch.tensor(rate, dtype=torch.float64)) for rate in (1.0, 1 + 1e-8))  # noqa: F405
    assert kl_divergence(p, q).item() == pytest.approx(4.9999999e-17, rel=2e-8)  # noqa: F405
