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


@pytest.mark.parametrize("followed", [False, True])
def test_many_against_beta_keep_their_digits(followed: bool) -> None:
    """The nodes of the formula for close laws do not resolve these; ∫ p·(log p − log q) by mpmath at 30 digits."""
    given = [
        [2.7114923333330596, 4.948993022453666, 1.7230392129282575, 1.8126629843207733],
        [2.15, 0.9, 1.3, 4.2],
    ]
    columns = torch.tensor(given, dtype=torch.float64).T.repeat(1, 16).requires_grad_(followed)
    found = kl_divergence(Kumaraswamy(columns[0], columns[1]), Beta(columns[2], columns[3]))
    assert found.requires_grad == followed
    torch.testing.assert_close(found[0].item(), 0.135639617551972, rtol=1e-13, atol=0)
    if followed:
        (slopes,) = torch.autograd.grad(found[0], columns)
        step = 1e-4
        for row in range(4):
            sides = []
            for sign in (1, -1):
                x = columns.detach()[:, :1].clone()
                x[row] += sign * step
                sides.append(kl_divergence(Kumaraswamy(x[0], x[1]), Beta(x[2], x[3])).item())
            torch.testing.assert_close(slopes[row, 0].item(), (sides[0] - sides[1]) / (2 * step), rtol=1e-6, atol=1e-9)


def test_slopes_by_the_parameters_of_a_symmetric_beta():
    """−E log x + ψ(α) − ψ(α+β) with E log x = −(ψ(b+1) + γ)/a, and the like of 1 − x."""
    a, b = (torch.tensor(x, dtype=torch.float64) for x in (2.0, 3.0))
    both = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
    value = kl_divergence(Kumaraswamy(a, b), Beta(both[0], both[1]))
    (slopes,) = torch.autograd.grad(value, both)
    torch.testing.assert_close(slopes.tolist(), [11 / 12 - 1.0, -0.3], rtol=1e-11, atol=0)
