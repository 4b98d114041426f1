"""KL and other divergences of two distributions; `api` calls them. `closed/` has formulas of KL, by the family of p."""

# Most are imported because they register their rules.
from kullback.pairs import (  # noqa: F401
    as_known_family,
    closed,
    dirichlet,
    exponential_family,
    gaussian,
    registry,
    relaxed_one_hot_categorical,
    structure,
    univariate,
    wishart,
)
from kullback.pairs.dispatch import KLResult, kl_divergence, kl_method, kl_with_error
from kullback.pairs.gaussian import mixture_bounds
from kullback.pairs.install import install_into_torch, uninstall_from_torch
from kullback.pairs.registry import register_kl
from kullback.pairs.table import Pair, coverage

__all__ = [
    "KLResult",
    "Pair",
    "coverage",
    "install_into_torch",
    "kl_divergence",
    "kl_method",
    "kl_with_error",
    "register_kl",
    "uninstall_from_torch",
]

# A known family may have a closed form, so that it comes before the integrals.
registry.fallbacks[:] = [
    exponential_family.rule_for,
    as_known_family.rule_for,
    univariate.rule_for,
    registry.torch_structure,
    mixture_bounds.rule_for,
]
