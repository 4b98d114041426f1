"""Fits to samples, weights, counts and views: maximum likelihood against formulas and SciPy, errors of bad data."""

import math

import pytest
import torch
from torch.distributions import constraints

import kullback as kb
from kullback import Counts, InputValueError, Logits, Probs, Samples, ShapeError, project
from kullback.fit import Family
from kullback.fit.families import family_names

D = torch.distributions


def draws(d, n=2000, seed=1):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return d.sample((n,)).double()


MEMBERS = {
    "Bernoulli": D.Bernoulli(0.3),
    "Beta": D.Beta(2.0, 5.0),
    "Binomial": D.Binomial(10, torch.tensor(0.3)),
    "Categorical": D.Categorical(torch.tensor([0.2, 0.3, 0.5])),
    "Cauchy": D.Cauchy(1.0, 2.0),
    "Chi2": D.Chi2(3.0),
    "ContinuousBernoulli": D.ContinuousBernoulli(torch.tensor(0.2)),
    "DiagonalNormal": D.Independent(D.Normal(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])), 1),
    "Dirichlet": D.Dirichlet(torch.tensor([1.0, 2.0, 4.0])),
    "Exponential": D.Exponential(2.0),
    "FisherSnedecor": D.FisherSnedecor(5.0, 8.0),
    "Gamma": D.Gamma(2.0, 3.0),
    "Geometric": D.Geometric(0.3),
    "Gumbel": D.Gumbel(1.0, 2.0),
    "HalfCauchy": D.HalfCauchy(2.0),
    "HalfNormal": D.HalfNormal(2.0),
    "InverseGamma": D.InverseGamma(torch.tensor(3.0), torch.tensor(2.0)),
    "Kumaraswamy": D.Kumaraswamy(torch.tensor(2.0), torch.tensor(3.0)),
    "Laplace": D.Laplace(1.0, 2.0),
    "LogNormal": D.LogNormal(0.5, 0.7),
    "LogisticNormal": D.LogisticNormal(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.5])),
    "LowRankMultivariateNormal": D.LowRankMultivariateNormal(
        torch.zeros(3), torch.tensor([[1.0], [0.5], [2.0]]), torch.ones(3)
    ),
    "Multinomial": D.Multinomial(5, torch.tensor([0.2, 0.3, 0.5])),
    "MultivariateNormal": D.MultivariateNormal(torch.zeros(2), torch.tensor([[2.0, 0.5], [0.5, 1.0]])),
    "NegativeBinomial": D.NegativeBinomial(3.0, torch.tensor(0.4)),
    "Normal": D.Normal(1.0, 2.0),
    "OneHotCategorical": D.OneHotCategorical(torch.tensor([0.2, 0.3, 0.5])),
    "Pareto": D.Pareto(1.5, 3.0),
    "Poisson": D.Poisson(4.0),
    "RelaxedBernoulli": D.RelaxedBernoulli(torch.tensor(0.8), torch.tensor(0.3)),
    "RelaxedOneHotCategorical": D.RelaxedOneHotCategorical(torch.tensor(0.8), torch.tensor([0.2, 0.3, 0.5])),
    "StudentT": D.StudentT(4.0, 1.0, 2.0),
    "Uniform": D.Uniform(-1.0, 3.0),
    "VonMises": D.VonMises(torch.tensor(0.5), torch.tensor(3.0)),
    "Weibull": D.Weibull(2.0, 1.5),
}
if hasattr(D, "GeneralizedPareto"):
    MEMBERS["GeneralizedPareto"] = D.GeneralizedPareto(0.0, 1.0, 0.3)


@pytest.mark.parametrize("name", MEMBERS)
def test_finds_the_member_that_the_samples_come_from(name):
    truth = MEMBERS[name]
    x = draws(truth)
    fixed = {"Binomial": {"total_count": 10}}.get(name, {})
    found = project(Samples(x), Family(name, fixed=fixed))
    assert found.converged, found
    fitted = found.distribution
    if truth.event_shape == () and name not in ("Pareto", "Uniform", "GeneralizedPareto"):
        # The most likely member is at least as likely as the truth, by about half a χ² of its parameters.
        gain = (fitted.log_prob(x) - truth.log_prob(x.float()).double()).sum()
        assert -1e-3 * abs(gain) - 1e-2 <= gain < 12
    for parameter, error in (found.standard_errors or {}).items():
        if parameter in truth.arg_constraints and not bool(error.isnan().any()) and parameter not in ("cov_factor",):
            gap = (found.parameters[parameter] - getattr(truth, parameter).double()).abs()
            assert bool((gap <= 4.5 * error + 1e-9).all()), (parameter, gap, error)


