"""You hold two distributions. Closed forms of KL(p ‖ every q) are in `closed/`, in the file named after p."""

from kullback.pairs import (
    closed,
    dirichlet,
    exponential_family,
    gaussian,
    independent,
    infinite,
    integrals,
    lkj_cholesky,
    named,
    relaxed_one_hot_categorical,
    stick_breaking,
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
    "closed",
    "coverage",
    "dirichlet",
    "exponential_family",
    "gaussian",
    "independent",
    "infinite",
    "install_into_torch",
    "integrals",
    "kl_divergence",
    "kl_method",
    "kl_with_error",
    "lkj_cholesky",
    "named",
    "register_kl",
    "relaxed_one_hot_categorical",
    "stick_breaking",
    "transformed_distribution",
    "uninstall_from_torch",
    "wishart",
]
