"""KL by the moments of x or log x (`pairs.moments`), and the closed forms that share a table maker with these."""

from torch.distributions import Chi2, Gamma, LogNormal

from kullback.pairs import registry
from tests.pairs.contract import *  # noqa: F403

OTHERS = {
    ("HalfNormal", "Gumbel"),
    ("Laplace", "Gumbel"),
    ("Uniform", "HalfNormal"),
    ("GeneralizedPareto", "Exponential"),
    ("GeneralizedPareto", "HalfNormal"),
    ("GeneralizedPareto", "Normal"),
    ("Kumaraswamy", "Uniform"),
    ("StudentT", "Normal"),
}
IN_OTHER_FILES = {("Pareto", "Exponential"), ("Pareto", "Gamma"), ("Pareto", "Normal")}
TO_LAPLACE = {"Exponential", "HalfNormal", "LogNormal", "Pareto", "Uniform"}


def is_here(p: str, q: str, formula: str) -> bool:
    pair = p, q
    to_laplace = q == "Laplace" and p in TO_LAPLACE
    return pair in OTHERS or to_laplace or (formula == "kl_by_moments" and pair not in IN_OTHER_FILES)


CASES = [
    Case(rule.p, rule.q)  # noqa: F405
    for rule in registry.rules()
    if is_here(rule.p.__name__, rule.q.__name__, getattr(rule.formula, "__name__", ""))
]


def t(*values: float) -> list[Tensor]:  # noqa: F405
    return [torch.tensor(value, dtype=torch.float64) for value in values]  # noqa: F405


def test_subclasses_are_read_as_what_they_are() -> None:
    chi2, gamma = Chi2(*t(3.0)), Gamma(*t(1.5, 0.5))
    log_normal = LogNormal(*t(0.2, 0.7))
    assert kl_divergence(chi2, log_normal) == kl_divergence(gamma, log_normal)  # noqa: F405
    assert kl_divergence(log_normal, chi2) == kl_divergence(log_normal, gamma)  # noqa: F405
    assert kl_method(chi2, log_normal) == kl_method(log_normal, chi2) == "closed form"  # noqa: F405
