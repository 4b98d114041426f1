"""KL(VonMises ‖ ·)."""

import math

import pytest
import torch
from torch.distributions import VonMises

import kullback
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(VonMises, VonMises)]  # noqa: F405


def test_locations_count_modulo_a_turn() -> None:
    turns = torch.tensor([0.0, 2 * torch.pi, -4 * torch.pi], dtype=torch.float64)
    value = kl_divergence(VonMises(turns, torch.tensor(2.0)), VonMises(torch.tensor(0.0), torch.tensor(2.0)))  # noqa: F405
    assert (value < 1e-29).all()
    assert (value >= 0).all()


@pytest.mark.parametrize("divergence", [kullback.kl, kullback.js])
@pytest.mark.parametrize("loc", [math.pi, -math.pi, math.pi - 1e-9, 3 * math.pi, 3.0])
@pytest.mark.parametrize("distance", [0.0, 1.0, -2 * math.pi, math.pi])
@pytest.mark.sample(3)
def test_both_may_be_turned_to_the_ends(divergence, loc: float, distance: float) -> None:
    """A divergence and its gradients are those of the same pair about 0, wherever the circle is cut."""

    def turned(first: float, second: float) -> tuple[float, list[float]]:
        given = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (first, 2.0, second, 3.0)]
        value = divergence(VonMises(*given[:2]), VonMises(*given[2:]))
        return value.item(), [g.item() for g in torch.autograd.grad(value, given)]

    (value, slopes), (wanted, wanted_slopes) = turned(loc, loc + distance), turned(0.0, distance)
    assert value == pytest.approx(wanted, rel=1e-10)
    assert slopes == pytest.approx(wanted_slopes, rel=1e-8, abs=1e-12)
