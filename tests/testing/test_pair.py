"""The pair battery finds torch's known faults and planted ones, and passes correct closed forms."""

from __future__ import annotations

import math
import time

import pytest
import torch
from torch import distributions as D
from torch.distributions import kl_divergence

import kullback
from kullback import InputTypeError, InputValueError, ShapeError
from kullback.testing import check_pair
from kullback.testing.pair_oracle import exact_kl


def f64(x):
    return torch.tensor(x, dtype=torch.float64)


def f32(x):
    return torch.tensor(x, dtype=torch.float32)


def failed(report):
    return {finding.check for finding in report.failures}


def _xml1p(x):
    """x - log(1 + x) without cancellation: with r = x/(2+x), r (x - 2 r² (1/3 + r²/5 + r⁴/7 + ...))."""
    small = x.abs() < 0.25
    near = torch.where(small, x, 0.0)
    far = torch.where(small, 0.0, x)
    r = near / (2 + near)
    series = torch.zeros_like(near)
    for k in range(25, 1, -2):
        series = 1 / k + r * r * series
    return torch.where(small, r * (near - 2 * r * r * series), far - torch.log1p(far))


def normal_kl(p, q):
    """1/2 [h(σp²/σq²) + (Δμ/σq)²], h(r) = r - 1 - log r, with the ratio's distance from 1 formed by subtraction."""
    dtype = torch.promote_types(p.loc.dtype, q.loc.dtype)
    sp, sq, mp, mq = (x.double() for x in (p.scale, q.scale, p.loc, q.loc))
    distance = ((sp - sq) / sq) * ((sp + sq) / sq)
    ratio = torch.log(sp) - torch.log(sq)
    near = distance.abs() < 0.5
    spread = torch.where(near, _xml1p(torch.where(near, distance, 0.0)), distance - 2 * ratio)
    return (0.5 * (spread + ((mp - mq) / sq) ** 2)).to(dtype)


def exponential_kl(p, q):
    return _xml1p((q.rate - p.rate) / p.rate)


def uniform_kl(p, q):
    outside = (p.low < q.low) | (p.high > q.high)
    inside = torch.where(outside, 1.0, (q.high - q.low) / (p.high - p.low))
    grown = ((q.high - p.high) + (p.low - q.low)) / (p.high - p.low)
    near = torch.log1p(torch.where(outside, 0.0, grown))
    return torch.where(outside, torch.inf, near + 0 * inside)


CORRECT = [
    (normal_kl, D.Normal(f64(0.0), f64(1.0)), D.Normal(f64(1.0), f64(2.0))),
    (normal_kl, D.Normal(f32(0.0), f32(1e-25)), D.Normal(f32(0.0), f32(1.0))),
    (normal_kl, D.Normal(f32(0.0), f32(1.0)), D.Normal(f32(2e-4), f32(1.0))),
    (normal_kl, D.Normal(f64([0.0, 1.0, 3.0]), f64([1.0, 2.0, 0.5])), D.Normal(f64(0.5), f64(1.5))),
    (exponential_kl, D.Exponential(f64(2.0)), D.Exponential(f64(0.5))),
    (uniform_kl, D.Uniform(f64(0.5), f64(1.0)), D.Uniform(f64(0.0), f64(2.0))),
    (uniform_kl, D.Uniform(f64(0.0), f64(2.0)), D.Uniform(f64(0.5), f64(1.0))),
]


@pytest.mark.parametrize(("kl", "p", "q"), CORRECT)
@pytest.mark.sample(3)
def test_a_correct_closed_form_passes(kl, p, q):
    report = check_pair(p, q, kl=kl)
    assert report.ok, str(report)
    assert report["value"].passed


def test_the_support_check_is_run_where_p_leaves_the_support_of_q():
    assert check_pair(*CORRECT[-1][1:], kl=uniform_kl, only="support")["support"].passed
    assert check_pair(*CORRECT[-2][1:], kl=uniform_kl, only="support")["support"].passed is None


