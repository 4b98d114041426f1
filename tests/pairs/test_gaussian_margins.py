"""Gaussians over vectors against independent distributions: against integrals of mpmath, coordinate by coordinate."""

import functools

import mpmath
import pytest
import torch
from torch import distributions as d

import kullback as kb

LOC = torch.tensor([0.3, -0.7], dtype=torch.float64)
COVARIANCE = torch.tensor([[1.3, 0.4], [0.4, 0.6]], dtype=torch.float64)
GAUSSIAN = d.MultivariateNormal(LOC, COVARIANCE)
LOW_RANK = d.LowRankMultivariateNormal(LOC, COVARIANCE[:, :1], COVARIANCE.diagonal())
pair = functools.partial(torch.tensor, dtype=torch.float64)


def log_laplace(x, m, b):
    return -abs(x - m) / b - mpmath.log(2 * b)


def log_gumbel(x, m, b):
    z = (x - m) / b
    return -z - mpmath.exp(-z) - mpmath.log(b)


def log_beta(x, a, b):
    return (a - 1) * mpmath.log(x) + (b - 1) * mpmath.log(1 - x) - mpmath.log(mpmath.beta(a, b))


def log_gamma(x, a, r):
    return (a - 1) * mpmath.log(x) - r * x + a * mpmath.log(r) - mpmath.loggamma(a)


def log_uniform(x, low, high):
    return -mpmath.log(high - low)


def log_log_normal(x, m, s):
    return -(((mpmath.log(x) - m) / s) ** 2) / 2 - mpmath.log(x * s * mpmath.sqrt(2 * mpmath.pi))


# A distribution, its parameters in two dimensions, its logarithm and where mpmath integrates it.
FAMILIES = {
    "laplace": (d.Laplace, ([0.2, -1.0], [0.5, 2.0]), log_laplace, lambda m, b: [m - 90 * b, m, m + 90 * b]),
    "gumbel": (d.Gumbel, ([0.2, -1.0], [0.5, 2.0]), log_gumbel, lambda m, b: [m - 5 * b, m, m + 20 * b, m + 90 * b]),
    "beta": (d.Beta, ([2.0, 3.0], [4.5, 1.5]), log_beta, lambda a, b: [0, 0.5, 1]),
    "gamma": (d.Gamma, ([2.0, 7.0], [1.5, 0.5]), log_gamma, lambda a, r: [0, a / r, 4 * a / r, 130 / r]),
    "uniform": (d.Uniform, ([-1.0, 0.0], [1.0, 3.0]), log_uniform, lambda low, high: [low, high]),
    "log-normal": (d.LogNormal, ([0.0, 0.3], [0.5, 0.25]), log_log_normal, lambda m, s: [0, 1, 3, 10, 400]),
}


def expectation(f, log_density, parameters, nodes):
    return mpmath.quad(lambda x: mpmath.exp(log_density(x, *parameters)) * f(x), nodes)


def truth_before(parameters, log_density, nodes, covariance):
    """Σ E log pᵢ − E log N(μ, Σ)."""
    matrix = mpmath.matrix(covariance.tolist())
    inverse, loc = matrix**-1, [mpmath.mpf(x) for x in LOC.tolist()]
    total = mpmath.log(mpmath.det(2 * mpmath.pi * matrix)) / 2
    means = []
    for i, own in enumerate(zip(*parameters, strict=True)):
        of = functools.partial(expectation, log_density=log_density, parameters=own, nodes=nodes(*own))
        total += of(lambda x, own=own: log_density(x, *own))
        means.append(of(lambda x, i=i: x - loc[i]))
        total += inverse[i, i] * of(lambda x, i=i: (x - loc[i]) ** 2) / 2
    return float(total + inverse[0, 1] * means[0] * means[1])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.sample(3)
def test_independent_distributions_against_a_gaussian(name):
    kind, parameters, log_density, nodes = FAMILIES[name]
    p = d.Independent(kind(*map(pair, parameters)), 1)
    for q, covariance in ((GAUSSIAN, COVARIANCE), (LOW_RANK, LOW_RANK.covariance_matrix)):
        want = truth_before(parameters, log_density, nodes, covariance)
        got = kb.kl_with_error(p, q)
        assert got.value.item() == pytest.approx(want, rel=1e-12)
        assert abs(got.value.item() - want) <= got.error.item()


