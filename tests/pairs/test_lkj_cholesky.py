"""KL(LKJCholesky ‖ ·)."""

import pytest
import torch
from torch.distributions import LKJCholesky

from kullback.pairs.dispatch import kl_divergence
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(LKJCholesky, LKJCholesky)]  # noqa: F405


@pytest.mark.parametrize(("dim", "p", "q", "want"), [(3, 2.0, 0.7, 0.533204), (5, 1.5, 4.0, 1.996772)])
def test_published_values(dim, p, q, want):
    laws = [LKJCholesky(dim, torch.tensor(eta, dtype=torch.float64)) for eta in (p, q)]
    assert kl_divergence(*laws).item() == pytest.approx(want, abs=5e-7)
