"""KL(Dirichlet ‖ ·)."""

import pytest
import torch
from torch.distributions import Dirichlet

from kullback import ShapeError
from kullback.pairs.dirichlet import dirichlet_kl, dirichlet_op
from kullback.pairs.dispatch import kl_divergence
from tests.pairs.contract import *  # noqa: F403

# Below this share of the largest component a component is the difference of much larger ones.
CASES = [Case(Dirichlet, Dirichlet, gradient_floor=1e-12)]  # noqa: F405


def test_many_classes_do_not_cancel():
    p, q = (Dirichlet(torch.full((50,), c)) for c in (1000.0, 1001.0))
    assert kl_divergence(p, q).item() == pytest.approx(1.2236e-5, rel=1e-3)
    assert kl_divergence(p, p).item() == 0.0


def test_classes_are_not_broadcast():
    with pytest.raises(ShapeError):
        kl_divergence(Dirichlet(torch.ones(3)), Dirichlet(torch.ones(1)))


def test_one_class_has_one_law():
    assert kl_divergence(Dirichlet(torch.tensor([2.0])), Dirichlet(torch.tensor([5.0]))).item() == 0.0


@pytest.mark.parametrize("formula", [dirichlet_op, dirichlet_kl], ids=["native", "reference"])
def test_slopes_beside_an_outweighing_concentration(formula):
    # Of the concentrations that stay the slopes are ±ψ'(α₀)·(β₀ − α₀), whatever is lost of the small ones in the sums.
    start, moved = 1e-6, 1e-6 * (1 + 2.0**-36)
    alpha = torch.tensor([start, start, 1e12], dtype=torch.float64, requires_grad=True)
    beta = torch.tensor([moved, start, 1e12], dtype=torch.float64, requires_grad=True)
    formula(alpha, beta).backward()
    wanted = (moved - start) * 1e-12 * (1 + 0.5e-12)
    assert alpha.grad[1].item() == pytest.approx(wanted, rel=1e-9)
    assert beta.grad[1].item() == pytest.approx(-wanted, rel=1e-9)


@pytest.mark.parametrize("formula", [dirichlet_op, dirichlet_kl], ids=["native", "reference"])
def test_one_concentration_that_stays_while_the_sum_grows(formula):
    alpha, beta = torch.tensor([[1.0, 0.4, 37.0], [1e12, 1e-3, 37.0]], dtype=torch.float64)
    assert formula(alpha, beta).item() == pytest.approx(4212195780037.51529346, rel=1e-13)
