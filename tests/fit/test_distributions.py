"""Projections of distributions and log-densities: reference optima, directions, derivatives."""

import math

import pytest
import torch
from torch.distributions import (
    Beta,
    Categorical,
    Cauchy,
    ContinuousBernoulli,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
    HalfCauchy,
    Independent,
    InverseGamma,
    Laplace,
    LogNormal,
    MixtureSameFamily,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Pareto,
    Poisson,
    StudentT,
    Uniform,
    Weibull,
)

import kullback as kb
from kullback import InputValueError, ShapeError, project
from kullback.fit import Family

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`")


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def one(value):
    return torch.tensor(value, dtype=torch.float64)


def two_bumps():
    return MixtureSameFamily(Categorical(double(0.5, 0.5)), Normal(double(-2.0, 2.0), double(0.6, 0.6)))


def two_gammas():
    return MixtureSameFamily(Categorical(double(0.5, 0.5)), Gamma(double(2.0, 20.0), double(2.0, 2.0)))


# N(0, 4.36) and the optima at ±1.997 and 0 of ½N(−2, .36) + ½N(2, .36).
def test_forward_two_bumps_matches_moments():
    found = project(two_bumps(), Normal)
    assert found.distribution.loc.item() == pytest.approx(0, abs=1e-12)
    assert found.distribution.variance.item() == pytest.approx(4.36, rel=1e-12)
    assert found.kl.item() == pytest.approx(0.5551555286, abs=1e-10)
    assert found.converged
    assert found.kl_error < 1e-9


def test_reverse_two_bumps_finds_every_optimum_best_first():
    found = project(two_bumps(), "normal", direction="reverse")
    assert [round(each.kl, 8) for each in found.optima] == [0.69183601, 0.69183601, 1.13838188]
    locs = [each.distribution.loc.item() for each in found.optima]
    scales = [each.distribution.scale.item() for each in found.optima]
    assert locs == pytest.approx([-1.997078, 1.997078, 0], abs=1e-6)
    assert scales == pytest.approx([0.604856, 0.604856, 1.790279], abs=1e-6)
    assert found.converged
    assert found.history[0] > found.history[-1]
    assert found.history[-1] == pytest.approx(found.kl.item())
    assert "3 local optima" in str(found)


def test_reverse_is_deterministic():
    first, second = (project(two_bumps(), "Laplace", direction="reverse", seed=3) for _ in range(2))
    assert str(first) == str(second)


@pytest.mark.parametrize(
    ("target", "family", "check"),
    [
        (Gamma(double(2.0), double(1.0)), "LogNormal", {"loc": 0.42278433509846713, "scale": 0.8030778709905582}),
        (LogNormal(double(0.3), double(0.5)), "Exponential", {"rate": math.exp(-0.3 - 0.125)}),
        (Gamma(double(3.0), double(2.0)), "Normal", {"loc": 1.5, "scale": math.sqrt(0.75)}),
        (Uniform(double(-1.0), double(3.0)), "Laplace", {"loc": 1.0, "scale": 1.0}),
        (Beta(double(2.0), double(5.0)), "Uniform", {"low": 0.0, "high": 1.0}),
        (Exponential(double(0.5)), "Gamma", {"concentration": 1.0, "rate": 0.5}),
        (Cauchy(double(1.0), double(2.0)), "StudentT", {"df": 1.0, "loc": 1.0, "scale": 2.0}),
        (Poisson(double(3.5)), "Geometric", {"probs": 1 / 4.5}),
    ],
)
def test_forward_optimum(target, family, check):
    found = project(target, family)
    assert found.converged
    for name, value in check.items():
        assert found.parameters[name].item() == pytest.approx(value, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize(
    ("target", "family"),
    [
        (Gamma(one(2.0), one(1.0)), "Weibull"),
        (StudentT(one(5.0), one(1.0), one(2.0)), "Laplace"),
        (Weibull(one(2.0), one(1.5)), "Gamma"),
        (Beta(one(2.0), one(3.0)), "Kumaraswamy"),
        (Laplace(one(1.0), one(2.0)), "StudentT"),
    ],
)
def test_no_neighbour_is_nearer(target, family, direction):
    found = project(target, family, direction=direction)

    def divergence(parameters):
        q = found.family.construct(parameters)
        return kb.kl(target, q) if direction == "forward" else kb.kl(q, target)

    best = divergence(found.parameters)
    assert found.kl.item() == pytest.approx(best.item(), rel=1e-6, abs=1e-9)
    for name in found.parameters:
        for factor in (0.999, 1.001):
            moved = {**found.parameters, name: found.parameters[name] * factor}
            assert divergence(moved) >= best - 1e-12


def test_batch_of_targets():
    target = Gamma(double(0.5, 2.0, 30.0), double(1.0, 3.0, 0.2))
    found = project(target, "Weibull")
    assert found.distribution.batch_shape == (3,)
    for index in range(3):
        alone = project(Gamma(target.concentration[index], target.rate[index]), "Weibull")
        assert found.parameters["scale"][index].item() == pytest.approx(alone.parameters["scale"].item(), rel=1e-8)
        assert found.kl[index].item() == pytest.approx(alone.kl.item(), rel=1e-7)


def test_mixture_in_two_dimensions_matches_moments():
    means = double([-1.0, 0.0], [1.0, 2.0])
    target = MixtureSameFamily(Categorical(double(0.25, 0.75)), MultivariateNormal(means, torch.eye(2).double()))
    found = project(target, "MultivariateNormal")
    mean = double(0.5, 1.5)
    gap = means - mean
    covariance = torch.eye(2).double() + 0.25 * gap[0].outer(gap[0]) + 0.75 * gap[1].outer(gap[1])
    torch.testing.assert_close(found.distribution.mean, mean)
    torch.testing.assert_close(found.distribution.covariance_matrix, covariance)
    narrow = project(target, "MultivariateNormal", direction="reverse")
    assert narrow.kl < 2 * math.log(2)
    assert len(narrow.optima) >= 1


def test_diagonal_and_low_rank_normals():
    torch.manual_seed(0)
    factor = torch.randn(4, 1, dtype=torch.float64)
    covariance = factor @ factor.mT + torch.diag(double(0.5, 1.0, 1.5, 2.0))
    target = MultivariateNormal(torch.zeros(4).double(), covariance)
    diagonal = project(target, "DiagonalNormal")
    torch.testing.assert_close(diagonal.parameters["scale"], covariance.diagonal().sqrt())
    low_rank = project(target, Family("LowRankMultivariateNormal", rank=1))
    assert low_rank.kl.item() == pytest.approx(0, abs=1e-9)
    # KL(q ‖ p) of a diagonal normal: the precisions' diagonal.
    narrow = project(target, "DiagonalNormal", direction="reverse")
    torch.testing.assert_close(narrow.parameters["scale"], covariance.inverse().diagonal().rsqrt(), rtol=1e-6, atol=0)


def test_log_density_with_its_constant():
    found = project(lambda x: 3.0 - (x - 1.0) ** 2 / 8, "Normal", direction="reverse")
    assert found.parameters["loc"].item() == pytest.approx(1.0)
    assert found.parameters["scale"].item() == pytest.approx(2.0)
    assert found.kl.item() == pytest.approx(0.0, abs=1e-8)
    assert found.log_normalizer == pytest.approx(3.0 + math.log(2 * math.sqrt(2 * math.pi)), abs=1e-9)
    assert found.log_normalizer_error < 1e-6


def test_log_density_over_half_line():
    found = project(lambda x: 2 * x.log() - 3 * x, "Gamma", direction="reverse")
    assert found.parameters["concentration"].item() == pytest.approx(3.0)
    assert found.parameters["rate"].item() == pytest.approx(3.0)
    assert found.log_normalizer == pytest.approx(math.lgamma(3) - 3 * math.log(3), abs=1e-9)


def test_log_density_in_two_dimensions():
    precision = double([2.0, 0.6], [0.6, 1.0])
    found = project(lambda x: -0.5 * (x @ precision * x).sum(-1), "MultivariateNormal", direction="reverse", dim=2)
    torch.testing.assert_close(found.distribution.covariance_matrix, precision.inverse())
    truth = math.log(2 * math.pi) - 0.5 * precision.logdet().item()
    assert abs(found.log_normalizer - truth) < 5 * found.log_normalizer_error


def test_ranking_by_divergence():
    ranking = project(Gamma(double(2.0), double(1.0)), ["Exponential", "Weibull", "Gamma", "Beta"])
    assert [str(each.family) for each in ranking] == ["Gamma", "Weibull", "Exponential"]
    assert ranking.best.kl < 1e-12
    assert "Beta" in ranking.failures
    assert "Weibull" in str(ranking)


@pytest.mark.parametrize("family", ["Normal", "Weibull", "LogNormal", "StudentT"])
def test_derivatives_go_through_the_optimum(family):
    def parameters(concentration):
        found = project(Gamma(concentration, double(1.0)[0]), family)
        return torch.stack(list(found.parameters.values()))

    concentration = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    value = parameters(concentration)
    gradient = torch.stack([torch.autograd.grad(each, concentration, retain_graph=True)[0] for each in value])
    h = 1e-4
    with torch.no_grad():
        numeric = (parameters(concentration + h) - parameters(concentration - h)) / (2 * h)
    torch.testing.assert_close(gradient, numeric, rtol=1e-4, atol=1e-6)


def test_reverse_derivatives():
    def place(gap):
        mixture = MixtureSameFamily(Categorical(double(0.3, 0.7)), Normal(torch.stack([-gap, gap]), double(0.6, 0.6)))
        return project(mixture, Normal, direction="reverse", restarts=4).distribution.loc

    gap = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(place(gap), gap)
    with torch.no_grad():
        numeric = (place(gap + 1e-4) - place(gap - 1e-4)) / 2e-4
    assert gradient.item() == pytest.approx(numeric.item(), rel=1e-5)


def test_single_precision_stays():
    found = project(Gamma(2.0, 1.0), "LogNormal")
    assert found.distribution.loc.dtype == torch.float32
    assert found.kl.dtype == torch.float32
    assert found.parameters["loc"].item() == pytest.approx(0.422784, rel=1e-5)


@pytest.mark.parametrize(
    ("target", "family", "direction", "words"),
    [
        (Cauchy(0.0, 1.0), "Normal", "forward", "no finite mean"),
        (StudentT(1.5), "Normal", "forward", "no finite variance"),
        (HalfCauchy(1.0), "Gamma", "forward", "not finite|infinite"),
        (Normal(0.0, 1.0), "Gamma", "forward", "infinite for every Gamma"),
        (Normal(0.0, 1.0), "Uniform", "forward", "infinite for every Uniform"),
        (Gamma(2.0, 1.0), "Normal", "reverse", "mass where the target has none"),
        (lambda x: x * math.nan, "Normal", "reverse", "nan"),
        (lambda x: x**2, "Normal", "forward", "forward direction"),
        (lambda x: x * 0 - math.inf, "Normal", "reverse", "-inf"),
        (kb.Samples(torch.randn(9)), "Normal", "reverse", "maximum likelihood"),
        (Normal(math.nan, 1.0, validate_args=False), "Normal", "forward", "NaN"),
        (Normal(0.0, 1.0), "Cauchy", "reverse", "tails are too heavy"),
        (Dirichlet(torch.ones(3)), "MultivariateNormal", "forward", "sum to 1"),
        (Dirichlet(torch.ones(3)), "DiagonalNormal", "reverse", "sum to 1"),
        (MultivariateNormal(torch.zeros(3), torch.eye(3)), "Dirichlet", "forward", "infinite for every Dirichlet"),
        (Exponential(1.0), "Pareto", "forward", "down to 0"),
        (lambda x: 0 * x, "Normal", "reverse", "no finite integral"),
        (lambda x: x**2, "Normal", "reverse", "no finite integral"),
        (lambda k: 0 * k, "Poisson", "reverse", "no finite integral"),
        (lambda x: -((x - 1e4) ** 2) * 5000, "Normal", "reverse", "start="),
    ],
)
def test_bad_targets(target, family, direction, words):
    with pytest.raises(InputValueError, match=words):
        project(target, family, direction=direction)


# KL at the optimum and one parameter, from SciPy: quadrature in the quantiles and Nelder–Mead from six starts.
OPTIMA = [
    (StudentT(one(7.0), one(0.5), one(1.3)), "Normal", "reverse", 0.01033446418, ("scale", 1.46133)),
    (StudentT(one(3.0), one(0.0), one(2.0)), "Cauchy", "forward", 0.08086566353, ("scale", 1.43488)),
    (StudentT(one(3.0), one(0.0), one(2.0)), "Cauchy", "reverse", 0.1698990368, ("scale", 1.1547)),
    (LogNormal(one(1.0), one(0.9)), "Gamma", "reverse", 0.0525479602, ("rate", 0.484495)),
    (FisherSnedecor(one(6.0), one(9.0)), "LogNormal", "reverse", 0.002826157634, ("loc", -0.0560136)),
    (LogNormal(one(0.2), one(1.0)), "FisherSnedecor", "forward", 0.01013115472, ("df2", 3.74157)),
    (Beta(one(0.5), one(3.0)), "Kumaraswamy", "forward", 0.00170106076015, ("concentration0", 2.56507)),
    (ContinuousBernoulli(one(0.15)), "Beta", "reverse", 0.008306256352, ("concentration1", 0.853865)),
    (Beta(one(2.5), one(4.0)), "ContinuousBernoulli", "forward", 0.2599042542, ("probs", 0.19291)),
    (NegativeBinomial(one(3.0), one(0.6)), "Poisson", "reverse", 0.1458376538, ("rate", 4.06747)),
    (NegativeBinomial(one(3.0), one(0.6)), "Geometric", "reverse", 0.1589686238, ("probs", 0.192645)),
    (Poisson(one(4.5)), Family("Binomial", {"total_count": 20}), "reverse", 0.01510575257, ("probs", 0.223356)),
    (Pareto(one(1.0), one(2.5)), "LogNormal", "forward", 0.4189385332, ("scale", 0.4)),
    (HalfCauchy(one(2.0)), "LogNormal", "forward", 0.03264417208, ("scale", 1.5708)),
    (InverseGamma(one(3.0), one(2.0)), "Weibull", "reverse", 0.2339981055, ("scale", 0.959587)),
    (two_gammas(), "LogNormal", "forward", 0.5264427312, ("loc", 1.00351)),
]


@pytest.mark.parametrize(("target", "family", "direction", "divergence", "parameter"), OPTIMA)
def test_optimum_that_scipy_finds(target, family, direction, divergence, parameter):
    found = project(target, family, direction=direction)
    assert found.kl.item() == pytest.approx(divergence, rel=1e-6, abs=1e-8)
    name, value = parameter
    assert found.parameters[name].item() == pytest.approx(value, rel=1e-4)


def test_probabilities_of_classes_in_both_directions():
    p = double(0.2, 0.3, 0.5)
    family = Family("Binomial", {"total_count": 2})
    grid = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    q = torch.stack([(1 - grid) ** 2, 2 * grid * (1 - grid), grid**2], dim=-1)
    for direction, values in (
        ("forward", (p * (p / q).log()).sum(-1)),
        ("reverse", (q * (q / p).log()).sum(-1)),
    ):
        found = project(kb.Probs(p), family, direction=direction)
        assert found.parameters["probs"].item() == pytest.approx(grid[values.argmin()].item(), abs=1e-3)
        assert found.kl <= values.min() + 1e-12
    assert project(Categorical(p), "Poisson").parameters["rate"].item() == pytest.approx(1.3)


def test_log_density_on_the_circle():
    found = project(lambda x: 2 * torch.cos(x - 1), "VonMises", direction="reverse")
    assert found.parameters["loc"].item() == pytest.approx(1.0)
    assert found.parameters["concentration"].item() == pytest.approx(2.0)
    assert found.log_normalizer == pytest.approx(math.log(2 * math.pi * torch.special.i0(one(2.0)).item()), abs=1e-8)


def test_families_without_densities_of_torch():
    found = project(torch.distributions.LKJCholesky(3, one(2.0)), "LKJCholesky", direction="reverse")
    assert found.parameters["concentration"].item() == pytest.approx(2.0)
    with pytest.raises(kb.NoRouteError):
        project(lambda x: x.log().sum(-1), "Dirichlet", direction="reverse", dim=3)


def test_bad_shapes():
    with pytest.raises(ShapeError):
        project(Normal(0.0, 1.0), "MultivariateNormal")
    with pytest.raises(ShapeError):
        project(Dirichlet(torch.ones(3)), "Normal", direction="reverse")
    with pytest.raises(ShapeError):
        project(Normal(torch.zeros(2), 1.0), "Normal", direction="reverse")
    with pytest.raises(InputValueError, match="dim="):
        project(lambda x: -(x**2).sum(-1), "MultivariateNormal", direction="reverse")
    with pytest.raises(ShapeError, match="one number per point"):
        project(lambda x: -(x**2), "MultivariateNormal", direction="reverse", dim=2)


def test_bad_options():
    for bad in ({"direction": "sideways"}, {"restarts": 0}, {"seed": -1}, {"criterion": "dic"}):
        with pytest.raises(InputValueError):
            project(Normal(0.0, 1.0), "Normal", **bad)
    with pytest.raises(InputValueError, match="'Normal'"):
        project(Normal(0.0, 1.0), "Norml")
    with pytest.raises(TypeError, match="class"):
        project(Normal(0.0, 1.0), Normal(0.0, 1.0))
    with pytest.raises(TypeError, match="Samples"):
        project(torch.randn(3), Normal)


def test_never_silent_about_missing_convergence():
    with pytest.warns(kb.KullbackWarning, match="max_iterations"):
        found = project(two_bumps(), "StudentT", direction="reverse", max_iterations=1, restarts=2)
    assert not found.converged
    assert found.warnings
    assert "NOT CONVERGED" in str(found)


def test_independent_laplace_target_by_moments():
    target = Independent(Laplace(torch.zeros(2).double(), double(1.0, 2.0)), 1)
    found = project(target, "MultivariateNormal")
    torch.testing.assert_close(found.distribution.covariance_matrix, torch.diag(double(2.0, 8.0)))


def test_picture():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    figure = project(two_bumps(), Normal).plot()
    assert len(figure.axes[0].lines) == 2
    pyplot.close(figure)
