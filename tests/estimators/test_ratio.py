"""The density ratio: where nearest neighbours are biased, it is not."""

import math

import pytest
import torch

from kullback import Samples, estimate_kl
from kullback.estimators.estimate import reach_over_zero


@pytest.mark.parametrize(("d", "n", "m"), [(2, 800, 900), (5, 1000, 700), (10, 1500, 2000)])
def test_shifted_normals(d, n, m):
    generator = torch.Generator().manual_seed(d)
    x, y = torch.randn(n, d, generator=generator), torch.randn(m, d, generator=generator)
    y[:, 0] += 1
    estimate = estimate_kl(Samples(x), Samples(y), method="ratio")
    assert abs(float(estimate) - 0.5) < 3.5 * estimate.stderr
    assert estimate.stderr < 0.15
    assert estimate.diagnostics["mean_ratio"] == pytest.approx(1, abs=0.3)


def test_it_is_chosen_above_two_dimensions():
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    estimate = estimate_kl(Samples(x[:100]), Samples(x[100:]))
    assert estimate.method == "density ratio"
    assert "neighbours are biased" in estimate.diagnostics["reason"]


def test_sides_that_do_not_overlap_stay_finite_and_warn():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(200, 3, generator=generator), torch.randn(200, 3, generator=generator) + 50
    estimate = estimate_kl(Samples(x), Samples(y))
    assert math.isfinite(estimate.value)
    assert any("log n" in warning for warning in estimate.warnings)


def test_more_features_than_draws():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 50, generator=generator), torch.randn(25, 50, generator=generator)
    estimate = estimate_kl(Samples(x), Samples(y))
    assert math.isfinite(estimate.value)
    assert any("features" in warning for warning in estimate.warnings)


def test_two_draws():
    generator = torch.Generator().manual_seed(0)
    estimate = estimate_kl(
        Samples(torch.randn(2, 3, generator=generator)), Samples(torch.randn(2, 3, generator=generator))
    )
    assert math.isfinite(estimate.value)
    assert estimate.warnings


@pytest.mark.parametrize("seed", range(3))
def test_products_are_left_out_where_draws_are_few_beside_them(seed):
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(300, 20, generator=generator), torch.randn(300, 20, generator=generator) + 0.1
    estimate = estimate_kl(Samples(x), Samples(y))  # the truth is 0.1; 230 products made it -2
    assert abs(float(estimate) - 0.1) < 0.3


def test_no_interval_lies_below_zero():
    warnings = []
    assert reach_over_zero(-1.0, 2.0, warnings) == (-1.0, 2.0)
    assert not warnings
    assert reach_over_zero(-3.0, -1.0, warnings) == (-3.0, 3.0)
    assert "No KL is negative" in warnings[0]
