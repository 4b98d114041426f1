"""Mutual information: Gaussian truths, a discrete truth, a direct formula, and invariances."""

import math

import pytest
import torch

import kullback as kb
from kullback import Samples, estimate_mutual_information


def correlated(n, rho, d=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x, noise = (torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(2))
    return x, rho * x + math.sqrt(1 - rho * rho) * noise, -d / 2 * math.log(1 - rho * rho)


def test_the_published_formula():
    x, y, _ = correlated(40, 0.7)
    k, n = 3, 40
    x, y = (z / z.std() for z in (x, y))
    dx, dy = torch.cdist(x, x), torch.cdist(y, y)
    radius = torch.maximum(dx, dy).sort(1).values[:, k]
    total = 0.0
    for i in range(n):
        a, b = int((dx[i] < radius[i]).sum()) - 1, int((dy[i] < radius[i]).sum()) - 1
        total += float(torch.digamma(torch.tensor([a + 1.0, b + 1.0], dtype=torch.float64)).sum()) / n
    expected = float(torch.digamma(torch.tensor([3.0, 40.0], dtype=torch.float64)).sum()) - total
    assert float(estimate_mutual_information(x, y, k=3)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
@pytest.mark.parametrize("method", ["nearest-neighbours", "ratio"])
def test_gaussians(rho, method):
    x, y, truth = correlated(1000, rho)
    estimate = estimate_mutual_information(Samples(x), Samples(y), method=method)
    assert abs(float(estimate) - truth) < max(4 * estimate.stderr, 0.05)


def test_five_coordinates_on_either_side():
    x, y, truth = correlated(2000, 0.5, d=5)
    estimate = estimate_mutual_information(x, y)
    assert estimate.method == "density ratio"
    assert abs(float(estimate) - truth) < 4 * estimate.stderr


def test_discrete_and_mixed_sides():
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(3, (1500,), generator=generator)
    y = torch.where(torch.rand(1500, generator=generator) < 0.7, x, torch.randint(3, (1500,), generator=generator))
    same = 0.7 + 0.3 / 3
    truth = math.log(3) + same * math.log(same) + 2 * 0.1 * math.log(0.1)
    assert float(estimate_mutual_information(x, y)) == pytest.approx(truth, abs=0.06)
    noisy = x + 0.01 * torch.randn(1500, generator=generator)
    assert float(estimate_mutual_information(x, noisy)) == pytest.approx(math.log(3), abs=0.06)


def test_units_and_constant_columns_do_not_matter():
    x, y, _ = correlated(300, 0.5)
    plain = estimate_mutual_information(x, y)
    padded = torch.cat([1e3 * x + 5, torch.ones_like(x)], 1)
    assert estimate_mutual_information(padded, y / 1e3).value == pytest.approx(plain.value, rel=1e-6)
    assert estimate_mutual_information(torch.ones(300), y).value == 0


def test_refusals():
    x = torch.randn(20)
    with pytest.raises(kb.ShapeError, match="20 and 19"):
        estimate_mutual_information(x, x[1:])
    with pytest.raises(kb.InputValueError, match="out of range"):
        estimate_mutual_information(x, x, method="magic")
    with pytest.raises(kb.InputValueError, match="NaN"):
        estimate_mutual_information(x, torch.full((20,), math.nan))
    with pytest.raises(kb.InputTypeError, match="tensor"):
        estimate_mutual_information([1.0], x)
