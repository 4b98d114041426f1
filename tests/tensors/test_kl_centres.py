"""Gradients of rows that agree where it counts while KL is large, and logits that carry a shift, against mpmath.

Where q has mass that p lacks, KL is about -log(1 - mass) however close the sides are on the support of p; -p (v + KL),
v = log q/p, then cancels. The same holds for q - p where a heavy class is the same on both sides. Tolerances are
relative to the largest entry of a row.
"""

import pytest
import torch

import kullback as kb
from tests.tensors.exact import exact_kl, relative_error

FLOAT64, FLOAT32 = torch.float64, torch.float32
TOLERANCE = {FLOAT64: 1e-13, FLOAT32: 1e-6}
INF = float("inf")


def near(classes, distance, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(classes, generator=generator, dtype=FLOAT64)
    return a, a + distance * torch.randn(classes, generator=generator, dtype=FLOAT64)


def half_is_missing(a, b):
    a[a.numel() // 2 :] = -INF
    return a, b


def half_is_far(a, b):
    a[a.numel() // 2 :] -= 60
    return a, b


def uniform_on_a_third(a, b):
    b = 1 + (b - a)
    a = torch.ones_like(a)
    a[a.numel() // 3 :] = -INF
    return a, b


def one_class_has_half(a, b):
    """The same half on both sides, so that q - p = 0 there; the rest of q in another order."""
    b[1:] = b[1:].flip(0)
    a[0], b[0] = a[1:].logsumexp(-1), b[1:].logsumexp(-1)
    return a, b


def one_class_has_all(a, b):
    a[0] = b[0] = 40.0
    return a, b


KINDS = (half_is_missing, half_is_far, uniform_on_a_third, one_class_has_half, one_class_has_all)


def check(view_p, x, view_q, y, tolerance):
    want, *want_gradients = exact_kl(x, view_p, y, view_q)
    x, y = x.unsqueeze(0).requires_grad_(), y.unsqueeze(0).requires_grad_()
    value = kb.kl(view_p(x), view_q(y))
    assert relative_error(value[0].detach(), want) <= tolerance
    for found, expected in zip(torch.autograd.grad(value.sum(), (x, y)), want_gradients, strict=True):
        assert relative_error(found[0], expected) <= tolerance


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32])
@pytest.mark.parametrize("distance", [1.0, 1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("classes", [20, 200])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.sample(3)
def test_gradients_do_not_cancel(kind, classes, distance, dtype):
    a, b = kind(*near(classes, distance))
    check(kb.Logits, a.to(dtype), kb.Logits, b.to(dtype), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32])
@pytest.mark.parametrize("distance", [1e-2, 1e-5])
@pytest.mark.parametrize(("view_p", "view_q"), [(kb.Counts, kb.Logits), (kb.Logits, kb.Counts), (kb.Counts, kb.Counts)])
def test_gradients_to_weights_do_not_cancel(view_p, view_q, distance, dtype):
    a, b = half_is_missing(*near(100, distance))
    x, y = (v.to(dtype) if view is kb.Logits else v.exp().to(dtype) for v, view in ((a, view_p), (b, view_q)))
    check(view_p, x, view_q, y, TOLERANCE[dtype])


SHIFTS = [1e4, -1e4, 1e6, 1e9, 1e12, 1e15, -1e15, 1e30]


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32])
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("distance", [3.0, 1e-3, 0.0])
@pytest.mark.parametrize("sides", ["p", "q", "both"])
@pytest.mark.sample(5)
def test_a_shift_changes_the_stored_numbers_and_nothing_else(sides, distance, shift, dtype):
    a, b = near(30, distance)
    a = (a + shift if sides != "q" else a).to(dtype)
    b = (b + shift if sides != "p" else b).to(dtype)
    check(kb.Logits, a, kb.Logits, b, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32])
@pytest.mark.parametrize("shift", SHIFTS)
def test_shifted_uniform_rows(shift, dtype):
    a, _ = near(30, 1.0)
    a, level = a.to(dtype), torch.full((30,), shift, dtype=dtype)
    check(kb.Logits, level, kb.Logits, a, TOLERANCE[dtype])
    check(kb.Logits, a, kb.Logits, level, TOLERANCE[dtype])
    x, y = torch.zeros(1, 30, dtype=dtype, requires_grad=True), level.unsqueeze(0).requires_grad_()
    value = kb.kl(kb.Logits(x), kb.Logits(y))
    assert value == 0
    assert all((g == 0).all() for g in torch.autograd.grad(value.sum(), (x, y)))
