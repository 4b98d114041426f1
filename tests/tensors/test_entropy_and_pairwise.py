"""Entropy, cross-entropy, generalised KL, pairwise KL and align, against their definitions at 60 digits."""

import itertools

import mpmath as mp
import pytest
import torch

import kullback as kb
from tests.tensors.exact import relative_error, weights

FLOAT64 = torch.float64
VIEWS = (kb.Logits, kb.LogProbs, kb.Probs, kb.Counts)
MIXES = list(itertools.product(VIEWS, VIEWS))
INF = float("inf")


def numbers(view, seed, spread=2.0):
    logits = spread * torch.randn(9, dtype=FLOAT64, generator=torch.Generator().manual_seed(seed))
    if view is kb.Logits:
        return logits
    if view is kb.LogProbs:
        return logits.log_softmax(-1)
    return logits.softmax(-1) * (1 if view is kb.Probs else 17)


def normalised(x, view):
    w = weights(x, view)
    return [v / mp.fsum(w) for v in w]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("spread", [0.1, 2.0, 60.0])
def test_entropy(view, spread):
    x = numbers(view, 1, spread).requires_grad_()
    value = kb.entropy(view(x))
    with mp.workdps(60):
        p = normalised(x.detach(), view)
        want = -mp.fsum(v * mp.log(v) for v in p)
        to_logits = [-v * (mp.log(v) + want) for v in p]
        if view in (kb.Probs, kb.Counts):
            to_logits = [g / v for g, v in zip(to_logits, weights(x.detach(), view), strict=True)]
    assert relative_error(value.detach(), want) <= 2e-15
    assert relative_error(torch.autograd.grad(value, x)[0], to_logits) <= 1e-13


def test_entropy_of_a_near_certain_row_keeps_its_digits():
    x = torch.tensor([0.0, -46.0, -50.0], dtype=FLOAT64)
    with mp.workdps(60):
        p = normalised(x, kb.Logits)
        want = -mp.fsum(v * mp.log(v) for v in p)
    assert relative_error(kb.entropy(kb.Logits(x)), want) <= 2e-15
    assert kb.entropy(kb.Probs(torch.tensor([1.0, 0.0]))) == 0


@pytest.mark.parametrize("dtype", [torch.float32, FLOAT64])
def test_cross_entropy_of_sides_in_the_same_memory(dtype):
    rows = torch.rand(60, 60, dtype=dtype, generator=torch.Generator().manual_seed(0)).requires_grad_()
    rtol = 1e-13 if dtype is FLOAT64 else 1e-5
    pairs = kb.cross_entropy(kb.Logits(rows.unsqueeze(1)), kb.Logits(rows.unsqueeze(0)))
    torch.testing.assert_close(pairs, -(rows.softmax(-1) @ rows.log_softmax(-1).T), rtol=rtol, atol=0)
    turned = kb.cross_entropy(kb.Logits(rows, dim=0), kb.Logits(rows, dim=1))
    torch.testing.assert_close(turned, -(rows.softmax(0).T * rows.log_softmax(1)).sum(-1), rtol=rtol, atol=0)
    mixed = kb.cross_entropy(kb.Counts(rows), kb.Logits(rows))
    parts = rows / rows.sum(-1, keepdim=True) * rows.log_softmax(-1)
    torch.testing.assert_close(mixed, -parts.sum(-1), rtol=rtol, atol=0)
    same = kb.cross_entropy(kb.Logits(rows), kb.Logits(rows)).sum()
    entropy = kb.entropy(kb.Logits(rows)).sum()
    assert torch.equal(torch.autograd.grad(same, rows)[0], torch.autograd.grad(entropy, rows)[0])


