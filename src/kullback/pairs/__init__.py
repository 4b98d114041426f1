"""You hold two distributions. KL(p ‖ every q) sits in the file named after p; importing it registers its formulas."""

from kullback.pairs import (
    beta,
    dirichlet,
    exponential_family,
    independent,
    kumaraswamy,
    lkj_cholesky,
    low_rank_multivariate_normal,
    multivariate_normal,
    normal,
    transformed_distribution,
    wishart,
)
from kullback.pairs.dispatch import KLResult, kl_divergence, kl_method, kl_with_error
from kullback.pairs.install import install_into_torch, uninstall_from_torch
from kullback.pairs.registry import register_kl
from kullback.pairs.table import Pair, coverage

__all__ = [
    "KLResult",
    "Pair",
    "beta",
    "coverage",
    "dirichlet",
    "exponential_family",
    "independent",
    "install_into_torch",
    "kl_divergence",
    "kl_method",
    "kl_with_error",
    "kumaraswamy",
    "lkj_cholesky",
    "low_rank_multivariate_normal",
    "multivariate_normal",
    "normal",
    "register_kl",
    "transformed_distribution",
    "uninstall_from_torch",
    "wishart",
]
