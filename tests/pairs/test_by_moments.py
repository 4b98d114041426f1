"""KL by the moments of x or log x (`pairs.moments`), and the closed forms that share a table maker with these."""

from torch.distributions import Chi2, Gamma, InverseGamma

from kullback.pairs import registry
from tests.pairs.contract import *  # noqa: F403

OTHERS = {
    ("Laplace", "Gumbel"),
    ("LogNormal", "Weibull"),
    ("GeneralizedPareto", "Exponential"),
    ("GeneralizedPareto", "HalfNormal"),
    ("GeneralizedPareto", "Normal"),
    ("Pareto", "Laplace"),
    ("StudentT", "Normal"),
}
IN_OTHER_FILES = {("Pareto", "Exponential"), ("Pareto", "Gamma"), ("Pareto", "Normal")}


def is_here(p: str, q: str, formula: str) -> bool:
    pair = p, q
    return pair in OTHERS or (formula == "kl_by_moments" and pair not in IN_OTHER_FILES)


CASES = [
    Case(rule.p, rule.q)  # noqa: F405
    for rule in registry.rules()
    if is_here(rule.p.__name__, rule.q.__name__, getattr(rule.formula, "__name__", ""))
]


def t(*values: float) -> list[Tensor]:  # noqa: F405
    return [torch.tensor(value, dtype=torch.float64) for value in values]  # noqa: F405


def test_subclasses_are_read_as_what_they_are() -> None:
    chi2, gamma = Chi2(*t(3.0)), Gamma(*t(1.5, 0.5))
    inverse = InverseGamma(*t(3.2, 0.7))
    assert kl_divergence(chi2, inverse) == kl_divergence(gamma, inverse)  # noqa: F405
    assert kl_divergence(inverse, chi2) == kl_divergence(inverse, gamma)  # noqa: F405
    assert kl_method(chi2, inverse) == kl_method(inverse, chi2) == "closed form"  # noqa: F405
