"""You hold two distributions. KL(p ‖ every q) sits in the file named after p; importing it registers its formulas."""

from kullback.pairs import (
    bernoulli,
    binomial,
    categorical,
    continuous_bernoulli,
    exponential_family,
    geometric,
    independent,
    multinomial,
    negative_binomial,
    normal,
    one_hot_categorical,
    poisson,
    relaxed_bernoulli,
    relaxed_one_hot_categorical,
    transformed_distribution,
)
from kullback.pairs.dispatch import KLResult, kl_divergence, kl_method, kl_with_error
from kullback.pairs.install import install_into_torch, uninstall_from_torch
from kullback.pairs.registry import register_kl
from kullback.pairs.table import Pair, coverage

__all__ = [
    "KLResult",
    "Pair",
    "bernoulli",
    "binomial",
    "categorical",
    "continuous_bernoulli",
    "coverage",
    "exponential_family",
    "geometric",
    "independent",
    "install_into_torch",
    "kl_divergence",
    "kl_method",
    "kl_with_error",
    "multinomial",
    "negative_binomial",
    "normal",
    "one_hot_categorical",
    "poisson",
    "register_kl",
    "relaxed_bernoulli",
    "relaxed_one_hot_categorical",
    "transformed_distribution",
    "uninstall_from_torch",
]
