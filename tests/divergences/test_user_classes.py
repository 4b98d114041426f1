"""Every divergence of a class with `log_prob` and `support` only, against the same distribution by its name."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, Normal, constraints

import kullback as kb
from tests.divergences.test_same_in_batches import DIVERGENCES


class Bell(Distribution):
    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012
    support = constraints.real

    def __init__(self, loc: Tensor) -> None:
        self.loc = loc
        super().__init__(loc.shape, validate_args=False)

    def log_prob(self, x: Tensor) -> Tensor:
        return -0.5 * (x - self.loc) ** 2 - 0.5 * math.log(2 * math.pi)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_on_either_side(name: str) -> None:
    loc = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    other = Normal(torch.tensor(1.0, dtype=torch.float64), 2.0)
    mine, named = Bell(loc), Normal(loc, torch.ones((), dtype=torch.float64))
    for pair, same in (((mine, other), (named, other)), ((other, mine), (other, named))):
        got, want = DIVERGENCES[name](*pair), DIVERGENCES[name](*same)
        assert got.item() == pytest.approx(want.item(), rel=1e-9, abs=1e-12)
        if want.isfinite() and got.requires_grad:
            slopes = [torch.autograd.grad(value, loc)[0].item() for value in (got, want)]
            assert slopes[0] == pytest.approx(slopes[1], rel=1e-6, abs=1e-12)
    assert kb.entropy(mine).item() == pytest.approx(kb.entropy(named).item(), rel=1e-12)
