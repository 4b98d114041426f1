"""Dimensions, strides, batches, masks, weights, reductions, units, dtypes: the same numbers in every wrapping."""

import math

import pytest
import torch

import kullback as kb

L, P = kb.Logits, kb.Probs


def logits(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def by_row(a, b):
    """One row at a time, in Python."""
    a, b = torch.broadcast_tensors(a, b)
    flat = [kb.kl(L(x.clone()), L(y.clone())) for x, y in zip(a.reshape(-1, 7), b.reshape(-1, 7), strict=True)]
    return torch.stack(flat).reshape(a.shape[:-1]) if flat else a.new_zeros(a.shape[:-1])


@pytest.mark.parametrize(
    ("shape_p", "shape_q"),
    [((7,), (7,)), ((3, 7), (7,)), ((7,), (3, 7)), ((2, 1, 7), (3, 7)), ((1, 7), (4, 7)), ((2, 3, 1, 7), (1, 1, 4, 7))],
)
def test_batches_broadcast_and_their_gradients_add_up(shape_p, shape_q):
    a, b = logits(*shape_p).requires_grad_(), logits(*shape_q, seed=1).requires_grad_()
    rows = kb.kl(L(a), L(b))
    assert torch.equal(rows, by_row(a, b))
    got = torch.autograd.grad(rows.sum(), (a, b))
    wide = torch.broadcast_shapes(shape_p, shape_q)
    a2, b2 = (t.detach().expand(wide).clone().requires_grad_() for t in (a, b))
    want = torch.autograd.grad(kb.kl(L(a2), L(b2)).sum(), (a2, b2))
    for g, w, shape in zip(got, want, (shape_p, shape_q), strict=True):
        assert torch.allclose(g, w.sum_to_size(shape), rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("shape", [(0, 7), (3, 0, 7)])
def test_no_rows(shape):
    a = torch.zeros(shape, requires_grad=True)
    rows = kb.kl(L(a), L(torch.zeros(shape)))
    assert rows.shape == shape[:-1]
    assert torch.autograd.grad(rows.sum(), a)[0].shape == shape
    assert kb.kl(L(a), L(a.detach()), reduction="mean").item() == 0
    assert kb.kl(L(a), L(a.detach()), reduction="sum").item() == 0


def test_one_class_is_certain():
    assert torch.equal(kb.kl(L(torch.tensor([[3.0], [-4.0]])), L(torch.tensor([[1.0], [2.0]]))), torch.zeros(2))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_any_dimension(dim):
    a, b = logits(4, 5, 6), logits(4, 5, 6, seed=1)
    want = kb.kl(L(a.movedim(dim, -1).contiguous()), L(b.movedim(dim, -1).contiguous()))
    assert torch.equal(kb.kl(L(a, dim=dim), L(b, dim=dim)), want)
    a.requires_grad_()
    (got,) = torch.autograd.grad(kb.kl(L(a, dim=dim), L(b, dim=dim)).sum(), a)
    moved = a.detach().movedim(dim, -1).contiguous().requires_grad_()
    (want,) = torch.autograd.grad(kb.kl(L(moved), L(b.movedim(dim, -1))).sum(), moved)
    assert torch.equal(got, want.movedim(-1, dim))


def test_different_dimensions_on_the_two_sides():
    a, b = logits(5, 4), logits(4, 5, seed=1)
    assert torch.equal(kb.kl(L(a, dim=0), L(b)), kb.kl(L(a.T), L(b)))


def test_strides_do_not_matter():
    base_a, base_b = logits(8, 14), logits(8, 14, seed=1)
    for cut in (lambda t: t[::2, ::2], lambda t: t.flip(0)[1:5, 3:10], lambda t: t.T[:7].T[2:6]):
        a, b = cut(base_a), cut(base_b)
        assert torch.equal(kb.kl(L(a), L(b)), kb.kl(L(a.contiguous()), L(b.contiguous())))
    row = base_a[0, :7].expand(5, 7)
    assert torch.equal(kb.kl(L(row), L(base_b[:5, :7])), kb.kl(L(row.contiguous()), L(base_b[:5, :7])))


def test_blocks_do_not_show(monkeypatch):
    from kullback._core import shapes

    a, b = logits(3, 5, 7).requires_grad_(), logits(5, 7, seed=1).requires_grad_()
    mask = torch.rand(3, 5, generator=torch.Generator().manual_seed(2)) < 0.7
    results = []
    for limit in (1, 20, 40, 10**6):
        monkeypatch.setitem(shapes._BLOCK, "cpu", limit)
        value = kb.kl(L(a), L(b), mask=mask, reduction="sum")
        grads = torch.autograd.grad(value, (a, b), create_graph=True)
        second = torch.autograd.grad(sum((g**2).sum() for g in grads), (a, b))
        results.append((value, *grads, *second))
    for other in results[1:]:
        assert all(torch.allclose(g, w, rtol=1e-13, atol=1e-16) for g, w in zip(results[0], other, strict=True))


@pytest.mark.parametrize("rubbish", [float("nan"), float("inf"), -float("inf"), -3.0])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("view", [kb.Logits, kb.Probs, kb.LogProbs, kb.Counts])
def test_a_masked_row_is_exactly_absent_whatever_it_holds(view, reduction, rubbish):
    good = logits(4, 7).softmax(-1)
    good = good if view in (kb.Probs, kb.Counts) else good.log()
    p, q = good.clone(), good.flip(0).clone()
    p[1], q[2] = rubbish, rubbish
    mask = torch.tensor([True, False, False, True])
    p.requires_grad_(), q.requires_grad_()
    value = kb.kl(view(p), view(q), mask=mask, reduction=reduction)
    rows = kb.kl(view(good[[0, 3]]), view(good.flip(0)[[0, 3]]))
    want = {"none": torch.tensor([rows[0], 0, 0, rows[1]]).double(), "sum": rows.sum(), "mean": rows.mean()}[reduction]
    assert torch.equal(value, want)
    grads = torch.autograd.grad(value.sum(), (p, q), create_graph=True)
    assert all(torch.count_nonzero(g[1:3]) == 0 and g.isfinite().all() for g in grads)
    second = torch.autograd.grad(sum((g**2).sum() for g in grads), (p, q))
    assert all(torch.count_nonzero(g[1:3]) == 0 and g.isfinite().all() for g in second)


def test_masks_also_inside_transforms():
    p = logits(3, 7)
    p[1] = float("nan")
    mask = torch.tensor([True, False, True])

    def loss(x):
        return kb.kl(L(x), L(torch.zeros(7, dtype=torch.float64)), mask=mask, reduction="mean")

    gradient = torch.func.grad(loss)(p)
    assert gradient.isfinite().all()
    assert torch.count_nonzero(gradient[1]) == 0


def test_nothing_left_is_zero_and_differentiable():
    p = logits(3, 7).requires_grad_()
    value = kb.kl(L(p), L(logits(3, 7, seed=1)), mask=torch.zeros(3, dtype=torch.bool), reduction="mean")
    assert value.item() == 0
    assert torch.count_nonzero(torch.autograd.grad(value, p)[0]) == 0


def test_weights():
    a, b = logits(4, 7), logits(4, 7, seed=1)
    rows = kb.kl(L(a), L(b))
    w = torch.tensor([0.5, 2.0, 0.0, 1.0], dtype=torch.float64)
    mask = torch.tensor([True, True, True, False])
    assert torch.equal(kb.kl(L(a), L(b), weight=w), rows * w)
    assert torch.allclose(kb.kl(L(a), L(b), weight=w, reduction="mean"), (rows * w).sum() / 3.5)
    masked = kb.kl(L(a), L(b), weight=w, mask=mask, reduction="mean")
    assert torch.allclose(masked, (rows * w)[:3].sum() / 2.5)
    assert torch.allclose(kb.kl(L(a), L(b), weight=0.25), rows * 0.25)


def test_a_weight_of_zero_removes_an_infinite_row():
    p = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    q = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    value = kb.kl(P(p), P(q), weight=torch.tensor([0.0, 1.0]), reduction="mean")
    assert value.isfinite()


def test_units_and_reductions():
    a, b = logits(4, 7), logits(4, 7, seed=1)
    rows = kb.kl(L(a), L(b))
    assert torch.allclose(kb.kl(L(a), L(b), base=2), rows / math.log(2), rtol=1e-15, atol=0)
    assert torch.equal(kb.kl(L(a), L(b), reduction="sum"), rows.sum())
    assert torch.equal(kb.kl(L(a), L(b), reduction="mean"), rows.mean())


@pytest.mark.parametrize("one", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("other", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_mix(one, other):
    a, b = logits(3, 7).to(one).requires_grad_(), logits(3, 7, seed=1).to(other).requires_grad_()
    value = kb.kl(L(a), L(b))
    assert value.dtype == (torch.float64 if torch.float64 in (one, other) else torch.float32)
    want = kb.kl(L(a.detach().double()), L(b.detach().double()))
    assert torch.allclose(value.double(), want, rtol=1e-7, atol=0)
    grads = torch.autograd.grad(value.sum(), (a, b))
    assert (grads[0].dtype, grads[1].dtype) == (one, other)


def test_autocast_changes_nothing():
    a, b = logits(3, 7, dtype=torch.float32), logits(3, 7, seed=1, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = kb.kl(L(a), L(b))
    assert torch.equal(inside, kb.kl(L(a), L(b)))


def test_nothing_is_spent_on_a_side_that_needs_no_gradient():
    from kullback.kernels.kl_rows import reference

    a, b = logits(3, 7).requires_grad_(), logits(3, 7, seed=1)
    value = kb.kl(L(a), L(b)).sum()
    calls = []
    original = reference._gradient_to_q
    try:
        reference._gradient_to_q = lambda *args: calls.append(args) or original(*args)
        value.backward()
    finally:
        reference._gradient_to_q = original
    assert calls == []
    assert b.grad is None


def test_fisher_vector_product():
    """The Hessian-vector product of KL(p || q) in the logits of q at p = q is (diag(p) - p pᵀ) v."""
    a = logits(2, 7)
    b = a.clone().requires_grad_()
    v = logits(2, 7, seed=2)
    (g,) = torch.autograd.grad(kb.kl(L(a), L(b)).sum(), b, create_graph=True)
    (hvp,) = torch.autograd.grad((g * v).sum(), b)
    p = a.softmax(-1)
    assert torch.allclose(hvp, p * (v - (p * v).sum(-1, keepdim=True)), rtol=1e-14, atol=1e-17)
    through_p = a.clone().requires_grad_()
    (g,) = torch.autograd.grad(kb.kl(L(through_p), L(a)).sum(), through_p, create_graph=True)
    (hvp_p,) = torch.autograd.grad((g * v).sum(), through_p)
    assert torch.allclose(hvp_p, hvp, rtol=1e-13, atol=1e-17)
