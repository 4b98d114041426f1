"""The derivatives of the Bessel ratio as functions of their own, which the von Mises pairs use."""

import math

import pytest
import torch

from kullback.kernels.special import bessel_ratio_curvature, bessel_ratio_slope
from tests.special.accuracy import columns, error_in_ulp, load

ROWS = load("bessel")["bessel_ratio"]


@pytest.mark.parametrize("way", ["native", "reference"])
def test_slope_and_curvature_within_four_ulps(way):
    nu, x = columns(ROWS)
    for function, part in ((bessel_ratio_slope, 2), (bessel_ratio_curvature, 3)):
        got = (function if way == "native" else function.reference)(nu, x)
        for i, row in enumerate(ROWS):
            assert error_in_ulp(got[i].item(), row[part][0]) <= 4, (function.name, row[0])


def test_the_gradient_of_the_slope_is_the_curvature():
    nu, x = columns(ROWS)
    x.requires_grad_()
    (grad,) = torch.autograd.grad(bessel_ratio_slope(nu, x).sum(), x)
    assert torch.equal(grad, bessel_ratio_curvature(nu, x.detach()))


def test_what_has_no_formula_is_infinite():
    x = torch.tensor([0.5, 3.0, 80.0], dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(bessel_ratio_curvature(0.0, x).sum(), x)
    assert torch.isinf(grad).all()


@pytest.mark.parametrize("order", [3e8, 1e10, 1e140])
def test_orders_beyond_the_pairs(order):
    """r = z/(1 + √(1+z²)) with z = x/ν, to 1/ν."""
    nu = torch.tensor(order, dtype=torch.float64)
    for z in (1e-12, 1e-3, 0.5, 3.9):
        root = math.sqrt(1 + z * z)
        slope, curvature = 1 / (root * (1 + root)), -z * (1 + 2 * root) / (root**3 * (1 + root) ** 2)
        for way in (lambda f: f, lambda f: f.reference):
            assert way(bessel_ratio_slope)(nu, z * nu).item() * order == pytest.approx(slope, rel=1e-8)
            got = way(bessel_ratio_curvature)(nu, z * nu).item()
            assert got * order * order == pytest.approx(curvature, rel=2e-8)


def test_ends_of_the_domain():
    x = torch.tensor([0.0, math.inf, math.nan, -1.0], dtype=torch.float64)
    for way in (lambda f: f, lambda f: f.reference):
        slope = way(bessel_ratio_slope)(torch.tensor(1.0, dtype=torch.float64), x)
        curvature = way(bessel_ratio_curvature)(torch.tensor(1.0, dtype=torch.float64), x)
        assert slope[:2].tolist() == [0.25, 0.0]
        assert curvature[:2].tolist() == [0.0, 0.0]
        assert torch.isnan(slope[2:]).all()
        assert torch.isnan(curvature[2:]).all()
