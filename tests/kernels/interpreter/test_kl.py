"""KL by Triton against 50 digits: values to 4 float32 roundings, gradients to 1e-6 of a row's largest entry."""

from __future__ import annotations

import pytest
import torch

import kullback as kb
from tests.kernels.interpreter.truth import kl_truth, relative_error, row_error

INF = float("inf")
# What a conversion to the dtype of a tensor costs: one unit, as the interpreter truncates where a card rounds.
GRADIENT = {torch.float32: 1e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


def with_gradients(function, p, q, **options):
    x, y = (view.tensor.detach().clone().requires_grad_() for view in (p, q))
    value = function(p.with_tensor(x), q.with_tensor(y), **options)
    assert options or "DeviceRows" in value.grad_fn.name()
    value.sum().backward()
    assert x.grad.dtype == p.tensor.dtype
    return value.detach(), x.grad, y.grad


def check(p, q, *, value=4.0, gradient=None):
    found, to_p, to_q = with_gradients(kb.kl, p, q)
    with torch.no_grad():
        assert torch.equal(kb.kl(p, q), found)
    assert found.dtype == torch.float32
    for i in range(found.shape[0]):
        kl, want_p, want_q = kl_truth(p, q, p.tensor[i], q.tensor[i])
        assert relative_error(float(found[i]), kl) <= value
        for got, want, view in ((to_p[i], want_p, p), (to_q[i], want_q, q)):
            assert row_error(got, want) <= (gradient or GRADIENT[view.tensor.dtype])


def near(rows, classes, distance, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a = 2 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    b = a + distance * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    return a.to(dtype), b.to(dtype)


@pytest.mark.parametrize("distance", [10.0, 1.0, 1e-6])
@pytest.mark.parametrize("classes", [1, 2, 17, pytest.param(1000, marks=pytest.mark.slow), 1025])
@pytest.mark.sample(12)
def test_logits(classes, distance):
    a, b = near(2, classes, distance)
    check(kb.Logits(a), kb.Logits(b))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("distance", [1.0, 1e-2])
@pytest.mark.sample(4)
def test_half_precision(dtype, distance):
    a, b = near(2, 300, distance, dtype)
    check(kb.Logits(a), kb.Logits(b))
    check(kb.Logits(a.float()), kb.Logits(b))


@pytest.mark.slow
@pytest.mark.parametrize("distance", [3.0, 1e-6])
@pytest.mark.parametrize("classes", [5000, 32000])
def test_long_rows(classes, distance):
    a, b = near(1, classes, distance)
    check(kb.Logits(a), kb.Logits(b))


@pytest.mark.slow
@pytest.mark.parametrize("distance", [1.0, 1e-6])
@pytest.mark.parametrize(("view_p", "view_q"), [(kb.Probs, kb.Probs), (kb.Probs, kb.Logits), (kb.LogProbs, kb.Probs)])
def test_views(view_p, view_q, distance):
    def hold(x, view):
        return view({kb.Logits: x, kb.LogProbs: x.log_softmax(-1)}.get(view, x.softmax(-1)).float())

    a, b = near(2, 200, distance, torch.float64)
    # Next to a difference of 1e-6 the pair of floats that a logarithm is held in counts a few roundings.
    check(hold(a, view_p), hold(b, view_q), value=4.0 if distance == 1.0 else 8.0)


@pytest.mark.slow
def test_counts_with_smoothing():
    a = torch.tensor([[3.0, 0.0, 5.0, 0.0], [1e20, 3.0, 0.0, 2.0]])
    b = torch.tensor([[1.0, 2.0, 0.0, 0.0], [0.5, 1e-30, 3.0, 0.1]])
    check(kb.Counts(a), kb.Counts(b, smoothing=0.25))
    check(kb.Counts(a, smoothing=1.0), kb.Logits(b))


def test_supports():
    a = torch.tensor([[0.0, -INF, 1.0, -INF], [0.0, 1.0, 2.0, 3.0], [-INF, -INF, 0.0, -INF]])
    b = torch.tensor([[0.5, 2.0, 0.0, -INF], [0.0, -INF, 2.0, 3.0], [5.0, 1.0, -200.0, -INF]])
    check(kb.Logits(a), kb.Logits(b))
    check(kb.Logits(b), kb.Logits(a))


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 3e4, -1e6])
def test_extreme_logits(shift):
    a = torch.tensor([[0.0, -100.0, -300.0], [0.0, 1e-30, 50.0], [700.0, 0.0, -700.0]]) + shift
    b = torch.tensor([[-100.0, 0.0, 0.0], [0.0, 0.0, 50.0], [-700.0, 0.0, 700.0]])
    check(kb.Logits(a), kb.Logits(b))


