"""Rényi's divergence of order 0, the mass that q puts on p's support, where that begins at a jump of the integrand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import distributions as d

import kullback as kb


@pytest.mark.parametrize("scale", [0.14318989473119434, 1.14318989473119434])
def test_order_0_with_an_end_far_from_the_mass(scale: float) -> None:
    low, loc = 0.6343778355619962, -0.19523414199768663
    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (low, loc, scale)]
    base = d.Gamma(torch.tensor(5.96, dtype=torch.float64), torch.tensor(0.937, dtype=torch.float64))
    p = d.TransformedDistribution(base, d.AffineTransform(leaves[0], torch.tensor(1.138, dtype=torch.float64)))
    value = kb.renyi(p, d.Gumbel(*leaves[1:]), 0.0)
    assert value.item() == pytest.approx(-math.log(-math.expm1(-math.exp((loc - low) / scale))), rel=1e-11)
    assert all(bool(g.isfinite()) for g in torch.autograd.grad(value, leaves))