@pytest.mark.parametrize(("view_p", "view_q"), MIXES)
def test_cross_entropy(view_p, view_q):
    x, y = numbers(view_p, 1).requires_grad_(), numbers(view_q, 2).requires_grad_()
    value = kb.cross_entropy(view_p(x), view_q(y))
    with mp.workdps(60):
        p, q = normalised(x.detach(), view_p), normalised(y.detach(), view_q)
        want = -mp.fsum(a * mp.log(b) for a, b in zip(p, q, strict=True))
        to_q = [b - a for a, b in zip(p, q, strict=True)]
        if view_q in (kb.Probs, kb.Counts):
            to_q = [g / v for g, v in zip(to_q, weights(y.detach(), view_q), strict=True)]
    assert relative_error(value.detach(), want) <= 1e-15
    assert relative_error(torch.autograd.grad(value, y, retain_graph=True)[0], to_q) <= 1e-14
    parts = kb.entropy(view_p(x)) + kb.kl(view_p(x), view_q(y))
    assert torch.allclose(value, parts, rtol=1e-14, atol=0)
    got, want = torch.autograd.grad(value, x)[0], torch.autograd.grad(parts, x)[0]
    assert torch.allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("view_p", "view_q"), MIXES)
def test_cross_entropy_at_zeros(view_p, view_q):
    def make(view, probs):
        probs = torch.tensor(probs, dtype=FLOAT64)
        return (probs if view in (kb.Probs, kb.Counts) else probs.log()).requires_grad_()

    x, y = make(view_p, [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]), make(view_q, [[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]])
    value = kb.cross_entropy(view_p(x), view_q(y))
    assert value[0].item() == pytest.approx(0.8369882167858358, rel=1e-15)
    assert value[1] == INF
    grads = torch.autograd.grad(value.sum(), (x, y))
    assert all(g.isfinite().all() and torch.count_nonzero(g[1]) == 0 for g in grads)
    by_kl = torch.autograd.grad(kb.kl(view_p(x), view_q(y)).sum(), y)[0]
    assert torch.allclose(grads[1], by_kl, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("distance", [2.0, 1e-4, 1e-12])
@pytest.mark.parametrize(("view_p", "view_q"), [(a, b) for a in (kb.Logits, kb.Counts) for b in (kb.Logits, kb.Counts)])
def test_generalized_kl(view_p, view_q, distance):
    generator = torch.Generator().manual_seed(3)
    log_p = 2 * torch.randn(9, dtype=FLOAT64, generator=generator)
    log_q = log_p + distance * torch.randn(9, dtype=FLOAT64, generator=generator)
    x = (log_p if view_p is kb.Logits else log_p.exp()).requires_grad_()
    y = (log_q if view_q is kb.Logits else log_q.exp()).requires_grad_()
    value = kb.generalized_kl(view_p(x), view_q(y))
    with mp.workdps(60):
        p, q = weights(x.detach(), view_p), weights(y.detach(), view_q)
        want = mp.fsum(a * mp.log(a / b) - a + b for a, b in zip(p, q, strict=True))
        to_p = [mp.log(a / b) * (a if view_p is kb.Logits else 1) for a, b in zip(p, q, strict=True)]
        to_q = [(b - a) / (1 if view_q is kb.Logits else b) for a, b in zip(p, q, strict=True)]
    assert relative_error(value.detach(), want) <= 1e-13
    grad_p, grad_q = torch.autograd.grad(value, (x, y))
    assert relative_error(grad_p, to_p) <= 1e-14
    assert relative_error(grad_q, to_q) <= 1e-14


def test_generalized_kl_at_zeros():
    p = torch.tensor([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0]], requires_grad=True)
    q = torch.tensor([[1.0, 3.0, 0.0], [0.0, 1.0, 1.0]], requires_grad=True)
    value = kb.generalized_kl(kb.Counts(p), kb.Counts(q))
    assert value.tolist() == [pytest.approx(2 * 0.6931471805599453 - 2 + 1 + 3), INF]
    grads = torch.autograd.grad(value.sum(), (p, q))
    assert grads[0][0].tolist() == [pytest.approx(0.6931472), 0.0, 0.0]
    assert grads[1][0].tolist() == [-1.0, 1.0, 1.0]
    assert all(torch.count_nonzero(g[1]) == 0 for g in grads)


