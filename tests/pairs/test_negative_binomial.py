"""KL(NegativeBinomial ‖ ·)."""

import math

import pytest
import torch
from torch.distributions import Gamma, Geometric, NegativeBinomial

from kullback import entropy
from kullback.pairs import kl_divergence
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(NegativeBinomial, NegativeBinomial)]  # noqa: F405


def d(x):
    return torch.tensor(x, dtype=torch.float64)


@pytest.mark.parametrize("logits", [(40.0, 41.0), (45.0, 45.5), (300.0, 301.0), (3.0, 2.0), (-4.0, 5.0)])
def test_equal_counts_are_repeated_geometrics(logits):
    a, b = (d(x) for x in logits)
    value = kl_divergence(NegativeBinomial(d(2.0), logits=a), NegativeBinomial(d(2.0), logits=b))
    once = kl_divergence(Geometric(logits=-a), Geometric(logits=-b)).item()
    assert value.item() == pytest.approx(2 * once, rel=1e-10)


@pytest.mark.parametrize(
    ("r", "p", "s", "q", "value"),
    [
        (0.0, 0.3, 2.0, 0.25, -2 * math.log(0.75)),
        (0.0, 0.3, 0.0, 0.25, 0.0),
        (3.0, 0.0, 2.0, 0.25, -2 * math.log(0.75)),
        (3.0, 0.0, 2.0, 0.0, 0.0),
        (3.0, 0.5, 0.0, 0.5, math.inf),
        (3.0, 0.5, 3.0, 0.0, math.inf),
    ],
)
def test_all_mass_at_zero(r, p, s, q, value):
    leaves = [d(x).requires_grad_() for x in (r, p, s, q)]
    got = kl_divergence(NegativeBinomial(*leaves[:2]), NegativeBinomial(*leaves[2:]))
    assert got.item() == pytest.approx(value, rel=1e-15)
    got.backward()
    assert all(leaf.grad is None or bool(leaf.grad.isfinite()) for leaf in leaves)


@pytest.mark.parametrize("logits", [34.0, 45.0, 300.0])
def test_counts_beyond_all_integers_have_the_entropy_of_a_gamma(logits):
    gamma = Gamma(d(2.0), torch.exp(d(-logits)))
    value = entropy(NegativeBinomial(d(2.0), logits=d(logits)))
    assert value.item() == pytest.approx(gamma.entropy().item(), rel=1e-12)


def test_a_mean_beyond_all_numbers_is_infinite():
    p = NegativeBinomial(d([2.0, 2.0, 2.0]), logits=d([800.0, 700.0, 800.0]))
    q = NegativeBinomial(d([2.0, 2.0, 2.0]), logits=d([1.0, 30.0, 800.0]))
    assert kl_divergence(p, q).tolist() == [math.inf, math.inf, 0.0]
    assert kl_divergence(q, p)[0].item() == pytest.approx(1595.670409519497, rel=1e-14)


@pytest.mark.parametrize("a", [-800.0, -745.0, -300.5, 290.0, 800.0])
@pytest.mark.parametrize("b", [-800.0, -700.0, 310.0])
@pytest.mark.parametrize("counts", [(1e12, 1e6), (1e-6, 3.0), (0.5, 1e12)])
@pytest.mark.sample(4)
def test_extreme_log_odds(counts, a, b):
    """Never negative, and no derivative is NaN."""
    leaves = [d(x).requires_grad_() for x in (counts[0], a, counts[1], b)]
    value = kl_divergence(NegativeBinomial(leaves[0], logits=leaves[1]), NegativeBinomial(leaves[2], logits=leaves[3]))
    assert value.item() >= 0
    value.backward()
    assert not any(bool(leaf.grad.isnan()) for leaf in leaves)
