"""Nearest neighbours: published values, invariances, ties, known biases, and input that cannot be used."""

import math

import pytest
import torch
from torch.distributions import Exponential, Independent, Normal

import kullback as kb
from kullback import Samples, estimate_kl
from kullback.estimators import neighbours


def normals(n, m, d, *, shift=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    y = torch.randn(m, d, generator=generator, dtype=torch.float64)
    y[:, 0] += shift
    return x, y


def test_the_published_tiny_cases():
    assert float(
        estimate_kl(Samples(torch.tensor([1.0, 2, 4])), Samples(torch.tensor([1.5, 3])), k=1)
    ) == pytest.approx(-math.log(2), rel=1e-14)
    x = torch.tensor([1.0, 2])
    assert float(estimate_kl(Samples(x), Samples(x + 0.5), k=1)) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("d", [1, 2, 9])
def test_a_fixed_k_is_the_published_formula(k, d):
    x, y = normals(40, 30, d)
    own = torch.cdist(x, x).sort(1).values[:, k]
    other = torch.cdist(x, y).sort(1).values[:, k - 1]
    expected = d * (other / own).log().mean() + math.log(30 / 39)
    assert float(estimate_kl(Samples(x), Samples(y), k=k)) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_tree_and_matrix_find_the_same_balls(d):
    pytest.importorskip("scipy")
    x, y = normals(120, 90, d)
    x[:20], y[:10] = x[20:40], x[20:30]  # duplicates within and across
    assert isinstance(neighbours.search(x), neighbours._Tree)
    for k in (1, 2, 4):
        for points, queries in ((x, x), (y, x)):
            tree, matrix = neighbours.search(points), neighbours._Matrix(points)
            radius = tree.kth(queries, k)
            torch.testing.assert_close(radius, matrix.kth(queries, k), rtol=1e-9, atol=1e-12)
            assert torch.equal(tree.count(queries, radius), matrix.count(queries, radius))


def test_sorting_finds_the_same_balls_in_one_dimension():
    x, y = normals(60, 50, 1)
    x[:10] = x[10:20]
    for k in (1, 2, 5):
        line, matrix = neighbours._Sorted(y), neighbours._Matrix(y)
        radius = line.kth(x, k)
        torch.testing.assert_close(radius, matrix.kth(x, k), rtol=1e-9, atol=1e-9)
        assert torch.equal(line.count(x, radius * 1.5), matrix.count(x, radius * 1.5))


@pytest.mark.parametrize(("n", "m"), [(2000, 500), (500, 2000), (1000, 1000)])
def test_unequal_sizes(n, m):
    x, y = normals(n, m, 1)
    estimate = estimate_kl(Samples(x[:, 0]), Samples(y[:, 0]))
    assert float(estimate) == pytest.approx(0.5, abs=0.25)
    assert estimate.low < 0.5 < estimate.high
    assert estimate.n == (n, m)


def test_units_of_the_columns_do_not_matter():
    x, y = normals(300, 300, 2)
    scale = torch.tensor([1e-3, 1e4], dtype=torch.float64)
    plain, scaled = estimate_kl(Samples(x), Samples(y)), estimate_kl(Samples(x * scale + 7), Samples(y * scale + 7))
    assert float(plain) == pytest.approx(float(scaled), rel=1e-6)


def test_duplicates_and_mixed_columns_stay_finite():
    generator = torch.Generator().manual_seed(1)
    kind = torch.bernoulli(torch.full((800, 1), 0.8), generator=generator)
    other = torch.bernoulli(torch.full((900, 1), 0.3), generator=generator)
    x = torch.cat([kind, torch.randn(800, 1, generator=generator)], 1)
    y = torch.cat([other, torch.randn(900, 1, generator=generator)], 1)
    truth = 0.8 * math.log(0.8 / 0.3) + 0.2 * math.log(0.2 / 0.7)
    assert float(estimate_kl(Samples(x), Samples(y))) == pytest.approx(truth, abs=0.2)
    repeated = estimate_kl(Samples(kind[:, 0]), Samples(other[:, 0]))
    assert float(repeated) == pytest.approx(truth, abs=0.15)
    assert any("repeat" in warning for warning in repeated.warnings)


def test_the_same_call_gives_the_same_answer_and_a_generator_another():
    x, y = normals(200, 200, 1)
    first, second = (estimate_kl(Samples(x), Samples(y)) for _ in range(2))
    assert first == second
    seeded = estimate_kl(Samples(x), Samples(y), generator=torch.Generator().manual_seed(5))
    assert seeded.value == first.value
    assert seeded.stderr != first.stderr


def test_high_dimension_warns_of_its_bias():
    x, y = normals(400, 400, 10)
    estimate = estimate_kl(Samples(x), Samples(y), method="nearest-neighbours")
    assert estimate.diagnostics["dimension_bias"] < 0
    assert any("10 dimensions" in warning for warning in estimate.warnings)


def test_distant_distributions_warn_of_the_ceiling():
    x, y = normals(100, 100, 1, shift=8.0)
    estimate = estimate_kl(Samples(x), Samples(y))
    assert any("log n" in warning for warning in estimate.warnings)


def test_one_sample_against_a_density():
    x, _ = normals(2000, 2, 1)
    estimate = estimate_kl(Samples(x[:, 0]), Normal(1.0, 1.0))
    assert estimate.low < 0.5 < estimate.high
    x, _ = normals(2000, 2, 2)
    estimate = estimate_kl(Samples(x), Independent(Normal(torch.ones(2), torch.ones(2)), 1))
    assert float(estimate) == pytest.approx(1.0, abs=0.2)


def test_more_dimensions_than_draws_answers_with_a_warning():
    x, y = normals(8, 9, 30)
    estimate = estimate_kl(Samples(x), Samples(y), method="nearest-neighbours")
    assert math.isfinite(estimate.value)
    assert any("30 dimensions" in warning for warning in estimate.warnings)


def test_two_draws_have_no_error_bar_but_an_answer():
    estimate = estimate_kl(Samples(torch.tensor([0.0, 1])), Samples(torch.tensor([0.5, 2])))
    assert math.isfinite(estimate.value)
    assert estimate.stderr == math.inf
    assert estimate.warnings


@pytest.mark.parametrize(
    ("x", "y", "error", "words"),
    [
        (torch.empty(0), torch.randn(5), kb.ShapeError, "too few draws"),
        (torch.randn(5, 2), torch.randn(5, 3), kb.ShapeError, "2 and 3 columns"),
        (torch.tensor([1.0, math.nan, 2]), torch.randn(5), kb.InputValueError, "row 1: [nan"),
        (torch.tensor([1.0, math.inf, 2]), torch.randn(5), kb.InputValueError, "infinity"),
        (torch.ones(5), torch.randn(5), kb.InputValueError, "Column 0 of p is constant"),
        (torch.randn(5), torch.ones(5), kb.InputValueError, "Column 0 of q is constant"),
        (torch.zeros(5), torch.ones(5), kb.InputValueError, "infinite"),
    ],
)
def test_input_that_cannot_be_used_is_refused_with_its_place(x, y, error, words):
    with pytest.raises(error) as caught:
        estimate_kl(Samples(x), Samples(y))
    assert words in str(caught.value)


def test_constant_columns_of_both_sides_add_nothing():
    x, y = normals(100, 100, 2)
    constant = torch.full((100, 1), 3.0, dtype=torch.float64)
    plain = estimate_kl(Samples(x), Samples(y))
    padded = estimate_kl(Samples(torch.cat([x, constant], 1)), Samples(torch.cat([y, constant], 1)))
    assert padded.value == pytest.approx(plain.value, rel=1e-9)
    assert estimate_kl(Samples(constant), Samples(constant)).value == 0


@pytest.mark.parametrize("k", [0, 5, 1.5, True])
def test_k_is_checked(k):
    with pytest.raises(kb.InputValueError, match="whole number"):
        estimate_kl(Samples(torch.randn(5)), Samples(torch.randn(5)), k=k)


def test_fixed_k_refuses_ties():
    with pytest.raises(kb.InputValueError, match="distance 0"):
        estimate_kl(Samples(torch.tensor([1.0, 1, 2])), Samples(torch.randn(5)), k=1)


def test_draws_outside_the_support_of_q_are_refused():
    with pytest.raises(kb.InputValueError, match="infinite"):
        estimate_kl(Samples(torch.randn(50)), Exponential(1.0))


def test_bare_tensors_unknown_methods_and_options():
    x = torch.randn(5)
    with pytest.raises(kb.InputTypeError, match="bare tensor"):
        estimate_kl(x, x)
    with pytest.raises(kb.InputTypeError, match="no estimator"):
        estimate_kl(Samples(x), kb.Probs(torch.tensor([0.5, 0.5])))
    with pytest.raises(kb.InputValueError, match="nearest-neighbours"):
        estimate_kl(Samples(x), Samples(x), method="magic")
    with pytest.raises(kb.InputTypeError, match="neighbours"):
        estimate_kl(Samples(x), Samples(x), neighbours=3)
    with pytest.raises(kb.InputValueError, match="confidence"):
        estimate_kl(Samples(x), Samples(x), confidence=95)


def test_the_interval_reaches_over_the_bias_of_neighbours():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 8, generator=generator)
    estimate = estimate_kl(
        Samples(x), Samples(torch.randn(400, 8, generator=generator) + 0.35), method="nearest-neighbours"
    )
    bias = estimate.diagnostics["dimension_bias"]
    assert bias < 0
    assert estimate.high - estimate.value == pytest.approx(estimate.value - estimate.low - bias)
