"""Counts: published values of every estimator, the tests of p = q, intervals, and unseen categories."""

import math

import mpmath
import pytest
import torch

import kullback as kb
from kullback import Counts, Samples, estimate_kl
from kullback.estimators.counts import _chi2_tail

X, Y = torch.tensor([5, 3, 0, 12, 1]), torch.tensor([2, 7, 4, 9, 0])


def test_published_values():
    assert float(estimate_kl(Counts(X), Counts(Y), method="zhang-grabchak")) == pytest.approx(
        0.18493094207379918, rel=1e-14
    )
    for prior, value in ((1.0, 0.3901431901431901), (0.5, 0.5088544489683786)):
        estimate = estimate_kl(Counts(X), Counts(Y), method="dirichlet", prior=prior)
        assert estimate.value == pytest.approx(value, rel=1e-13)
        assert estimate.low < value < estimate.high
    for smoothing, value in ((1.0, 0.2136590298), (0.5, 0.2820468247), (0.2, 0.3563841657)):
        views = Counts(X, smoothing=smoothing), Counts(Y, smoothing=smoothing)
        assert float(estimate_kl(*views, method="plug-in")) == pytest.approx(value, rel=1e-9)


def test_the_closed_form_is_the_published_double_sum():
    n, m = int(X.sum()), int(Y.sum())
    total = 0.0
    for x, y in zip(X.tolist(), Y.tolist(), strict=True):
        if x == 0:
            continue
        product = 1.0
        for v in range(1, m + 1):
            product *= 1 - y / (m - v + 1)
            total += x / n * product / v
        product = 1.0
        for v in range(1, n):
            product *= 1 - (x - 1) / (n - v)
            total -= x / n * product / v
    assert float(estimate_kl(Counts(X), Counts(Y), method="zhang-grabchak")) == pytest.approx(total, rel=1e-13)


def test_posterior_spread_matches_direct_sampling():
    p = torch.distributions.Dirichlet(X + 1.0).sample((20000,))
    q = torch.distributions.Dirichlet(Y + 1.0).sample((20000,))
    values = (p * (p / q).log()).sum(-1)
    estimate = estimate_kl(Counts(X), Counts(Y), prior=1.0)
    assert estimate.stderr == pytest.approx(float(values.std()), rel=0.1)
    assert estimate.high == pytest.approx(float(values.quantile(0.975)), rel=0.1)


def test_the_plug_in_without_smoothing_is_infinite_and_says_so():
    estimate = estimate_kl(Counts(X), Counts(Y), method="plug-in")
    assert estimate.value == estimate.low == math.inf
    assert any("infinite" in warning for warning in estimate.warnings)


def test_unseen_categories_are_reported():
    estimate = estimate_kl(Counts(X), Counts(Y))
    assert estimate.diagnostics["unseen_by_q"] == pytest.approx(1 / 21)
    assert any("never showed 1 categor" in warning for warning in estimate.warnings)
    assert math.isfinite(estimate.value)


def test_tests_of_equality():
    x, y = torch.tensor([50.0, 30, 20, 10]), torch.tensor([40.0, 40, 30, 20])
    found = estimate_kl(Counts(x), Counts(y)).diagnostics
    table = torch.stack([x, y]).double()
    expected = table.sum(1, keepdim=True) * table.sum(0) / table.sum()
    g = 2 * float((table * (table / expected).log()).sum())
    assert found["g_statistic"] == pytest.approx(g, rel=1e-12)
    assert found["degrees_of_freedom"] == 3
    assert found["g_p_value"] == pytest.approx(float(mpmath.gammainc(1.5, g / 2, regularized=True)), rel=1e-9)
    p, q = x / x.sum(), y / y.sum()
    psi = float(((p - q) * (p / q).log()).sum())
    assert found["psi"] == pytest.approx(psi, rel=1e-5)
    tail = float(mpmath.gammainc(1.5, psi * 110 * 130 / 240 / 2, regularized=True))
    assert found["psi_p_value"] == pytest.approx(tail, rel=1e-4)
    assert found["psi_null_mean"] == pytest.approx(3 * (1 / 110 + 1 / 130))


def test_the_95_percent_threshold_of_the_stability_index_for_ten_bins():
    # 16.919·(1/n + 1/m) (Yurdakul 2018): for n = m = 100 it is above the popular 0.25.
    assert _chi2_tail(0.338380 * 50, 9) == pytest.approx(0.05, rel=1e-3)


def test_equal_distributions_keep_zero_in_the_interval():
    estimate = estimate_kl(
        Counts(torch.tensor([100, 110, 95])), Counts(torch.tensor([102, 105, 99])), method="dirichlet"
    )
    assert estimate.low == 0
    assert estimate.diagnostics["g_p_value"] > 0.05


