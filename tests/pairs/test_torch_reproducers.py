"""Calls that torch 2.15 answers wrongly, each with the true value: one row per call."""

import math

import pytest
import torch
from torch.distributions import (
    AffineTransform,
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Cauchy,
    ComposeTransform,
    ContinuousBernoulli,
    CumulativeDistributionTransform,
    Dirichlet,
    Exponential,
    ExpTransform,
    Gamma,
    Geometric,
    Gumbel,
    HalfCauchy,
    Independent,
    Laplace,
    LKJCholesky,
    LogNormal,
    LowRankMultivariateNormal,
    Normal,
    Pareto,
    Poisson,
    TransformedDistribution,
    Uniform,
    Wishart,
)

import kullback
from kullback.pairs import kl_divergence
from kullback.pairs.parameters import tensors_of

inf = math.inf


@pytest.fixture(scope="module")
def installed():
    """torch's own function, answered by kullback."""
    kullback.install_into_torch()
    yield torch.distributions.kl_divergence
    kullback.uninstall_from_torch()


def t(value):
    return torch.tensor(value, dtype=torch.float32)


def d(value):
    return torch.tensor(value, dtype=torch.float64)


def eye():
    return torch.eye(2, dtype=torch.float64)


def spike(size, diagonal, make):
    return LowRankMultivariateNormal(make([0.0] * 3), make([[size]] * 3), make([diagonal] * 3))