# By the number of torch's fault in the list of reproducers: the pair, and where the battery reports it.
TORCH = {
    1: (D.ContinuousBernoulli(f64(0.3)), D.Uniform(f64(0.0), f64(1.0)), {"value", "dtypes"}),
    3: (
        D.Wishart(f64([3.0, 4.0, 5.0]), torch.eye(2).double()),
        D.Wishart(f64([6.0, 5.0, 4.0]), torch.eye(2).double()),
        {"batch", "broadcasting", "event_sizes", "gradient", "vmap", "jvp"},
    ),
    6: (
        D.Bernoulli(torch.full((3, 2), 0.3)),
        D.Bernoulli(torch.full((2,), 0.5)),
        {"batch", "broadcasting", "near_equality"},
    ),
    12: (D.Categorical(f32([0.2, 0.3, 0.5])), D.Categorical(f32([0.3, 0.3, 0.4])), {"event_sizes", "near_equality"}),
    18: (
        D.Poisson(f64(0.0)),
        D.Poisson(f64(1.0)),
        {"value", "zero_at_equality", "near_equality", "dtypes", "gradient"},
    ),
    20: (D.Geometric(f64(1.0)), D.Geometric(f64(1.0)), {"value", "zero_at_equality", "dtypes"}),
    31: (D.Normal(f32(0.0), f32(1e-25)), D.Normal(f32(0.0), f32(1.0)), {"value", "near_equality", "dtypes"}),
    48: (D.Normal(f32(0.0), f32(1.0)), D.Normal(f32(2e-4), f32(1.0)), {"value", "near_equality", "dtypes"}),
    53: (
        D.Categorical(logits=f64([-math.inf, 0.0, 0.0])),
        D.Categorical(logits=f64([0.0, 1.0, 2.0])),
        {"gradient", "near_equality"},
    ),
}


@pytest.mark.parametrize("number", TORCH)
def test_the_known_faults_of_torch_are_found(number):
    p, q, expected = TORCH[number]
    report = check_pair(p, q, kl=kl_divergence, skip="compile")
    if number == 20:  # the neighbours of probs = 1 are outside the domain
        assert failed(report) >= expected, str(report)
    else:
        assert failed(report) == expected, str(report)


PLANTED = {
    "wrong sign": (lambda p, q: -normal_kl(p, q), {"value", "near_equality", "dtypes"}),
    "direction swapped": (lambda p, q: normal_kl(q, p), {"value", "near_equality", "dtypes"}),
    "no gradient to p": (lambda p, q: normal_kl(D.Normal(p.loc.detach(), p.scale.detach()), q), {"gradient"}),
    "gradient doubled": (
        lambda p, q: 2 * normal_kl(p, q) - normal_kl(p, q).detach(),
        {"gradient"},
    ),
    "first batch dimension summed": (
        lambda p, q: (
            normal_kl(p, q).sum(0, keepdim=True).expand_as(normal_kl(p, q)) if p.loc.dim() else normal_kl(p, q)
        ),
        {"batch", "broadcasting"},
    ),
    "only the first element of q": (
        lambda p, q: normal_kl(p, D.Normal(q.loc.flatten()[0], q.scale.flatten()[0])),
        {"batch", "broadcasting"},
    ),
    "reads a value": (lambda p, q: normal_kl(p, q) if (p.scale > 0).all().item() else None, {"vmap"}),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_under_its_name(name):
    kl, expected = PLANTED[name]
    report = check_pair(D.Normal(f64(0.0), f64(1.0)), D.Normal(f64(1.0), f64(2.0)), kl=kl, skip="compile")
    assert failed(report) == expected, str(report)


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        (D.Gamma(f64(2.0), f64(1.0)), D.Gamma(f64(3.0), f64(0.5)), None),
        (D.Beta(f64(2.0), f64(0.7)), D.Beta(f64(3.0), f64(0.5)), None),
        (D.Cauchy(f64(2.0), f64(0.7)), D.Cauchy(f64(3.0), f64(0.5)), None),
        (D.Laplace(f64(1.0), f64(1.0)), D.Laplace(f64(0.0), f64(2.0)), None),
        (D.Gumbel(f64(1.0), f64(1.0)), D.Gumbel(f64(0.0), f64(2.0)), None),
        (D.LogNormal(f64(1.0), f64(1.0)), D.LogNormal(f64(0.0), f64(2.0)), None),
        (D.HalfNormal(f64(1.0)), D.HalfNormal(f64(2.0)), None),
        (D.HalfCauchy(f64(1.0)), D.HalfCauchy(f64(2.0)), None),
        (D.InverseGamma(f64(3.0), f64(1.0)), D.InverseGamma(f64(2.0), f64(2.0)), None),
        (D.Pareto(f64(2.0), f64(3.0)), D.Pareto(f64(1.0), f64(2.0)), None),
        (D.Chi2(f64(3.0)), D.Chi2(f64(5.0)), None),
        (D.Poisson(f64(3.0)), D.Poisson(f64(5.0)), None),
        (D.Geometric(f64(0.3)), D.Geometric(f64(0.5)), None),
        (D.Binomial(10, f64(0.3)), D.Binomial(10, f64(0.4)), None),
        (D.ContinuousBernoulli(f64(0.3)), D.ContinuousBernoulli(f64(0.8)), None),
        (D.Normal(f64(0.0), f64(1.0)), D.StudentT(f64(1.0), f64(0.0), f64(1.0)), D.Cauchy(f64(0.0), f64(1.0))),
        (D.Exponential(f64(1.0)), D.Weibull(f64(2.0), f64(1.0)), D.Exponential(f64(0.5))),
        (D.Kumaraswamy(f64(1.0), f64(2.0)), D.Beta(f64(3.0), f64(1.5)), None),
        (D.Geometric(f64(0.3)), D.NegativeBinomial(f64(1.0), f64(0.5)), D.Geometric(f64(0.5))),
        (D.VonMises(f64(0.5), f64(2.0)), D.VonMises(f64(2.0), f64(1.0)), "von Mises"),
    ],
)
@pytest.mark.sample(3)
def test_the_quadrature_agrees_with_the_closed_form(p, q, expected):
    exact, error = exact_kl(p, q)
    if expected == "von Mises":
        i0, i1 = (lambda x: torch.special.i0(f64(x)).item()), (lambda x: torch.special.i1(f64(x)).item())
        closed = math.log(i0(1.0) / i0(2.0)) + i1(2.0) / i0(2.0) * (2.0 - 1.0 * math.cos(1.5))
    elif expected is not None:  # q is a special case of a family that has another name for it
        closed = exact_kl(p, expected)[0]
    elif isinstance(p, D.Kumaraswamy):  # Kumaraswamy(1, b) is Beta(1, b)
        closed = kl_divergence(D.Beta(f64(1.0), f64(2.0)), q).item()
    else:
        closed = kl_divergence(p, q).item()
    assert exact == pytest.approx(closed, rel=1e-12, abs=0)
    assert error < 1e-12


