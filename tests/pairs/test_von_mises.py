"""KL(VonMises ‖ ·)."""

from torch.distributions import VonMises

from tests.pairs.contract import *  # noqa: F403

CASES = [Case(VonMises, VonMises)]  # noqa: F405


def test_locations_count_modulo_a_turn() -> None:
    turns = torch.tensor([0.0, 2 * torch.pi, -4 * torch.pi], dtype=torch.float64)  # noqa: F405
    value = kl_divergence(VonMises(turns, torch.tensor(2.0)), VonMises(torch.tensor(0.0), torch.tensor(2.0)))  # noqa: F405
    assert (value < 1e-29).all()
    assert (value >= 0).all()