@pytest.mark.parametrize(("view_p", "view_q"), [(kb.Logits, kb.Logits), (kb.Probs, kb.Counts)])
def test_pairwise_is_kl_of_every_pair(view_p, view_q):
    P = torch.stack([numbers(view_p, seed) for seed in range(4)]).requires_grad_()
    Q = torch.stack([numbers(view_q, seed) for seed in range(3)]).requires_grad_()
    table = kb.pairwise_kl(view_p(P), view_q(Q))
    assert table.shape == (4, 3)
    want = torch.stack([torch.stack([kb.kl(view_p(p), view_q(q)) for q in Q]) for p in P])
    assert torch.equal(table, want)
    for got, expected in zip(
        torch.autograd.grad(table.sum(), (P, Q)), torch.autograd.grad(want.sum(), (P, Q)), strict=True
    ):
        assert torch.allclose(got, expected, rtol=1e-13, atol=1e-16)
    if view_p is view_q:
        assert torch.equal(table.diagonal(), torch.zeros(3, dtype=FLOAT64))


def test_pairwise_with_classes_first_and_a_batch():
    P, Q = torch.randn(2, 5, 4, dtype=FLOAT64), torch.randn(2, 5, 3, dtype=FLOAT64)
    table = kb.pairwise_kl(kb.Logits(P, dim=1), kb.Logits(Q, dim=1), base=2)
    assert table.shape == (2, 4, 3)
    assert torch.equal(table[1, 2, 0], kb.kl(kb.Logits(P[1, :, 2]), kb.Logits(Q[1, :, 0]), base=2))


def test_pairwise_near_equality():
    p = torch.randn(6, dtype=FLOAT64)
    Q = p + 1e-12 * torch.randn(3, 6, dtype=FLOAT64)
    table = kb.pairwise_kl(kb.Logits(p[None]), kb.Logits(Q))
    assert torch.equal(table[0], kb.kl(kb.Logits(p), kb.Logits(Q)))
    assert (table > 0).all()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("how", ["pad", "truncate"])
def test_align(view, how):
    small, large = numbers(view, 1)[:5], numbers(view, 2)
    if view is kb.Probs:
        small = small / small.sum()
    if view is kb.LogProbs:
        small = small.log_softmax(-1)
    p, q = kb.align(view(small), view(large), how=how)
    assert p.tensor.shape == q.tensor.shape == ((9,) if how == "pad" else (5,))
    value = kb.kl(p, q)
    with mp.workdps(60):
        a, b = weights(small, view), weights(large, view)
        b = b if how == "pad" else b[:5]
        a, b = [v / mp.fsum(a) for v in a], [v / mp.fsum(b) for v in b]
        want = mp.fsum(u * mp.log(u / v) for u, v in zip(a, b, strict=False))
    assert relative_error(value, want) <= 1e-14
    backwards = kb.kl(q, p)
    assert backwards == INF if how == "pad" else backwards.isfinite()


def test_align_along_another_dimension_and_when_nothing_is_missing():
    p, q = kb.align(kb.Logits(torch.zeros(3, 2), dim=0), kb.Probs(torch.full((2, 4), 0.25)))
    assert p.tensor.shape == (4, 2)
    assert kb.kl(p, q).tolist() == pytest.approx([0.2876821, 0.2876821])
    same = kb.Logits(torch.zeros(4))
    assert kb.align(same, same)[0] is same


def test_padded_classes_are_not_smoothed():
    p, _ = kb.align(kb.Counts(torch.tensor([1.0, 0.0]), smoothing=1.0), kb.Logits(torch.zeros(3)))
    assert p.tensor.tolist() == [2.0, 1.0, 0.0]
    assert kb.kl(p, kb.Probs(torch.tensor([0.5, 0.5, 0.0]))).isfinite()
