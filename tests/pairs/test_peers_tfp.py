"""The divergences that TensorFlow Probability's own tests ask for: their parameters, their formulas, their tolerances.

Where a test there compares with a formula, the formula stands here in numpy or in torch's special functions; where it
gives numbers, the numbers do. A divergence of a law from itself is 0 in all of them.
"""

import math

import pytest
import torch
from torch.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    Cauchy,
    Chi2,
    Dirichlet,
    Exponential,
    ExpTransform,
    Gamma,
    Geometric,
    Gumbel,
    HalfNormal,
    Independent,
    InverseGamma,
    Laplace,
    LogNormal,
    MultivariateNormal,
    Normal,
    OneHotCategorical,
    Pareto,
    Poisson,
    PowerTransform,
    SigmoidTransform,
    TransformedDistribution,
    Uniform,
    VonMises,
    Weibull,
)

from kullback.pairs import kl_divergence

EULER = 0.5772156649015329


def d(x):
    return torch.as_tensor(x, dtype=torch.float64)


def agree(p, q, wanted, rtol=1e-6, atol=0.0):
    value = kl_divergence(p, q)
    torch.testing.assert_close(value, d(wanted).expand(value.shape), rtol=rtol, atol=atol)
    assert bool((kl_divergence(p, p) == 0).all())


def uniform(shape, seed, low=0.0, high=1.0):
    generator = torch.Generator().manual_seed(seed)
    return low + (high - low) * torch.rand(shape, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("shape", [(10,), (4, 5)])
def test_beta(shape):
    a1, b1, a2, b2 = (uniform(shape, seed, 1e-4, 6.0 + 1e-4) for seed in range(4))

    def betaln(a, b):
        return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)

    psi = torch.digamma
    slopes = (a1 - a2) * psi(a1) + (b1 - b2) * psi(b1) + (a2 - a1 + b2 - b1) * psi(a1 + b1)
    agree(Beta(a1, b1), Beta(a2, b2), betaln(a2, b2) - betaln(a1, b1) + slopes, atol=1e-6)


def test_gamma():
    a0, r0, a1, r1 = d([3.0]), d([1, 2, 3, 1.5, 2.5, 3.5]), d([0.4]), d([0.5, 1, 1.5, 2, 2.5, 3])
    wanted = (a0 - a1) * torch.digamma(a0) + torch.lgamma(a1) - torch.lgamma(a0)
    wanted = wanted + a1 * torch.log(r0) - a1 * torch.log(r1) + a0 * (r1 / r0 - 1)
    agree(Gamma(a0, r0), Gamma(a1, r1), wanted)


def test_normal():
    mean, s0 = d([3.0] * 6), d([1, 2, 3, 1.5, 2.5, 3.5])
    other, s1 = d([-3.0] * 6), d([0.5, 1, 1.5, 2, 2.5, 3])
    wanted = (mean - other) ** 2 / (2 * s1**2) + ((s0 / s1) ** 2 - 1 - 2 * torch.log(s0 / s1)) / 2
    agree(Normal(mean, s0), Normal(other, s1), wanted)
    agree(LogNormal(mean, s0), LogNormal(other, s1), wanted)
    agree(Independent(Normal(mean, s0), 1), Independent(Normal(other, s1), 1), wanted.sum())


def test_dirichlet():
    a, b = d([1, 2, 3, 1.5, 2.5, 3.5]), d([0.5, 1, 1.5, 2, 2.5, 3])
    wanted = torch.lgamma(a.sum()) - torch.lgamma(b.sum()) - (torch.lgamma(a) - torch.lgamma(b)).sum()
    agree(Dirichlet(a), Dirichlet(b), wanted + ((a - b) * (torch.digamma(a) - torch.digamma(a.sum()))).sum())


def test_exponential():
    a, b = torch.arange(1.0, 10.0, dtype=torch.float64), d(3.0)
    agree(Exponential(a), Exponential(b), torch.log(a) - torch.log(b) + (b - a) / a, atol=1e-9)


def test_pareto():
    scale, alpha = torch.arange(1.0, 5.0, dtype=torch.float64), torch.arange(2.0, 10.0, 2.0, dtype=torch.float64)
    wanted = alpha * torch.log(scale) - torch.log(alpha) + alpha - 1
    agree(Pareto(scale, d(1.0)), Pareto(d(1.0), alpha), wanted, rtol=1e-14)
    assert kl_divergence(Pareto(d(1.0), d(1.0)), Pareto(d(2.0), d(1.0))).item() == math.inf


def test_weibull():
    wanted = math.log(3 / 2**3) - math.log(6 / 4**6) - 3 * (math.log(2) - EULER / 3) + 0.5**6 * math.gamma(3) - 1
    agree(Weibull(d(2.0), d(3.0)), Weibull(d(4.0), d(6.0)), wanted)


def test_von_mises():
    p = VonMises(d([[0.05, 0.1, 0.2]]), d([[1e-300, 0.3, 0.4]]))
    q = VonMises(d([[0.7, 0.5, 0.3], [0.1, 0.3, 0.5]]), d([[0.8, 1e-300, 0.5]]))
    wanted = [[0.15402061, 0.02212654, 0.00282222], [0.15402061, 0.02212654, 0.00671171]]
    agree(p, q, wanted, atol=1e-6)