def test_every_family_is_known():
    assert set(family_names()) - set(MEMBERS) == {"LKJCholesky", "OneHotCategoricalStraightThrough", "Wishart"}


SCIPY = {
    "Gamma": ("gamma", {"floc": 0}, lambda p: (p["concentration"], 0, 1 / p["rate"])),
    "Beta": ("beta", {"floc": 0, "fscale": 1}, lambda p: (p["concentration1"], p["concentration0"], 0, 1)),
    "Weibull": ("weibull_min", {"floc": 0}, lambda p: (p["concentration"], 0, p["scale"])),
    "StudentT": ("t", {}, lambda p: (p["df"], p["loc"], p["scale"])),
    "Gumbel": ("gumbel_r", {}, lambda p: (p["loc"], p["scale"])),
    "Cauchy": ("cauchy", {}, lambda p: (p["loc"], p["scale"])),
    "InverseGamma": ("invgamma", {"floc": 0}, lambda p: (p["concentration"], 0, p["rate"])),
    "LogNormal": ("lognorm", {"floc": 0}, lambda p: (p["scale"], 0, p["loc"].exp())),
}


@pytest.mark.parametrize("name", SCIPY)
def test_as_likely_as_scipy_finds(name):
    stats = pytest.importorskip("scipy.stats")
    scipy_name, options, arguments = SCIPY[name]
    x = draws(MEMBERS[name], 400)
    family = getattr(stats, scipy_name)
    theirs = family.logpdf(x.numpy(), *family.fit(x.numpy(), **options)).sum()
    found = project(Samples(x), name)
    ours = family.logpdf(x.numpy(), *[float(each) for each in arguments(found.parameters)]).sum()
    assert ours >= theirs - 1e-6 * abs(theirs)
    assert found.log_likelihood.item() == pytest.approx(ours, rel=1e-9)


def test_standard_errors_of_the_normal():
    x = draws(D.Normal(1.0, 2.0), 500)
    found = project(Samples(x), "Normal")
    sigma = x.std(correction=0)
    assert found.standard_errors["loc"].item() == pytest.approx((sigma / math.sqrt(500)).item())
    assert found.standard_errors["scale"].item() == pytest.approx((sigma / math.sqrt(1000)).item())
    assert found.aic.item() == pytest.approx((4 - 2 * found.distribution.log_prob(x).sum()).item())


def test_columns_are_data_sets():
    x = draws(D.Gamma(torch.tensor([0.5, 2.0, 30.0]), torch.tensor(2.0)), 300)
    together = project(Samples(x), "Gamma")
    assert together.distribution.batch_shape == (3,)
    for column in range(3):
        alone = project(Samples(x[:, column]), "Gamma")
        torch.testing.assert_close(together.parameters["rate"][column], alone.parameters["rate"])
        torch.testing.assert_close(together.standard_errors["rate"][column], alone.standard_errors["rate"])


def test_weights_that_count_repetitions():
    x = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
    repeated = project(Samples(x.repeat_interleave(torch.tensor([1, 2, 3, 1]))), "Weibull")
    weighted = project(Samples(x), "Weibull", weights=torch.tensor([1.0, 2.0, 3.0, 1.0]))
    for name, value in weighted.parameters.items():
        torch.testing.assert_close(value, repeated.parameters[name])


def test_counts_and_views():
    counts = torch.tensor([5, 10, 7, 3, 1])
    found = project(Counts(counts), "Poisson")
    mean = (counts * torch.arange(5)).sum() / counts.sum()
    assert found.parameters["rate"].item() == pytest.approx(mean.item())
    assert found.num_observations.item() == 26
    p = counts.double() / counts.sum()
    q = torch.distributions.Poisson(mean.double()).log_prob(torch.arange(5.0).double())
    assert found.kl.item() == pytest.approx((p * (p.log() - q)).sum().item())
    logits = torch.randn(4, 3, dtype=torch.float64)
    same = project(Logits(logits), "Categorical")
    torch.testing.assert_close(same.distribution.probs, logits.softmax(-1))
    assert bool((same.kl.abs() < 1e-12).all())