def test_blocks_of_very_different_mass():
    a, b = near(1, 10_000, 1.0)
    a[:, 4096:8192] -= 200.0
    b[:, :4096] -= 150.0
    b[:, 9000:] = -INF
    a[:, 9000:] = -INF
    found, to_p, to_q = with_gradients(kb.kl, kb.Logits(a), kb.Logits(b))
    want, want_p, want_q = kb.kl(kb.Logits(a.double()), kb.Logits(b.double())), a.double(), b.double()
    want_p.requires_grad_()
    want_q.requires_grad_()
    kb.kl(kb.Logits(want_p), kb.Logits(want_q)).sum().backward()
    torch.testing.assert_close(found.double(), want, rtol=3e-7, atol=0)
    for got, expected in ((to_p, want_p.grad), (to_q, want_q.grad)):
        assert ((got - expected).abs().amax() / expected.abs().amax()) < 1e-6


@pytest.mark.slow
def test_equal_rows_are_exactly_zero():
    a, _ = near(2, 1100, 1.0)
    value, *_ = with_gradients(kb.kl, kb.Logits(a), kb.Logits(a + 8.0 - 8.0))
    same, same_p, same_q = with_gradients(kb.kl, kb.Logits(a), kb.Logits(a))
    assert torch.equal(same, torch.zeros(2))
    assert not same_p.any()
    assert not same_q.any()
    assert (value >= 0).all()


def test_rows_that_are_left_out_and_rows_that_are_undefined():
    a, b = near(4, 50, 1.0)
    a[1, 3], b[2, 4] = float("nan"), INF
    mask = torch.tensor([True, False, False, True])
    value, to_p, to_q = with_gradients(kb.kl, kb.Logits(a), kb.Logits(b), mask=mask)
    assert value[1] == value[2] == 0.0
    assert not to_p[1:3].any()
    assert not to_q[1:3].any()
    assert (to_p[0] != 0).all()
    value, to_p, to_q = with_gradients(kb.kl, kb.Logits(a), kb.Logits(b), validate=False)
    assert value.isnan().tolist() == [False, True, True, False]
    assert to_p[1].isnan().all()
    assert to_q[2].isnan().all()
    assert to_p[0].isfinite().all()


@pytest.mark.slow
def test_layouts_and_broadcasting():
    a, b = near(2, 20, 1.0)
    want = kb.kl(kb.Logits(a), kb.Logits(b))
    cut = torch.zeros(2, 40)[:, ::2].copy_(a)
    assert torch.equal(kb.kl(kb.Logits(cut), kb.Logits(b.t().contiguous(), dim=0)), want)
    assert torch.equal(kb.kl(kb.Logits(a.reshape(2, 1, 20)), kb.Logits(b.reshape(2, 1, 20))), want.reshape(2, 1))
    table = kb.kl(kb.Logits(a[:, None]), kb.Logits(b[None]))
    assert torch.equal(table.diagonal(), want)
    x = a[0].clone().requires_grad_()
    kb.kl(kb.Logits(x), kb.Logits(b)).sum().backward()
    rows = a[0].expand(2, 20).clone().requires_grad_()
    kb.kl(kb.Logits(rows), kb.Logits(b)).sum().backward()
    torch.testing.assert_close(x.grad, rows.grad.sum(0), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_second_derivatives_and_transforms_use_the_reference():
    a, b = (t[0].double() for t in near(1, 12, 1.0))
    value = lambda x: kb.kl(kb.Logits(x), kb.Logits(b.to(x.dtype)))  # noqa: E731
    want = torch.func.hessian(value)(a)
    torch.testing.assert_close(torch.func.hessian(value)(a.float()).double(), want, rtol=1e-5, atol=1e-6)
    x = a.float().requires_grad_()
    (first,) = torch.autograd.grad(value(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    y = a.clone().requires_grad_()
    (first,) = torch.autograd.grad(value(y), y, create_graph=True)
    torch.testing.assert_close(second.double(), torch.autograd.grad(first.square().sum(), y)[0], rtol=1e-5, atol=1e-6)
    rows = torch.func.vmap(value)(torch.stack([a, b]).float())
    torch.testing.assert_close(rows.double(), torch.stack([value(a), value(b)]), rtol=1e-5, atol=1e-7)
