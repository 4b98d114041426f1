"""Every univariate and multivariate family of torch.distributions, with one example each.

The examples are what `coverage()` and the table of pairs ask about; their parameters are typical and distinct.
"""

from __future__ import annotations

import functools

import torch
from torch import distributions as d
from torch.distributions import Distribution


@functools.cache
def examples() -> dict[type[Distribution], Distribution]:
    """One instance of each family, by class; they stay, so that where tensors are made meanwhile must not matter."""
    with torch.device("cpu"):
        return _examples()


def _examples() -> dict[type[Distribution], Distribution]:
    t = functools.partial(torch.tensor, dtype=torch.float32)  # the examples do not depend on torch's default dtype
    three, zeros = t([0.2, 0.5, 0.3]), t([0.0, 0.0, 0.0])
    instances: list[Distribution] = [
        d.Bernoulli(t(0.3)),
        d.Beta(t(2.0), t(3.0)),
        d.Binomial(5, t(0.3)),
        d.Categorical(three),
        d.Cauchy(t(0.0), t(1.0)),
        d.Chi2(t(3.0)),
        d.ContinuousBernoulli(t(0.3)),
        d.Dirichlet(t([2.0, 3.0, 1.5])),
        d.Exponential(t(1.5)),
        d.FisherSnedecor(t(5.0), t(7.0)),
        d.Gamma(t(2.0), t(1.5)),
        d.Geometric(t(0.4)),
        d.Gumbel(t(0.5), t(1.2)),
        d.HalfCauchy(t(1.0)),
        d.HalfNormal(t(1.0)),
        d.InverseGamma(t(3.0), t(2.0)),
        d.Kumaraswamy(t(2.0), t(3.0)),
        d.LKJCholesky(3, t(1.5)),
        d.Laplace(t(0.0), t(1.0)),
        d.LogNormal(t(0.0), t(0.5)),
        d.LogisticNormal(t([0.0, 0.5]), t([1.0, 1.0])),
        d.LowRankMultivariateNormal(zeros, torch.ones_like(zeros).unsqueeze(-1), torch.ones_like(zeros)),
        d.Multinomial(4, three),
        d.MultivariateNormal(zeros, torch.eye(3, dtype=torch.float32)),
        d.NegativeBinomial(t(3.0), t(0.4)),
        d.Normal(t(0.0), t(1.0)),
        d.OneHotCategorical(three),
        d.OneHotCategoricalStraightThrough(three),
        d.Pareto(t(1.0), t(3.0)),
        d.Poisson(t(2.0)),
        d.RelaxedBernoulli(t(0.5), t(0.3)),
        d.RelaxedOneHotCategorical(t(0.5), three),
        d.StudentT(t(4.0), t(0.0), t(1.0)),
        d.Uniform(t(0.0), t(1.0)),
        d.VonMises(t(0.0), t(2.0)),
        d.Weibull(t(1.0), t(1.5)),
        d.Wishart(t(4.0), torch.eye(3, dtype=torch.float32)),
    ]
    if hasattr(d, "GeneralizedPareto"):  # newer than the oldest torch supported
        instances.append(d.GeneralizedPareto(t(0.0), t(1.0), t(0.2)))  # type: ignore[no-untyped-call]
    return {type(instance): instance for instance in sorted(instances, key=lambda i: type(i).__name__)}