def test_a_divergent_integral_is_not_mistaken_for_a_number():
    assert exact_kl(D.Cauchy(f64(0.0), f64(1.0)), D.Normal(f64(0.0), f64(1.0))) is None


def test_a_function_and_examples_will_do():
    def make(scale, other):
        return D.Independent(D.Normal(torch.zeros_like(scale), scale), 0), D.Independent(D.Normal(0 * other, other), 0)

    def kl(p, q):
        return normal_kl(p.base_dist, q.base_dist)

    report = check_pair(make, [(1.0, 2.0), (0.5, 0.25)], kl=kl, expected=[0.318147180559945, 0.8068528194400546])
    assert report.ok, str(report)
    assert report["value"].passed is None
    assert report["golden"].passed
    report = check_pair(make, [(1.0, 2.0)], kl=kl, expected=0.3, only="golden")
    assert failed(report) == {"golden"}


def test_a_reference_stands_in_for_the_quadrature():
    p = D.MultivariateNormal(f64([0.0, 1.0]), f64([[1.0, 0.2], [0.2, 1.0]]))
    q = D.MultivariateNormal(f64([0.0, 0.0]), f64([[1.0, 0.5], [0.5, 2.0]]))
    report = check_pair(p, q, kl=kl_divergence, reference=lambda p, q: 2 * kl_divergence(p, q).item(), only="value")
    assert failed(report) == {"value"}
    assert check_pair(p, q, kl=kl_divergence, skip=["zero_at_equality", "near_equality"]).ok


def test_counts_are_not_differentiated():
    report = check_pair(D.Binomial(10, f64(0.3)), D.Binomial(10, f64(0.4)), kl=kl_divergence, only="gradient")
    assert report.ok, str(report)


def test_a_warm_battery_takes_less_than_two_seconds():
    arguments = CORRECT[0]
    check_pair(*arguments[1:], kl=arguments[0])
    start = time.perf_counter()
    check_pair(D.Normal(f64(0.25), f64(1.0)), D.Normal(f64(1.0), f64(3.0)), kl=normal_kl)
    assert time.perf_counter() - start < 2


def test_what_it_cannot_take_is_explained():
    with pytest.raises(InputTypeError, match="make"):
        check_pair(D.Normal(f64(0.0), f64(1.0)), 3, kl=normal_kl)
    independent = D.Independent(D.Normal(f64([0.0]), f64([1.0])), 1)
    with pytest.raises(InputTypeError, match="make"):
        check_pair(independent, independent, kl=normal_kl)
    with pytest.raises(InputValueError, match="near_equality"):
        check_pair(*CORRECT[0][1:], kl=normal_kl, only="values")
    with pytest.raises(ShapeError, match="one value"):
        check_pair(*CORRECT[0][1:], kl=normal_kl, expected=[1.0, 2.0])
    with pytest.raises(ShapeError, match="one example"):
        check_pair(lambda x: x, [], kl=normal_kl)


def test_the_default_is_the_librarys_own(monkeypatch):
    monkeypatch.setattr(kullback, "kl_divergence", normal_kl, raising=False)
    assert check_pair(*CORRECT[0][1:], only="value").ok
