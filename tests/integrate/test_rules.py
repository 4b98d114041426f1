"""Gauss rules for integrals and for sums over integers."""

from __future__ import annotations

import pytest
import torch

from kullback.integrate.rules import EDGE_WEIGHTS, lattice_rule, legendre


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 18, 23, 64, 1000, 10**6])
def test_sums_of_polynomials(count: int) -> None:
    rule = lattice_rule(torch.tensor([float(count)], dtype=torch.float64))
    for power in (0, 1, 2, 7, 12):
        k = torch.arange(count, dtype=torch.float64) + 0.5
        want = ((k / count) ** power).sum().item()
        got = ((rule.nodes**power) * rule.weights).sum().item() * count
        assert got == pytest.approx(want, rel=1e-12)


def test_few_integers_are_looked_at_one_by_one() -> None:
    rule = lattice_rule(torch.tensor([5.0], dtype=torch.float64))
    assert (rule.nodes[0, :5] * 5 - 0.5).tolist() == [0, 1, 2, 3, 4]
    assert rule.weights[0, 5:].abs().sum() == 0


def test_legendre_and_its_edges() -> None:
    rule = legendre(torch.ones((), dtype=torch.float64))
    assert (rule.nodes**31 * rule.weights).sum().item() == pytest.approx(1 / 32, rel=1e-13)
    assert (EDGE_WEIGHTS @ rule.nodes**15).tolist() == pytest.approx([0.0, 1.0], abs=1e-9)
    assert abs((rule.odd * rule.nodes**13).sum().item()) < 1e-13