def log_normal_density(x, m, v):
    return -((x - m) ** 2) / (2 * v) - mpmath.log(2 * mpmath.pi * v) / 2


@pytest.mark.parametrize("name", ["laplace", "gumbel"])
def test_a_gaussian_against_independent_distributions(name):
    kind, parameters, log_density, _ = FAMILIES[name]
    q = d.Independent(kind(*map(pair, parameters)), 1)
    want = -mpmath.log(mpmath.det(2 * mpmath.pi * mpmath.e * mpmath.matrix(COVARIANCE.tolist()))) / 2
    for i, own in enumerate(zip(*parameters, strict=True)):
        m, v = LOC[i].item(), COVARIANCE[i, i].item()
        ends = [m - 15, min(m, own[0]), max(m, own[0]), m + 15]
        want -= expectation(lambda x, own=own: log_density(x, *own), log_normal_density, (m, v), ends)
    assert kb.kl(GAUSSIAN, q).item() == pytest.approx(float(want), rel=1e-12)


def test_batches_gradients_and_other_parameters():
    scale = pair([[0.5, 2.0], [1.0, 1.5], [0.1, 9.0]]).requires_grad_()
    lower = torch.linalg.cholesky(COVARIANCE).requires_grad_()

    def both(scale, lower):
        distributions = d.Independent(d.Laplace(LOC, scale, validate_args=False), 1)
        gaussian = d.MultivariateNormal(LOC, scale_tril=lower, validate_args=False)
        return kb.kl(distributions, gaussian), kb.kl(gaussian, distributions)

    for i, value in enumerate(both(scale, lower)):
        assert value.shape == (3,)
        one_by_one = torch.stack([both(row, lower)[i] for row in scale])
        torch.testing.assert_close(value, one_by_one, rtol=1e-13, atol=0)
    assert torch.autograd.gradcheck(both, (scale, lower))
    mapped = torch.func.vmap(lambda s: both(s, lower)[0])(scale)
    torch.testing.assert_close(mapped, both(scale, lower)[0], rtol=1e-13, atol=0)


def test_mixtures_and_distributions_without_a_variance():
    shares = d.Categorical(pair([[0.25, 0.75], [0.5, 0.5]]))
    mixture = d.MixtureSameFamily(shares, d.Normal(pair([[0.0, 3.0], [1.0, -1.0]]), 1.0))
    alone = d.MultivariateNormal(LOC, torch.diag(COVARIANCE.diagonal()))
    margins = d.Normal(LOC, COVARIANCE.diagonal().sqrt())
    got, want = kb.kl(d.Independent(mixture, 1), alone), kb.kl(mixture, margins).sum()
    torch.testing.assert_close(got, want, rtol=1e-12, atol=0)
    heavy = d.Independent(d.StudentT(pair([2.0, 5.0]).requires_grad_(), LOC), 1)
    value = kb.kl(heavy, GAUSSIAN)
    assert value.item() == float("inf")
    (gradient,) = torch.autograd.grad(value, heavy.base_dist.df)
    assert gradient.isfinite().all()
    assert kb.kl(GAUSSIAN, d.Independent(d.Gamma(LOC.abs(), 1.0), 1)).item() == float("inf")
    assert kb.kl_method(GAUSSIAN, d.Independent(d.Gamma(LOC.abs(), 1.0), 1)) == "infinite"
    with pytest.raises(NotImplementedError):
        kb.kl(d.Independent(d.VonMises(LOC, 1.0), 1), GAUSSIAN)
    with pytest.raises(NotImplementedError):
        kb.hellinger(d.Independent(d.Laplace(LOC, 1.0), 1), GAUSSIAN)


def test_moments_beyond_the_number_range():
    for distribution in (d.LogNormal(pair(0.0), pair([40.0, 1.0])), d.Pareto(pair(1.0), pair([1.5, 3.0]))):
        assert kb.kl(d.Independent(distribution, 1), GAUSSIAN).item() == float("inf")
    distribution = d.Pareto(pair(1.0), pair([2.5, 3.0]))
    joint = d.MultivariateNormal(pair([0.0, 1.0]), 2.25 * torch.eye(2, dtype=torch.float64))
    apart = kb.kl(distribution, d.Normal(pair([0.0, 1.0]), 1.5)).sum()
    torch.testing.assert_close(kb.kl(d.Independent(distribution, 1), joint), apart, rtol=1e-12, atol=0)
