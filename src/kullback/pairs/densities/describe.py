"""From a torch object to its description."""

from __future__ import annotations

from collections.abc import Callable

from torch import distributions as d
from torch.distributions import Distribution
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback.pairs.densities import line
from kullback.pairs.densities.law import Law
from kullback.pairs.densities.reading import Given, Lift

_FAMILIES: dict[type[Distribution], Callable[[Given], Law]] = {
    d.Cauchy: line.describe_cauchy,
    d.Gumbel: line.describe_gumbel,
    d.Laplace: line.describe_laplace,
    LogitRelaxedBernoulli: line.describe_logit_relaxed_bernoulli,
    d.Normal: line.describe_normal,
    d.StudentT: line.describe_student_t,
}


def describable(distribution: Distribution) -> bool:
    """Whether `describe` knows the law."""
    return _family(distribution) is not None


def describe(distribution: Distribution, lift: Lift) -> Law:
    """The law of a distribution, its parameters in the shape that `lift` gives them."""
    family = _family(distribution)
    assert family is not None
    return family(Given(distribution, lift))


def _family(distribution: Distribution) -> Callable[[Given], Law] | None:
    return next((_FAMILIES[t] for t in type(distribution).__mro__ if t in _FAMILIES), None)
