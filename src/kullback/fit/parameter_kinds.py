"""The free parameters of each family and the kind of each: where it lives on ℝᵏ. `families.py` calls it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch.distributions import Distribution, constraints

from kullback._core.errors import InputValueError, explain_problem

# Free parameters and the kind of each; parameters that a fit cannot choose (sizes and numbers of trials) are "fixed".
PARAMETERS: dict[str, dict[str, str]] = {
    "Bernoulli": {"probs": "unit"},
    "Beta": {"concentration1": "positive", "concentration0": "positive"},
    "Binomial": {"total_count": "fixed", "probs": "unit"},
    "Categorical": {"probs": "simplex"},
    "Cauchy": {"loc": "real", "scale": "positive"},
    "Chi2": {"df": "positive"},
    "ContinuousBernoulli": {"probs": "unit"},
    "DiagonalNormal": {"loc": "vector", "scale": "positive_vector"},
    "Dirichlet": {"concentration": "positive_vector"},
    "Exponential": {"rate": "positive"},
    "FisherSnedecor": {"df1": "positive", "df2": "positive"},
    "Gamma": {"concentration": "positive", "rate": "positive"},
    "GeneralizedPareto": {"loc": "real", "scale": "positive", "concentration": "real"},
    "Geometric": {"probs": "unit"},
    "Gumbel": {"loc": "real", "scale": "positive"},
    "HalfCauchy": {"scale": "positive"},
    "HalfNormal": {"scale": "positive"},
    "InverseGamma": {"concentration": "positive", "rate": "positive"},
    "Kumaraswamy": {"concentration1": "positive", "concentration0": "positive"},
    "LKJCholesky": {"dim": "fixed", "concentration": "positive"},
    "Laplace": {"loc": "real", "scale": "positive"},
    "LogNormal": {"loc": "real", "scale": "positive"},
    "LogisticNormal": {"loc": "vector", "scale": "positive_vector"},
    "LowRankMultivariateNormal": {"loc": "vector", "cov_factor": "factor", "cov_diag": "positive_vector"},
    "Multinomial": {"total_count": "fixed", "probs": "simplex"},
    "MultivariateNormal": {"loc": "vector", "scale_tril": "cholesky"},
    "NegativeBinomial": {"total_count": "positive", "probs": "unit"},
    "Normal": {"loc": "real", "scale": "positive"},
    "OneHotCategorical": {"probs": "simplex"},
    "OneHotCategoricalStraightThrough": {"probs": "simplex"},
    "Pareto": {"scale": "positive", "alpha": "positive"},
    "Poisson": {"rate": "positive"},
    "RelaxedBernoulli": {"temperature": "positive", "probs": "unit"},
    "RelaxedOneHotCategorical": {"temperature": "positive", "probs": "simplex"},
    "StudentT": {"df": "positive", "loc": "real", "scale": "positive"},
    "Uniform": {"low": "real", "high": "after_low"},
    "VonMises": {"loc": "real", "concentration": "positive"},
    "Weibull": {"scale": "positive", "concentration": "positive"},
    "Wishart": {"df": "above", "scale_tril": "cholesky"},
}
# A Student t with infinitely many degrees of freedom is normal, a negative binomial with infinite count a Poisson.


def kinds_of_class(cls: type[Distribution]) -> dict[str, str]:
    """Free parameters of a class that this file does not list, from its constructor and `arg_constraints`."""
    known: Any = getattr(cls, "arg_constraints", {})  # a property of some classes
    known = known if isinstance(known, Mapping) else {}
    arguments = inspect.signature(cls.__init__).parameters
    kinds: dict[str, str] = {}
    for name in arguments:
        if name not in known or (name == "logits" and "probs" in kinds):
            continue
        kinds[name] = _kind_of_constraint(known[name])
    if not kinds:
        raise InputValueError(
            explain_problem(
                f"{cls.__name__} does not say what its parameters are.",
                expected="a class whose arg_constraints name the arguments of its constructor",
                instead=f"{cls.__name__}.arg_constraints = {{'loc': constraints.real, 'scale': constraints.positive}}",
            )
        )
    return kinds


def _kind_of_constraint(constraint: Any) -> str:
    bound = getattr(constraint, "lower_bound", None)
    if constraint is constraints.real:
        return "real"
    if bound == 0 and not hasattr(constraint, "upper_bound"):
        return "positive"
    if constraint is constraints.unit_interval:
        return "unit"
    if constraint is constraints.simplex:
        return "simplex"
    if constraint is constraints.real_vector:
        return "vector"
    if constraint is constraints.lower_cholesky:
        return "cholesky"
    return "fixed"
