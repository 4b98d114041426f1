"""You hold two distributions. KL(p ‖ every q) sits in the file named after p; importing it registers its formulas."""

from kullback.pairs import exponential_family, independent, normal, transformed_distribution
from kullback.pairs.dispatch import KLResult, kl_divergence, kl_method, kl_with_error
from kullback.pairs.install import install_into_torch, uninstall_from_torch
from kullback.pairs.registry import register_kl
from kullback.pairs.table import Pair, coverage

__all__ = [
    "KLResult",
    "Pair",
    "coverage",
    "exponential_family",
    "independent",
    "install_into_torch",
    "kl_divergence",
    "kl_method",
    "kl_with_error",
    "normal",
    "register_kl",
    "transformed_distribution",
    "uninstall_from_torch",
]
