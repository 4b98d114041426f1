"""KL(Kumaraswamy ‖ ·)."""

import pytest
import torch
from torch.distributions import Beta, Kumaraswamy, Uniform

from kullback.pairs.dispatch import kl_divergence, kl_with_error
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(Kumaraswamy, Kumaraswamy), Case(Kumaraswamy, Beta), Case(Kumaraswamy, Uniform)]  # noqa: F405


def test_equal_first_concentrations_are_exponential_laws():
    b = torch.tensor([1e-6, 0.5, 1.0, 7.0, 1e12], dtype=torch.float64)
    a = torch.full_like(b, 3.0)
    value = kl_divergence(Kumaraswamy(a, b), Kumaraswamy(a, 2 * b))
    torch.testing.assert_close(
        value, torch.full_like(b, 1.0).sub(torch.log(torch.tensor(2.0).double())), rtol=1e-12, atol=0
    )


def test_error_is_small_and_said_to_be_an_estimate():
    one = torch.tensor(1.5, dtype=torch.float64)
    result = kl_with_error(Kumaraswamy(one, 2 * one), Kumaraswamy(3 * one, one))
    assert result.method == "integral"
    assert not result.certified
    assert 0 <= result.error.item() < 1e-10 * result.value.item()


def test_kumaraswamy_laws_that_are_beta_laws():
    """Kumaraswamy(1, b) is Beta(1, b), Kumaraswamy(a, 1) is Beta(a, 1)."""
    a = torch.tensor([1.0, 1.0, 1.0, 0.5, 1e3], dtype=torch.float64)
    b = torch.tensor([1e-3, 3.0, 1e6, 1.0, 1.0], dtype=torch.float64)
    for factor in (1 + 1e-9, 1.5):
        q = Beta(a * factor, b / factor)
        value = kl_divergence(Kumaraswamy(a, b), q)
        torch.testing.assert_close(value, kl_divergence(Beta(a, b), q), rtol=1e-10, atol=0)
        assert (kl_divergence(Kumaraswamy(a, b), Beta(a, b)) < 1e-28).all()


@pytest.mark.parametrize(("a", "b"), [(2.5, 0.7), (1.0, 0.4), (7.0, 9.0), (0.1, 1.0)])
def test_the_second_derivative_at_equality_is_the_one_beside_it(a: float, b: float) -> None:
    """Along (a·(1+t), b·(1−t)), the Fisher information; rounding below 0 must not take it away."""

    def along(t: torch.Tensor) -> torch.Tensor:
        return kl_divergence(Kumaraswamy(a + 0 * t.detach(), b), Kumaraswamy(a * (1 + t), b * (1 - t)))

    at, beside = (torch.func.hessian(along)(torch.tensor(t, dtype=torch.float64)) for t in (0.0, 1e-6))
    assert at > 0
    torch.testing.assert_close(at, beside, rtol=1e-4, atol=0)
