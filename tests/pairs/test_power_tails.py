"""Integrals whose −log q asks for a moment that p may lack: E x, E x², E 1/x, up to next to where it does."""

from torch import distributions as d

from tests.pairs.contract import *  # noqa: F403

PAIRS = [
    (d.Gamma, d.InverseGamma),
    (d.HalfCauchy, d.Weibull),
    (d.InverseGamma, d.Exponential),
    (d.InverseGamma, d.Gamma),
    (d.InverseGamma, d.HalfNormal),
    (d.InverseGamma, d.Normal),
    (d.InverseGamma, d.Weibull),
    (d.Kumaraswamy, d.InverseGamma),
    (d.Pareto, d.HalfNormal),
    (d.Pareto, d.Laplace),
    (d.Pareto, d.Weibull),
    (d.StudentT, d.Normal),
    (d.Weibull, d.InverseGamma),
]
if hasattr(d, "GeneralizedPareto"):  # newer than the oldest torch supported
    PAIRS += [(d.GeneralizedPareto, q) for q in (d.Exponential, d.HalfNormal, d.Normal)]
CASES = [Case(p, q) for p, q in PAIRS]  # noqa: F405


def t(*values: float) -> list[Tensor]:  # noqa: F405
    return [torch.tensor(value, dtype=torch.float64) for value in values]  # noqa: F405


def test_subclasses_are_read_as_what_they_are() -> None:
    chi2, gamma = d.Chi2(*t(3.0)), d.Gamma(*t(1.5, 0.5))
    inverse = d.InverseGamma(*t(3.2, 0.7))
    assert kl_divergence(chi2, inverse) == kl_divergence(gamma, inverse)  # noqa: F405
    assert kl_divergence(inverse, chi2) == kl_divergence(inverse, gamma)  # noqa: F405
    assert kl_method(chi2, inverse) == kl_method(inverse, chi2) == "integral"  # noqa: F405