def test_mixture_of_normals():
    x = torch.cat([draws(D.Normal(-3.0, 1.0), 500), draws(D.Normal(2.0, 0.5), 500, seed=2)])
    found = project(Samples(x), "Mixture(Normal, 2)", restarts=4)
    assert found.converged
    order = found.parameters["loc"].argsort()
    assert found.parameters["loc"][order].tolist() == pytest.approx([-3, 2], abs=0.2)
    assert found.aic < project(Samples(x), "Normal").aic
    assert "mixture_probs" in found.standard_errors


def test_ranking_of_samples():
    x = draws(MEMBERS["Gamma"])
    ranking = project(Samples(x), ["Normal", "Gamma", "Exponential", "Bernoulli"])
    assert str(ranking.best.family) == "Gamma"
    assert "Bernoulli" in ranking.failures
    assert project(Samples(x), ["Normal", "Gamma"], criterion="bic").criterion == "bic"


def test_a_family_of_the_user():
    class Logistic(D.Distribution):
        arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
        support = constraints.real

        def __init__(self, loc, scale, validate_args=None):
            self.loc, self.scale = loc, scale
            super().__init__(loc.shape, validate_args=validate_args)

        def log_prob(self, x):
            z = (x - self.loc) / self.scale
            return -z - self.scale.log() - 2 * torch.nn.functional.softplus(-z)

    x = 1.0 + 2.0 * torch.logit(torch.linspace(0.001, 0.999, 999, dtype=torch.float64))
    found = project(Samples(x), Logistic)
    assert found.converged
    assert found.parameters["loc"].item() == pytest.approx(1.0, abs=1e-6)
    assert found.parameters["scale"].item() == pytest.approx(2.0, rel=0.01)


def test_derivatives_to_the_samples():
    x = draws(D.Gamma(2.0, 1.0), 50).requires_grad_()
    (gradient,) = torch.autograd.grad(project(Samples(x), "Gamma").distribution.concentration, x)
    moved = x.detach().clone()
    moved[3] += 1e-5
    change = (
        project(Samples(moved), "Gamma").distribution.concentration
        - project(Samples(x.detach()), "Gamma").distribution.concentration
    )
    assert gradient[3].item() == pytest.approx(change.item() / 1e-5, rel=1e-3)


@pytest.mark.parametrize(
    ("x", "family", "words"),
    [
        (torch.empty(0), "Normal", "no samples"),
        (torch.empty(0, 3), "MultivariateNormal", "no samples"),
        (torch.tensor([1.0, math.nan]), "Normal", "index 1"),
        (torch.tensor([1.0, -2.0, 3.0]), "Gamma", "index 1"),
        (torch.tensor([0.2, 1.0]), "Beta", "strictly between"),
        (torch.tensor([1.0, 2.5]), "Poisson", "whole numbers"),
        (torch.tensor([0.0, 2.0]), "Bernoulli", "0 or 1"),
        (torch.full((9,), 2.0), "Normal", "constant"),
        (torch.stack([torch.randn(9), torch.ones(9)], -1), "Normal", "Column 1"),
        (torch.stack([torch.randn(9), torch.ones(9)], -1), "MultivariateNormal", "Column 1"),
        (torch.randn(9, 1).expand(9, 2) * torch.tensor([1.0, 2.0]), "MultivariateNormal", "subspace"),
        (torch.zeros(5), "Exponential", "finite positive"),
        (torch.tensor([3.0]), "Laplace", "constant"),
        (torch.tensor([[0.2, 0.3, 0.6], [0.1, 0.2, 0.7]]), "Dirichlet", r"index \(0, 0\)\n.*sum to 1"),
        (torch.tensor([[1.0, 0.0], [1.0, 1.0]]), "OneHotCategorical", "single 1"),
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "Multinomial", "sum 3"),
        (torch.full((5,), 0.2), "RelaxedBernoulli", "constant"),
        (torch.tensor([1.0, 7.0]), Family("Uniform", {"low": 2.0, "high": 9.0}), "from low = 2.0"),
        (torch.tensor([1.0, 7.0]), Family("Uniform", {"low": 0.0, "high": 5.0}), "below high = 5.0"),
        (torch.tensor([1.0, 7.0]), Family("Pareto", {"scale": 2.0}), "from scale = 2.0"),
    ],
)
def test_bad_samples(x, family, words):
    with pytest.raises(InputValueError, match=words):
        project(Samples(x), family)