VALUES = [
    (1, lambda: (ContinuousBernoulli(d(0.3)), Uniform(d(0.0), d(1.0))), 0.029386202),
    (2, lambda: (Uniform(d(0.0), d(1.0)), ContinuousBernoulli(d(0.3))), 0.029736123),
    (
        3,
        lambda: (Wishart(d([3.0, 4.0, 5.0]), eye()), Wishart(d([6.0, 5.0, 4.0]), eye())),
        [1.9097008, 0.17582795, 0.15750538],
    ),
    (4, lambda: (Wishart(d(3.0), eye()).expand([3]), Wishart(d(6.0), eye()).expand([3])), [1.9097008] * 3),
    (6, lambda: (Bernoulli(torch.full((32, 10), 0.3)), Bernoulli(torch.full((10,), 0.5))), [[0.08228288] * 10] * 32),
    (7, lambda: (Bernoulli(torch.full((2, 2), 0.5)), Bernoulli(t([0.0, 0.5]))), [[inf, 0.0]] * 2),
    (8, lambda: (Beta(torch.ones(2, 2), torch.ones(2, 2)), Uniform(t([0.0, 0.5]), t([1.0, 1.0]))), [[0.0, inf]] * 2),
    (9, lambda: (Pareto(t([1.0, 1.0]), t([0.5, 3.0])), Exponential(torch.ones(2, 2))), [[inf, 1.2652790]] * 2),
    (13, lambda: (Normal(0.0, 1.0), Uniform(torch.zeros(3), torch.ones(3))), [inf] * 3),
    (14, lambda: (Binomial(5, d(0.3)), Binomial(10, d(0.3))), 0.62127647),
    (15, lambda: (Binomial(10, d(1.0)), Binomial(10, d(1.0))), 0.0),
    (16, lambda: (Binomial(10, d(1.0)), Binomial(10, d(0.9))), 1.0536052),
    (17, lambda: (Binomial(10, d(0.1)), Binomial(10, d(0.0))), inf),
    (18, lambda: (Poisson(d(0.0)), Poisson(d(1.0))), 1.0),
    (19, lambda: (Poisson(d(0.0)), Bernoulli(d(0.1))), 0.10536052),
    (20, lambda: (Geometric(d(1.0)), Geometric(d(1.0))), 0.0),
    (21, lambda: (Bernoulli(t(0.5)), Bernoulli(logits=t(20.0))), 9.3068528),
    (22, lambda: (Bernoulli(d(0.5)), Bernoulli(logits=d(40.0))), 19.306853),
    (23, lambda: (Categorical(logits=t([0.0, 0.0])), Categorical(logits=t([0.0, -110.0]))), 54.306853),
    (24, lambda: (Bernoulli(t(0.5)), Bernoulli(t(1e-30))), 33.845629),
    (25, lambda: (Categorical(d([0.2, 0.3, 0.5])), Categorical(d([1e-30, 0.5, 0.5]))), 13.340375),
    (26, lambda: (Binomial(10, logits=d(40.0)), Binomial(10, logits=d(20.0))), 2.0611535e-8),
    (27, lambda: (Geometric(logits=d(40.0)), Geometric(logits=d(40.0))), 0.0),
    (28, lambda: (ContinuousBernoulli(logits=d(40.0)), ContinuousBernoulli(logits=d(800.0))), 16.004268),
    (29, lambda: (ContinuousBernoulli(logits=d(-20.0)), ContinuousBernoulli(logits=d(-100.0))), 2.3905619),
    (30, lambda: (ContinuousBernoulli(t(0.499)), ContinuousBernoulli(t(0.49))), 5.4015143e-5),
    (31, lambda: (Normal(t(0.0), t(1e-25)), Normal(t(0.0), t(1.0))), 57.064627),
    (32, lambda: (Cauchy(t(0.0), t(1e20)), Cauchy(t(0.0), t(2e20))), 0.11778304),
    (33, lambda: (HalfCauchy(t(1e-25)), HalfCauchy(t(1e-25))), 0.0),
    (34, lambda: (Uniform(d(0.0), d(1.0)), Gumbel(d(1000.0), d(1.0))), inf),
    (35, lambda: (Gamma(d(1e3), d(1.0)), Gumbel(d(1000.0), d(1.0))), 1.8385957e133),
    (36, lambda: (Uniform(d(1e4), d(1e4 + 1)), Pareto(d(2.0), d(2000.0))), 17036.096),
    (37, lambda: (Laplace(t(1e4), t(1.0)), Normal(t(10001.0), t(1.0))), 0.72579135),
    (38, lambda: (Normal(t(1e8), t(2.0)), Gumbel(t(1e8), t(2.0))), 0.22978274),
    (39, lambda: (Uniform(t(1e8), t(1e8 + 16)), Pareto(t(1.0), t(3.0))), 69.811522),
    (40, lambda: (Uniform(d(0.0), d(1e-10)), Beta(d(2.0), d(1e9))), 5.6551702),
    (41, lambda: (Beta(t(1e6), t(1e6)), Beta(t(1.1e6), t(1.1e6))), 0.0023449112),
    (42, lambda: (Gamma(t(1e6), t(1e6)), Gamma(t(1.01e6), t(1.01e6))), 2.4834582e-5),
    (43, lambda: (Dirichlet(t([1e6, 1e6, 1e6])), Dirichlet(t([1e6, 1e6, 1.001e6]))), 0.33318549),
    (44, lambda: (Beta(d(1e12), d(1e12)), Beta(d(1.001e12), d(1.001e12))), 2.4983346e-7),
    (45, lambda: (Poisson(t(1e6)), Poisson(t(1.0001e6))), 0.0049996667),
    (46, lambda: (spike(1e4, 1.0, t), spike(1e4, 1.0, t)), 0.0),
    (47, lambda: (spike(1e6, 1.0, d), spike(1e6, 1.01, d)), 4.9340754e-5),
    (48, lambda: (Normal(t(0.0), t(1.0)), Normal(t(2e-4), t(1.0))), 1.9999999e-8),
    (49, lambda: (Normal(d(0.0), d(1.0)), Normal(d(1e-8), d(1.0))), 5.0e-17),
    (50, lambda: (Exponential(d(1.0)), Exponential(d(1 + 1e-8))), 4.9999999e-17),
    (51, lambda: (Categorical(t([0.5, 0.3, 0.2])), Categorical(t([0.5001, 0.2999, 0.2]))), 2.6677889e-8),
    (52, lambda: (Geometric(logits=d(20.0)), Geometric(logits=d(20.0))), 0.0),
    ("Bernoulli ±200", lambda: (Bernoulli(logits=t(200.0)), Bernoulli(logits=t(-200.0))), 200.0),
    ("Geometric 1e-6", lambda: (Geometric(t(1e-6)), Geometric(t(1.1e-6))), 0.0046897),
    ("Poisson 0", lambda: (Poisson(t(0.0)), Poisson(t(2.0))), 2.0),
    ("Gamma 1e6", lambda: (Gamma(t(1e6), t(1.0)), Gamma(t(1.001e6), t(1.0))), 0.4998334),
    ("Dirichlet 1e5", lambda: (Dirichlet(t([1e5, 1e5])), Dirichlet(t([1.01e5, 1e5]))), 2.4876),
    ("ContinuousBernoulli ½", lambda: (ContinuousBernoulli(t(0.5)), ContinuousBernoulli(t(0.5001))), 6.667e-9),
]
GRADIENTS = [
    (5, lambda n: (Wishart(n, eye()), Wishart(d(6.0), eye())), d(4.0), -0.78986813),
    (
        53,
        lambda x: (Categorical(logits=x), Categorical(logits=d([0.0, 1.0, 2.0]))),
        d([-inf, 0.0, 0.0]),
        [0.0, 0.25, -0.25],
    ),
    (54, lambda x: (Bernoulli(t(0.5)), Bernoulli(logits=x)), t(20.0), 0.5),
    (55, lambda x: (Bernoulli(t(0.5)), Bernoulli(probs=x)), t(1e-8), -50000000.0),
    (56, lambda x: (ContinuousBernoulli(x), Uniform(d(0.0), d(1.0))), d(0.3), -0.32449552),
    (57, lambda x: (Normal(t(0.0), x), Normal(t(0.0), t(1.0))), t(1e-25), -9.9999998e24),
    (58, lambda x: (Geometric(logits=d(-2.0)), Geometric(logits=x)), d(40.0), 7.3890561),
    (59, lambda x: (Binomial(10, logits=d(0.0)), Binomial(10, logits=x)), d(40.0), 5.0),
]
# Truths are given to as many digits as the report they come from prints.
COARSE = {"Geometric 1e-6": 3e-3, "Gamma 1e6": 1e-4, "Dirichlet 1e5": 1e-4, "ContinuousBernoulli ½": 1e-3, 51: 2e-3}


