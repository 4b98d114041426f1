"""KL(Categorical ‖ ·), and the distributions that rest on it: OneHotCategorical, Multinomial."""

import math

import mpmath
import pytest
import torch
from torch.distributions import Categorical, Multinomial, OneHotCategorical, OneHotCategoricalStraightThrough

from kullback._core.errors import ShapeError
from kullback.pairs import kl_divergence
from tests.pairs import contract
from tests.pairs.contract import *  # noqa: F403

# torch divides the weights by their sum in their own precision, and so does the gradient going back.
CASES = [contract.Case(family, family, gradient_floor=1e-2) for family in (Categorical, OneHotCategorical, Multinomial)]


def d(x):
    return torch.tensor(x, dtype=torch.float64)


def test_class_counts_must_agree():
    with pytest.raises(ShapeError, match=r"3 classes in p \(3,\), 1 in q \(1,\)"):
        kl_divergence(Categorical(torch.tensor([0.2, 0.3, 0.5])), Categorical(torch.tensor([1.0])))
    with pytest.raises(ShapeError):
        kl_divergence(OneHotCategorical(torch.tensor([1.0])), OneHotCategorical(torch.tensor([0.2, 0.3, 0.5])))


@pytest.mark.parametrize("family", [Categorical, OneHotCategorical, OneHotCategoricalStraightThrough])
def test_zeros(family):
    p, q = (
        d([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]).requires_grad_(),
        d([0.25, 0.75, 0.0]).requires_grad_(),
    )
    value = kl_divergence(family(p), family(q))
    want = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    torch.testing.assert_close(value, d([want, -math.log(0.75), want]))
    value.sum().backward()
    assert bool(p.grad.isfinite().all())
    assert bool(q.grad.isfinite().all())
    other = family(d([0.5, 0.0, 0.5]))  # torch's `expand` goes on with the logits, which are finite
    assert kl_divergence(family(q), other).item() == math.inf
    assert kl_divergence(family(q), other.expand([2])).tolist() == [math.inf] * 2


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_an_expanded_multinomial_still_knows_its_logits(shape):
    p, q = Multinomial(4, logits=d([0.0, 0.0])), Multinomial(4, logits=d([0.0, -800.0]))
    assert kl_divergence(p.expand(shape), q.expand(shape)).unique().tolist() == [pytest.approx(4 * (400 - math.log(2)))]


def test_multinomials_of_different_counts_share_no_outcome():
    p, q = d([0.5, 0.5]).requires_grad_(), d([0.25, 0.75])
    value = kl_divergence(Multinomial(3, p), Multinomial(4, q))
    assert value.item() == math.inf
    value.backward()
    assert p.grad.tolist() == [0.0, 0.0]
    assert kl_divergence(Multinomial(0, d([0.5, 0.5])), Multinomial(0, d([1.0, 0.0]))).item() == 0.0


@pytest.mark.parametrize("family", [Categorical, OneHotCategorical, lambda **given: Multinomial(1, **given)])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([0.0, -50.0], [0.0, -48.0]),
        ([3.0, -400.0, -403.0], [5.0, -400.0, -401.0]),
        ([-121.25, 0.0, -202.0], [0.0, -800.0, -700.0]),
        ([152.5, 257.0, -146.0, 458.5, 565.5], [152.5, 257.0, -145.75, 459.0, 565.25]),
        ([0.0, -300.0, -700.0], [0.0, -250.0, -1.0]),
        ([800.0, 300.0, -800.0], [-800.0, -700.0, 800.0]),
    ],
)
def test_gradient_of_a_class_with_all_but_a_trace(family, a, b):
    """p₁(log(p₁/q₁) − KL) and q₁ − p₁ are of the size of the trace, in mpmath with as many digits as that takes."""
    leaves = [d(x).requires_grad_() for x in (a, b)]
    distributions = [family(logits=torch.zeros(len(a), dtype=torch.float64)) for _ in leaves]
    for distribution, leaf in zip(distributions, leaves, strict=True):
        inner = getattr(distribution, "_categorical", distribution)
        inner.logits = inner._param = leaf
        inner.__dict__.pop("probs", None)
    kl_divergence(*distributions).backward()
    with mpmath.workdps(1600):
        p, q = ([mpmath.exp(x) for x in side] for side in (a, b))
        p, q = ([x / sum(side) for x in side] for side in (p, q))
        logs = [mpmath.log(x / y) for x, y in zip(p, q, strict=True)]
        kl = sum(x * u for x, u in zip(p, logs, strict=True))
        wanted = (
            [float(x * (u - kl)) for x, u in zip(p, logs, strict=True)],
            [float(y - x) for x, y in zip(p, q, strict=True)],
        )
    for leaf, want in zip(leaves, wanted, strict=True):
        torch.testing.assert_close(leaf.grad, d(want), rtol=1e-9, atol=1e-300)