def test_bad_weights_and_shapes():
    x = torch.randn(4)
    with pytest.raises(ShapeError):
        project(Samples(x), "Normal", weights=torch.ones(3))
    with pytest.raises(InputValueError, match="index 2"):
        project(Samples(x), "Normal", weights=torch.tensor([1.0, 1.0, -1.0, 1.0]))
    with pytest.raises(InputValueError, match="zero"):
        project(Samples(x), "Normal", weights=torch.zeros(4))
    with pytest.raises(ShapeError):
        project(Samples(x), "MultivariateNormal")
    with pytest.raises(ShapeError):
        project(Probs(torch.tensor([0.5, 0.5])), "MultivariateNormal")
    with pytest.raises(TypeError):
        project(Probs(torch.tensor([0.5, 0.5])), "Categorical", weights=torch.ones(2))
    with pytest.raises(InputValueError, match="sums to 1"):
        project(Probs(torch.tensor([0.5, 0.6])), "Categorical")


def test_a_limit_that_is_no_member_is_said():
    x = torch.tensor([1.0, 1, 2, 2, 2, 3, 3], dtype=torch.float64)  # less spread than any negative binomial
    with pytest.warns(kb.KullbackWarning, match="did not converge"):
        found = project(Samples(x), "NegativeBinomial")
    assert not found.converged
    assert "grows without end" in str(found)


def test_bad_fixed_parameters():
    with pytest.raises(InputValueError, match="scale=-1"):
        Family("Normal", {"scale": -1.0})
    with pytest.raises(InputValueError, match="no parameter 'rate'"):
        Family("Normal", {"rate": 1.0})


def test_an_end_that_is_no_member_is_said():
    with pytest.warns(kb.KullbackWarning, match="end of its interval"):
        assert not project(Samples(torch.zeros(5)), "ContinuousBernoulli").converged


@pytest.mark.parametrize("width", [1.0, 1.3, 2.0])
def test_kl_of_weighted_samples(width):
    # Importance weights turn draws of N(0, width²) into draws of N(0, 1); KL(N(0, 1) ‖ Laplace) is 0.0484.
    x = draws(D.Normal(0.0, width), 4000)
    w = (D.Normal(0.0, 1.0).log_prob(x) - D.Normal(0.0, width).log_prob(x)).exp()
    found = project(Samples(x), "Laplace", weights=w)
    truth = math.log(2 * math.sqrt(2 / math.pi)) + 1 - 0.5 * math.log(2 * math.pi * math.e)  # scale √(2/π)
    assert found.kl_method == "nearest neighbours"
    assert abs(found.kl.item() - truth) < 4 * found.kl_error.item() < 0.1


def test_kl_of_many_data_sets_and_of_repeated_values():
    x = draws(D.Normal(torch.zeros(100), 1.0), 300)
    many = project(Samples(x), "Laplace")
    torch.testing.assert_close(many.kl[7], project(Samples(x[:, 7]), "Laplace").kl)
    repeated = project(Samples(x[:, 0].round()), "Laplace")
    assert bool(repeated.kl.isnan())
    assert repeated.kl_method.startswith("unknown")


def test_rotations_of_a_covariance_factor_are_not_counted():
    found = project(Samples(draws(D.Normal(torch.zeros(4), 1.0), 200)), Family("LowRankMultivariateNormal", rank=2))
    assert found.num_parameters == 4 + 8 + 4 - 1
    assert bool(found.standard_errors["cov_factor"].isnan().all())
    assert bool(found.standard_errors["loc"].isfinite().all())


def test_booleans_are_numbers():
    assert project(Samples(torch.tensor([True, False, True, True])), "Bernoulli").parameters["probs"] == 0.75


def test_gradient_descent_of_the_tutorial_in_one_step():
    found = project(Probs(torch.tensor([0.36, 0.48, 0.16])), "Categorical")
    assert found.iterations == 0
    assert found.kl < 1e-6
    assert kb.kl(Probs(torch.tensor([0.36, 0.48, 0.16])), Probs(found.distribution.probs)) < 1e-6