def judge(name, got, wanted):
    wanted = torch.as_tensor(wanted, dtype=torch.float64)
    assert got.shape == wanted.shape
    torch.testing.assert_close(got.double(), wanted, rtol=COARSE.get(name, 2e-7), atol=0)


@pytest.mark.parametrize(("name", "make", "wanted"), VALUES, ids=[str(row[0]) for row in VALUES])
def test_value(name, make, wanted, installed):
    pair = make()
    leaves = [x for p in pair for x in tensors_of(p) if x.is_floating_point() and x is not getattr(p, "total_count", 0)]
    for leaf in leaves:
        leaf.requires_grad_()
    value = kl_divergence(*pair)
    judge(name, value.detach(), wanted)
    assert torch.equal(installed(*make()), value)
    slopes = torch.autograd.grad(value.sum(), leaves, allow_unused=True)
    assert all(slope is None or bool(slope.isfinite().all()) for slope in slopes)


@pytest.mark.parametrize(("name", "make", "at", "wanted"), GRADIENTS, ids=[str(row[0]) for row in GRADIENTS])
def test_gradient(name, make, at, wanted, installed):
    for function in (kl_divergence, installed):
        leaf = at.clone().requires_grad_()
        function(*make(leaf)).sum().backward()
        judge(name, leaf.grad, wanted)


def mapped(distribution, *maps):
    return TransformedDistribution(distribution, list(maps))


# One distribution written in two forms, or structures that torch has no rule for.
STRUCTURES = [
    (
        "composed",
        lambda n, m: (
            mapped(n, ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)])),
            mapped(m, ExpTransform(), AffineTransform(1.0, 2.0)),
        ),
    ),
    (
        "nested maps",
        lambda n, m: (
            mapped(mapped(n, ExpTransform()), AffineTransform(1.0, 2.0)),
            mapped(m, ExpTransform(), AffineTransform(1.0, 2.0)),
        ),
    ),
    ("a named map", lambda n, m: (LogNormal(n.loc, n.scale), mapped(m, ExpTransform()))),
    (
        "a map without ==",
        lambda n, m: [mapped(base, CumulativeDistributionTransform(Normal(0.0, 1.0))) for base in (n, m)],
    ),
    (
        "affine",
        lambda n, m: (
            mapped(Normal(-0.5, 0.5), AffineTransform(1.0, 2.0)),
            mapped(Normal(0.0, 1.0), AffineTransform(1.0, 2.0)),
        ),
    ),
    ("affine and plain", lambda n, m: (mapped(n, AffineTransform(0.0, 1.0)), m)),
    ("plain and affine", lambda n, m: (n, mapped(Normal(0.0, 1.0), AffineTransform(torch.tensor(1.0), 2.0)))),
    ("no dimensions", lambda n, m: (Independent(n, 0), m)),
]


@pytest.mark.parametrize(("name", "make"), STRUCTURES, ids=[row[0] for row in STRUCTURES])
def test_structure(name, make, installed):
    """Section 4, numbers 6 and 7: N(0, 1) ‖ N(1, 2), 0.4431, in other words."""
    p, q = make(Normal(0.0, 1.0), Normal(1.0, 2.0))
    judge(name, kl_divergence(p, q), math.log(2) + 2 / 8 - 0.5)
    judge(name, installed(p, q), math.log(2) + 2 / 8 - 0.5)


def test_elements_that_torch_refuses_leave_the_others_alone():
    """Number 11 of section 4, and the support rules of section 2.4 with counts."""
    judge(
        "counts", kl_divergence(Binomial(t([5.0, 10.0]), t(0.3)), Binomial(t([10.0, 5.0]), t(0.3))), [0.62127647, inf]
    )
    judge("no success", kl_divergence(Binomial(10, d(0.0)), Binomial(5, d(0.3))), -5 * math.log(0.7))
    judge("no event", kl_divergence(Poisson(d(0.0)), Binomial(5, d(0.3))), -5 * math.log(0.7))
    judge("lkj", kl_divergence(LKJCholesky(3, d(1.0)), LKJCholesky(3, d(2.0))), math.log(1.5))
