"""You hold two distributions. KL(p ‖ every q) sits in the file named after p; importing it registers its formulas."""

from kullback.pairs import (
    cauchy,
    exponential,
    exponential_family,
    gamma,
    gumbel,
    half_cauchy,
    half_normal,
    independent,
    inverse_gamma,
    laplace,
    normal,
    pareto,
    student_t,
    transformed_distribution,
    uniform,
    von_mises,
    weibull,
)
from kullback.pairs.dispatch import KLResult, kl_divergence, kl_method, kl_with_error
from kullback.pairs.install import install_into_torch, uninstall_from_torch
from kullback.pairs.registry import register_kl
from kullback.pairs.table import Pair, coverage

__all__ = [
    "KLResult",
    "Pair",
    "cauchy",
    "coverage",
    "exponential",
    "exponential_family",
    "gamma",
    "gumbel",
    "half_cauchy",
    "half_normal",
    "independent",
    "install_into_torch",
    "inverse_gamma",
    "kl_divergence",
    "kl_method",
    "kl_with_error",
    "laplace",
    "normal",
    "pareto",
    "register_kl",
    "student_t",
    "transformed_distribution",
    "uniform",
    "uninstall_from_torch",
    "von_mises",
    "weibull",
]
