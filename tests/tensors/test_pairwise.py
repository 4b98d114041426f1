"""Float32 tables of `pairwise_kl`, which come from a matrix product, against pairs computed one by one in double."""

from __future__ import annotations

import pytest
import torch

import kullback as kb
from kullback.kernels import pairwise_rows

CLASSES = 40


def draw(view, rows, seed):
    x = 3 * torch.randn(rows, CLASSES, generator=torch.Generator().manual_seed(seed))
    return {kb.Logits: x, kb.LogProbs: x.log_softmax(-1), kb.Probs: x.softmax(-1), kb.Counts: x.exp().ceil()}[view]


def one_by_one(view_p, view_q, P, Q):
    P, Q = P.double(), Q.double()
    return torch.stack([torch.stack([kb.kl(view_p(p), view_q(q), validate=False) for q in Q]) for p in P])


@pytest.mark.parametrize("view_p", [kb.Logits, kb.LogProbs, kb.Probs, kb.Counts])
@pytest.mark.parametrize("view_q", [kb.Logits, kb.LogProbs, kb.Probs, kb.Counts])
def test_float32_table_and_its_gradients(view_p, view_q):
    P, Q = draw(view_p, 5, 0), draw(view_q, 4, 1)
    if view_p is view_q:
        P[2] = Q[1]
    P, Q = P.requires_grad_(), Q.requires_grad_()
    weight = torch.randn(5, 4, generator=torch.Generator().manual_seed(2))
    table, want = kb.pairwise_kl(view_p(P), view_q(Q)), one_by_one(view_p, view_q, P, Q)
    assert table.dtype is torch.float32
    torch.testing.assert_close(table.double(), want, rtol=1e-6, atol=0)
    found = torch.autograd.grad((weight * table).sum(), (P, Q))
    expected = torch.autograd.grad((weight * want).sum(), (P, Q))
    for got, exact in zip(found, expected, strict=True):
        assert ((got - exact).abs() <= 1e-6 * exact.abs().amax(-1, keepdim=True)).all()


def test_close_peaked_and_infinite_pairs():
    Q = draw(kb.Logits, 6, 3)
    P = Q.clone()
    P[1] += 1e-4 * torch.randn(CLASSES, generator=torch.Generator().manual_seed(4))
    P[2, 0] = 60.0
    Q[3, 5:] = P[3, 7:] = P[4, 3] = -torch.inf
    P.requires_grad_(), Q.requires_grad_()
    table, want = kb.pairwise_kl(kb.Logits(P), kb.Logits(Q)), one_by_one(kb.Logits, kb.Logits, P, Q)
    assert table[0, 0] == table[5, 5] == 0
    assert torch.isinf(table).any()
    torch.testing.assert_close(table.double(), want, rtol=1e-6, atol=0)
    found = torch.autograd.grad(table[want.isfinite()].sum(), (P, Q))
    finite = torch.where(want.isfinite(), want, 0.0).detach()
    expected = torch.autograd.grad(want[want.isfinite()].sum(), (P, Q))
    # An entry is a sum of p·(log(p/q) − KL), whose difference cancels in peaked rows: a rounding of p·KL is left.
    rounding = torch.finfo(torch.float32).eps * P.detach().softmax(-1) * finite.sum(1, keepdim=True)
    for got, exact, allowed in zip(found, expected, (rounding, 0.0), strict=True):
        assert ((got - exact).abs() <= 1e-6 * exact.abs().amax(-1, keepdim=True) + allowed).all()


def test_infinite_pairs_have_no_gradient():
    P, Q = draw(kb.Logits, 2, 5), draw(kb.Logits, 2, 6)
    Q[:, 0] = -torch.inf
    P.requires_grad_(), Q.requires_grad_()
    table = kb.pairwise_kl(kb.Logits(P), kb.Logits(Q))
    assert torch.isinf(table).all()
    assert all(not g.any() for g in torch.autograd.grad(table.sum(), (P, Q)))


def test_batches_broadcast_and_second_derivatives_agree():
    P, Q = torch.randn(3, 1, 4, 7).requires_grad_(), torch.randn(2, 5, 7).requires_grad_()

    def derivatives(P, Q):
        table = kb.pairwise_kl(kb.Logits(P), kb.Logits(Q))
        first = torch.autograd.grad(table.square().sum(), (P, Q), create_graph=True)
        return table, *first, *torch.autograd.grad(sum(g.square().sum() for g in first), (P, Q))

    for got, exact in zip(derivatives(P, Q), derivatives(P.double(), Q.double()), strict=True):
        torch.testing.assert_close(got.double(), exact, rtol=1e-4, atol=1e-5)


def test_most_pairs_are_not_computed_one_by_one(monkeypatch):
    rows = []
    monkeypatch.setattr(
        pairwise_rows, "kl_rows", lambda tensors, encodings: rows.append(tensors[0]) or tensors[0].sum(-1)
    )
    x = draw(kb.Logits, 40, 7)
    kb.pairwise_kl(kb.Logits(x), kb.Logits(x))
    assert [r.shape for r in rows] == [(40, CLASSES)]
