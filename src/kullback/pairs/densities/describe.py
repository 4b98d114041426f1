"""From a torch object to its description."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from torch import distributions as d
from torch.distributions import Distribution
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback.pairs.densities import half_line, interval, line, pareto
from kullback.pairs.densities.law import Law
from kullback.pairs.densities.mixture import describe_mixture
from kullback.pairs.densities.nesting import as_mixture
from kullback.pairs.densities.reading import Given, Lift
from kullback.pairs.densities.transformed import describe_transformed, transformable

_FAMILIES: dict[type[Distribution], Callable[[Given], Law]] = {
    d.Beta: interval.describe_beta,
    d.Cauchy: line.describe_cauchy,
    d.ContinuousBernoulli: interval.describe_continuous_bernoulli,
    d.Exponential: half_line.describe_exponential,
    d.FisherSnedecor: half_line.describe_fisher_snedecor,
    d.Gamma: half_line.describe_gamma,
    d.Gumbel: line.describe_gumbel,
    d.HalfCauchy: half_line.describe_half_cauchy,
    d.HalfNormal: half_line.describe_half_normal,
    d.InverseGamma: half_line.describe_inverse_gamma,
    d.Kumaraswamy: interval.describe_kumaraswamy,
    d.Laplace: line.describe_laplace,
    d.LogNormal: half_line.describe_log_normal,
    LogitRelaxedBernoulli: line.describe_logit_relaxed_bernoulli,
    d.Normal: line.describe_normal,
    d.Pareto: pareto.describe_pareto,
    d.RelaxedBernoulli: interval.describe_relaxed_bernoulli,
    d.StudentT: line.describe_student_t,
    d.Uniform: interval.describe_uniform,
    d.VonMises: interval.describe_von_mises,
    d.Weibull: half_line.describe_weibull,
}
if hasattr(d, "GeneralizedPareto"):  # newer than the oldest torch supported
    _FAMILIES[d.GeneralizedPareto] = pareto.describe_generalized_pareto


def describable(distribution: Distribution) -> bool:
    """Whether `describe` knows the law."""
    mixture = as_mixture(distribution)
    if mixture is not None:
        return describable(mixture.component_distribution)
    if _family(distribution) is not None:
        return True
    return _plainly_transformed(distribution) and describable(distribution.base_dist)


def in_family(distribution: Distribution) -> bool:
    """Whether the law is one of the families above, not made from one."""
    return _family(distribution) is not None


def _plainly_transformed(distribution: Distribution) -> TypeGuard[d.TransformedDistribution]:
    """A TransformedDistribution of numbers."""
    return (
        isinstance(distribution, d.TransformedDistribution)
        and not distribution.event_shape
        and transformable(distribution)
    )


def describe(distribution: Distribution, lift: Lift) -> Law:
    """The law of a distribution, its parameters in the shape that `lift` gives them."""
    return _describe(Given(distribution, lift))


def _describe(given: Given) -> Law:
    if as_mixture(given.distribution) is not None:
        return describe_mixture(given, _describe)
    family = _family(given.distribution)
    return describe_transformed(given, _describe) if family is None else family(given)


def _family(distribution: Distribution) -> Callable[[Given], Law] | None:
    return next((_FAMILIES[t] for t in type(distribution).__mro__ if t in _FAMILIES), None)


def same_family(p: Distribution, q: Distribution) -> bool:
    """Whether one description with other parameters serves both laws."""
    return in_family(p) and _family(p) is _family(q)


def describe_as(distribution: Distribution, given: Given) -> Law:
    """The law of the distribution's family with the parameters that `given` reads."""
    family = _family(distribution)
    assert family is not None
    return family(given)
