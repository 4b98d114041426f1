"""Nodes and weights against mpmath's Legendre polynomials."""

from __future__ import annotations

import mpmath
import pytest

from kullback._core.gauss_legendre import gauss_legendre


@pytest.mark.parametrize("count", [1, 4, 14, 32])
def test_every_number_is_rounded_correctly(count: int) -> None:
    """A node is a root of P_n, its weight 1/((1 − x²)·P_n′(x)²)."""
    with mpmath.workdps(40):
        for node, weight in zip(*gauss_legendre(count), strict=True):
            x = mpmath.findroot(lambda t: mpmath.legendre(count, t), 2 * mpmath.mpf(node) - 1)
            slope = mpmath.diff(lambda t: mpmath.legendre(count, t), x)
            assert node == float((1 + x) / 2)
            assert weight == float(1 / ((1 - x * x) * slope * slope))


@pytest.mark.parametrize("count", [2, 16])
def test_polynomials_are_integrated(count: int) -> None:
    """Up to degree 2·count − 1."""
    nodes, weights = gauss_legendre(count)
    assert list(nodes) == sorted(nodes)
    for degree in range(2 * count):
        total = sum(w * t**degree for t, w in zip(nodes, weights, strict=True))
        assert total == pytest.approx(1 / (degree + 1), rel=1e-14)
