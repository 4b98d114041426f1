"""KL between laws on the half-line, compared through their logarithms."""

from torch.distributions import Chi2, Gamma, InverseGamma, LogNormal, Uniform, Weibull

from kullback.pairs import registry
from kullback.pairs.positive.routes import kl_through_logarithm
from kullback.pairs.univariate import kl_by_integral
from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(rule.p, rule.q)  # noqa: F405
    for rule in registry.rules()
    if rule.formula is kl_through_logarithm
]


def t(*values: float) -> list[Tensor]:  # noqa: F405
    return [torch.tensor(value, dtype=torch.float64) for value in values]  # noqa: F405


def test_subclasses_are_read_as_what_they_are() -> None:
    chi2, gamma = Chi2(*t(3.0)), Gamma(*t(1.5, 0.5))
    log_normal = LogNormal(*t(0.2, 0.7))
    assert kl_divergence(chi2, log_normal) == kl_divergence(gamma, log_normal)  # noqa: F405
    assert kl_divergence(log_normal, chi2) == kl_divergence(log_normal, gamma)  # noqa: F405
    assert kl_method(chi2, log_normal) == kl_method(log_normal, chi2) == "closed form"  # noqa: F405


def test_agrees_with_the_integral(case: Case) -> None:  # noqa: F405
    row = example(case)  # noqa: F405
    p, q = case.build(tensors(row["p"], torch.float64), tensors(row["q"], torch.float64))  # noqa: F405
    torch.testing.assert_close(kl_divergence(p, q), kl_by_integral(p, q)[0], rtol=1e-11, atol=0)  # noqa: F405


def test_reciprocals_are_the_same_pair() -> None:
    """x → 1/x turns Gamma ‖ InverseGamma around."""
    a, b = Gamma(*t(3.5, 2.0)), Gamma(*t(2.2, 1.4))
    one, other = InverseGamma(*t(3.5, 2.0)), InverseGamma(*t(2.2, 1.4))
    assert kl_divergence(a, other).item() == pytest.approx(kl_divergence(one, b).item(), rel=1e-14)  # noqa: F405


def test_support_is_decided_per_element() -> None:
    low = torch.tensor([-1.0, 0.0, 0.5], dtype=torch.float64, requires_grad=True)  # noqa: F405
    value = kl_divergence(Uniform(low, torch.full_like(low, 2.0)), InverseGamma(*t(2.0, 1.0)))  # noqa: F405
    assert value.isinf().tolist() == [True, True, False]
    value.sum().backward()
    assert low.grad.isfinite().all()
    assert low.grad[:2].eq(0).all()


def test_exponential_in_two_spellings_is_no_distance() -> None:
    assert kl_divergence(Gamma(*t(1.0, 4.0)), Weibull(*t(0.25, 1.0))).item() == 0.0  # noqa: F405
    assert kl_divergence(Weibull(*t(0.25, 1.0)), Gamma(*t(1.0, 4.0))).item() < 1e-30  # noqa: F405