def test_the_method_follows_the_counts_per_category():
    many, few = torch.tensor([100, 110, 95]), torch.tensor([3, 1, 2])
    assert estimate_kl(Counts(many), Counts(many)).method == "zhang-grabchak"
    assert estimate_kl(Counts(many), Counts(few)).method.startswith("Dirichlet")
    assert estimate_kl(Counts(many, smoothing=1.0), Counts(many, smoothing=1.0)).method.startswith("Dirichlet")


def test_integer_samples_are_counted():
    x, y = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([0, 1, 1, 2, 7, 7])
    drawn = estimate_kl(Samples(x), Samples(y))
    counted = estimate_kl(Counts(torch.tensor([2, 1, 3, 0])), Counts(torch.tensor([1, 2, 1, 2])))
    assert drawn.value == pytest.approx(counted.value, rel=1e-12)
    pairs = torch.stack([x, x], 1), torch.stack([y, y], 1)
    assert estimate_kl(Samples(pairs[0]), Samples(pairs[1])).value == pytest.approx(counted.value, rel=1e-12)


def test_many_more_categories_than_counts():
    generator = torch.Generator().manual_seed(0)
    p, q = torch.distributions.Dirichlet(torch.ones(2, 2000)).sample()
    x = torch.multinomial(p, 500, replacement=True, generator=generator).bincount(minlength=2000)
    y = torch.multinomial(q, 500, replacement=True, generator=generator).bincount(minlength=2000)
    estimate = estimate_kl(Counts(x), Counts(y))
    truth = float((p * (p / q).log()).sum())
    assert float(estimate) == pytest.approx(truth, rel=0.6)
    assert any("prior" in warning for warning in estimate.warnings)


@pytest.mark.parametrize(
    ("x", "y", "error", "words"),
    [
        (torch.ones(2, 3), torch.ones(3), kb.ShapeError, "one row"),
        (torch.ones(2), torch.ones(3), kb.ShapeError, "2 and 3"),
        (torch.zeros(3), torch.ones(3), kb.InputValueError, "without any counts"),
        (torch.tensor([1.0, -1]), torch.ones(2), kb.InputValueError, "negative count"),
        (torch.tensor([1.0, math.nan]), torch.ones(2), kb.InputValueError, "NaN"),
    ],
)
def test_counts_that_cannot_be_used(x, y, error, words):
    with pytest.raises(error, match=words):
        estimate_kl(Counts(x), Counts(y))


def test_a_prior_is_positive():
    with pytest.raises(kb.InputValueError, match="prior"):
        estimate_kl(Counts(X), Counts(Y), prior=-1.0)


def test_one_category_has_no_divergence():
    estimate = estimate_kl(Counts(torch.tensor([5])), Counts(torch.tensor([7])))
    assert estimate.value == pytest.approx(0, abs=1e-12)
    assert estimate.low == 0


def test_counts_against_known_probabilities():
    # By hand: x = (3, 1) of 4 against (1/2, 1/2): 3/4·ψ(3) + 1/4·ψ(1) − ψ(4) + log 2.
    by_hand = (
        0.75 * (1.5 - 0.5772156649015329) + 0.25 * -0.5772156649015329 - (11 / 6 - 0.5772156649015329) + math.log(2)
    )
    for p in (Counts(torch.tensor([3, 1])), Samples(torch.tensor([0, 0, 1, 0]))):
        estimate = estimate_kl(p, torch.distributions.Categorical(torch.ones(2, dtype=torch.float64)))
        assert float(estimate) == pytest.approx(by_hand, rel=1e-12)
    generator = torch.Generator().manual_seed(3)
    x = torch.poisson(torch.full((4000,), 2.0), generator=generator).long()
    estimate = estimate_kl(Samples(x), torch.distributions.Poisson(3.0))  # the truth is 2 log(2/3) + 1
    assert abs(float(estimate) - (2 * math.log(2 / 3) + 1)) < 4 * estimate.stderr


def test_long_tails_that_both_sides_share():
    # Zipf's law, every probability off by about 40 %: a prior of unrelated p and q says 3.7 here.
    p = torch.arange(1, 1001, dtype=torch.float64) ** -1.0
    q = p * (0.42 * torch.randn(1000, generator=torch.Generator().manual_seed(5), dtype=torch.float64)).exp()
    p, q = p / p.sum(), q / q.sum()
    truth = float((p * (p / q).log()).sum())
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.multinomial(w, 1000, True, generator=generator).bincount(minlength=1000) for w in (p, q))
    estimate = estimate_kl(Counts(x), Counts(y))
    assert estimate.low <= truth <= estimate.high < 1
    assert estimate.warnings