def test_gumbel():
    near, far = torch.arange(-2.0, 3.0, dtype=torch.float64), torch.arange(0.5, 2.5, 0.5, dtype=torch.float64)
    m, s = near.reshape(-1, 1, 1, 1), far.reshape(1, -1, 1, 1)
    n, t = 2 * near.reshape(1, 1, -1, 1), far.reshape(1, 1, 1, -1)
    wanted = torch.log(t / s) + EULER * (s / t - 1) + torch.expm1((n - m) / t + torch.lgamma(s / t + 1)) + (m - n) / t
    value = kl_divergence(Gumbel(m, s), Gumbel(n, t))
    assert value.shape == (5, 4, 5, 4)
    torch.testing.assert_close(value, wanted, rtol=1e-9, atol=1e-13)


def test_laplace():
    m, s, n, t = (uniform((6,), seed, 0.1, 2.0) for seed in range(4))
    far = (m - n).abs()
    agree(Laplace(m, s), Laplace(n, t), torch.log(t / s) + far / t - 1 + s / t * torch.exp(-far / s))


def test_cauchy():
    m, s, n, t = (uniform((6,), seed, 0.1, 2.0) for seed in range(4))
    wanted = torch.log((s + t) ** 2 + (m - n) ** 2) - math.log(4) - torch.log(s) - torch.log(t)
    agree(Cauchy(m, s), Cauchy(n, t), wanted)


def test_half_normal():
    s, t = torch.arange(0.5, 1.6, 0.1, dtype=torch.float64).unsqueeze(-1), torch.arange(0.5, 1.6, 0.1).double()
    value = kl_divergence(HalfNormal(s), HalfNormal(t))
    torch.testing.assert_close(value, torch.log(t) - torch.log(s) + (s**2 - t**2) / (2 * t**2), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("family", [Categorical, OneHotCategorical])
def test_categorical(classes, family):
    a, b = (uniform((6, classes), seed, -1.0, 1.0) for seed in (classes, classes + 1))
    log_p, log_q = a.log_softmax(-1), b.log_softmax(-1)
    agree(family(logits=a), family(logits=b), (log_p.exp() * (log_p - log_q)).sum(-1))


def test_discrete_laws():
    a, b = uniform((6,), 0, 0.05, 0.95), uniform((6,), 1, 0.05, 0.95)
    trial = a * torch.log(a / b) + (1 - a) * torch.log((1 - a) / (1 - b))
    agree(Bernoulli(a), Bernoulli(b), trial)
    agree(Geometric(a), Geometric(b), trial / a)
    rate, other = d([1.0, 2.0, 0.5, 3.0]), d([3.0, 1.0, 0.5, 0.25])
    value = kl_divergence(Poisson(rate), Poisson(other))
    torch.testing.assert_close(value, rate * torch.log(rate / other) - rate + other, rtol=1e-6, atol=0)


def test_uniform():
    low, high = d([-1.0, -1.0, 0.0]), d([1.0, 1.0, 0.5])
    agree(Uniform(low, high), Uniform(low - 1, high + 2), torch.log((high - low + 3) / (high - low)))
    assert kl_divergence(Uniform(d(0.0), d(2.0)), Uniform(d(0.0), d(1.0))).item() == math.inf


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)])
def test_multivariate_normal(batch):
    def law(seed):
        lower = uniform((*batch, 3, 3), seed, -1.0, 1.0).tril(-1) + torch.diag_embed(
            uniform((*batch, 3), seed, 0.5, 2.0)
        )
        return uniform((*batch, 3), seed + 9, -1.0, 1.0), lower

    (m, a), (n, b) = law(0), law(1)
    ratio = torch.linalg.solve(b @ b.mT, a @ a.mT)
    shift = torch.linalg.solve_triangular(b, (n - m).unsqueeze(-1), upper=False)
    trace = ratio.diagonal(dim1=-2, dim2=-1).sum(-1)
    wanted = (trace - 3 + shift.square().sum((-2, -1)) - torch.logdet(ratio)) / 2
    agree(MultivariateNormal(m, scale_tril=a), MultivariateNormal(n, scale_tril=b), wanted)


def test_laws_that_are_maps_of_others():
    """Its Chi, ExpGamma, ExpInverseGamma and LogitNormal have the divergence of the law they are made from."""
    a, b, c, e = (uniform((6,), seed, 0.2, 4.0) for seed in range(4))
    half, log = PowerTransform(d(0.5)), ExpTransform().inv
    for p, q, by in (
        (Chi2(a), Chi2(b), half),
        (Gamma(a, b), Gamma(c, e), log),
        (InverseGamma(a, b), InverseGamma(c, e), log),
        (Normal(a, b), Normal(c, e), SigmoidTransform()),
    ):
        value = kl_divergence(*(TransformedDistribution(law, [by]) for law in (p, q)))
        torch.testing.assert_close(value, kl_divergence(p, q), rtol=1e-14, atol=0)


def test_weibull_and_gamma():
    scale, shape, a, b = (uniform((6,), seed, 0.3, 3.0) for seed in range(4))
    log_x = torch.log(scale) - EULER / shape
    entropy = EULER * (1 - 1 / shape) + torch.log(scale / shape) + 1
    mean = scale * torch.exp(torch.lgamma(1 + 1 / shape))
    crossed = torch.lgamma(a) - a * torch.log(b) - (a - 1) * log_x + b * mean
    agree(Weibull(scale, shape), Gamma(a, b), crossed - entropy, rtol=1e-12)
    nu = uniform((6,), 4, 0.3, 3.0)
    value = kl_divergence(Chi2(nu), Gamma(a, b)), kl_divergence(Gamma(a, b), Chi2(nu))
    half = d(0.5)
    wanted = kl_divergence(Gamma(nu / 2, half), Gamma(a, b)), kl_divergence(Gamma(a, b), Gamma(nu / 2, half))
    torch.testing.assert_close(value, wanted, rtol=1e-14, atol=0)
