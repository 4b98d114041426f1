"""KL(Dirichlet ‖ ·)."""

import pytest
import torch
from torch.distributions import Dirichlet

from kullback import ShapeError
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


def test_one_class_has_one_distribution():
    assert kl_divergence(Dirichlet(torch.tensor([2.0])), Dirichlet(torch.tensor([5.0]))).item() == 0.0
