"""Supports, ties, edges of the simplex, masks and wrappings of the divergences other than KL."""

import math

import pytest
import torch
from torch.distributions import Normal

import kullback as kb
from tests.tensors.divergences import DIVERGENCES, UNBOUNDED

VIEWS = [kb.Logits, kb.LogProbs, kb.Probs, kb.Counts]


def some_rows(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, dtype=torch.float64, generator=generator) for _ in range(2))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_equal_input_is_exactly_zero_with_zero_gradient(view, dtype):
    logits = some_rows(3, 7)[0]
    held = {kb.Logits: logits, kb.LogProbs: logits.log_softmax(-1)}.get(view, logits.softmax(-1)).to(dtype)
    if view in (kb.Probs, kb.Counts):
        held[0, 2] = 0
        held = held if view is kb.Counts else (held.double() / held.double().sum(-1, keepdim=True)).to(dtype)
    for name, f in DIVERGENCES.items():
        x, y = held.clone().requires_grad_(), held.clone().requires_grad_()
        value = f(view(x), view(y), validate=dtype != torch.bfloat16)
        assert (value == 0).all(), name
        if name != "renyi inf":  # a maximum of ties: any mixture of their slopes is a subgradient
            slopes = torch.autograd.grad(value.sum(), (x, y))
            inside = held != 0
            assert all((g[inside] == 0).all() and g.isfinite().all() for g in slopes), name


def test_a_class_that_q_excludes():
    p = torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]], dtype=torch.float64)
    q = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]], dtype=torch.float64)
    for name, f in DIVERGENCES.items():
        for wrap in (kb.Probs, lambda t: kb.Logits(t.log())):
            x, y = p.clone().requires_grad_(), q.clone().requires_grad_()
            value = f(wrap(x), wrap(y))
            assert value[0].isinf() == (name in UNBOUNDED), name
            assert value[1].isfinite(), name
            gradients = torch.autograd.grad(f(kb.Probs(x), kb.Probs(y)).sum(), (x, y))
            assert all(g.isfinite().all() for g in gradients), name
            if name in UNBOUNDED:
                assert all((g[0] == 0).all() for g in gradients), name


def test_disjoint_supports():
    p, q = kb.Logits(torch.tensor([0.0, -torch.inf])), kb.Probs(torch.tensor([0.0, 1.0]))
    assert kb.js(p, q).item() == pytest.approx(math.log(2))
    assert kb.total_variation(p, q) == kb.hellinger(p, q) == 1
    assert kb.skew_kl(p, q, 0.25).item() == pytest.approx(math.log(4))
    for order in (0.0, 0.5, 1.0, 2.0, math.inf):
        assert kb.renyi(p, q, order) == math.inf


@pytest.mark.parametrize("name", ["total_variation", "chi2", "renyi 2.0", "skew_kl 0.1", "renyi inf"])
def test_one_sided_derivative_at_a_probability_of_zero(name):
    """To counts of zero: the limit from above where it is finite, 0 where it is not."""
    f = DIVERGENCES[name]
    x = torch.tensor([3.0, 1.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([1.0, 2.0, 3.0, 0.0], dtype=torch.float64, requires_grad=True)
    gradients = torch.autograd.grad(f(kb.Counts(x), kb.Counts(y)), (x, y))
    step = 1e-7
    for which, i in ((0, 2), (1, 3)):
        moved = [x.detach().clone(), y.detach().clone()]
        moved[which][i] += step
        slope = (f(*map(kb.Counts, moved)) - f(kb.Counts(x.detach()), kb.Counts(y.detach()))) / step
        want = 0.0 if name == "skew_kl 0.1" and which == 0 else slope.item()
        if name == "total_variation" and which == 1:
            continue  # p = q = 0 is a tie
        assert gradients[which][i].item() == pytest.approx(want, abs=1e-5)


def test_total_variation_has_no_slope_at_a_tie():
    for dtype in (torch.float32, torch.float64):
        for other in ([0.5, 0.2, 0.3], [0.5, 0.4, 0.1]):
            x = torch.tensor([0.5, 0.3, 0.2], dtype=dtype, requires_grad=True)
            y = torch.tensor(other, dtype=dtype)
            (g,) = torch.autograd.grad(kb.total_variation(kb.Probs(x), kb.Probs(y)), x)
            sign = torch.sign(x - y).double().detach()
            assert sign[0] == 0
            want = 0.5 * (sign - (sign * x.detach().double()).sum())
            assert torch.allclose(g.double(), want, atol=1e-6)


def test_distances_have_bounded_gradients_next_to_equality():
    a, direction = some_rows(9)
    for gap in (1e-3, 1e-8, 1e-14):
        for f in (kb.js_distance, kb.hellinger):
            x = a.clone().requires_grad_()
            (g,) = torch.autograd.grad(f(kb.Logits(x), kb.Logits(a + gap * direction)), x)
            assert 1e-3 < g.norm() < 1


def test_masked_rows_and_reductions():
    a, b = some_rows(4, 5)
    a[1] = torch.nan
    mask = torch.tensor([True, False, True, True])
    weight = torch.tensor([1.0, 5.0, 2.0, 0.0], dtype=torch.float64)
    for name, f in DIVERGENCES.items():
        x = a.clone().requires_grad_()
        rows = f(kb.Logits(x), kb.Logits(b), mask=mask)
        assert rows[1] == 0, name
        assert rows.isfinite().all(), name
        (g,) = torch.autograd.grad(rows.sum(), x)
        assert (g[1] == 0).all(), name
        assert g.isfinite().all(), name
        mean = f(kb.Logits(a), kb.Logits(b), mask=mask, weight=weight, reduction="mean")
        assert torch.allclose(mean, (rows[0] + 2 * rows[2]) / 3), name
        assert torch.allclose(f(kb.Logits(a), kb.Logits(b), mask=mask, reduction="sum"), rows.sum()), name


def test_dimensions_broadcasting_strides_and_blocks():
    a, b = some_rows(2, 6, 40, 30)
    one = b[:1, :, :1]
    for name, f in DIVERGENCES.items():
        want = f(kb.Logits(a.movedim(1, -1)), kb.Logits(b.movedim(1, -1)))
        assert torch.equal(f(kb.Logits(a, dim=1), kb.Logits(b, dim=1)), want), name
        assert want.shape == (2, 40, 30)
        x = one.clone().requires_grad_()
        value = f(kb.Logits(a, dim=1), kb.Logits(x, dim=1))
        full = one.expand_as(a).clone().requires_grad_()
        expanded = f(kb.Logits(a, dim=1), kb.Logits(full, dim=1))
        assert torch.allclose(value, expanded, rtol=1e-14), name
        (g,) = torch.autograd.grad(value.sum(), x)
        (h,) = torch.autograd.grad(expanded.sum(), full)
        assert torch.allclose(g, h.sum((0, 2), keepdim=True), rtol=1e-10, atol=1e-12), name
        assert f(kb.Logits(a[:0], dim=1), kb.Logits(b[:0], dim=1)).shape == (0, 40, 30)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_low_precision_is_the_divergence_of_the_rounded_input(dtype):
    a, b = (t.to(dtype) for t in some_rows(5, 20))
    b = a + 0.01 * b
    for name, f in DIVERGENCES.items():
        got = f(kb.Logits(a), kb.Logits(b))
        assert got.dtype == torch.float32
        want = f(kb.Logits(a.double()), kb.Logits(b.double()))
        assert torch.allclose(got.double(), want, rtol=1.2e-7, atol=0), name


def test_units():
    p, q = (kb.Logits(t) for t in some_rows(4, 5))
    for name in ("js", "jeffreys", "skew_kl 0.1", "scaled_js 0.3", "renyi 2.0"):
        assert torch.allclose(DIVERGENCES[name](p, q, base=2) * math.log(2), DIVERGENCES[name](p, q), rtol=1e-14), name
    assert torch.allclose(kb.js_distance(p, q, base=2) ** 2, kb.js(p, q, base=2), rtol=1e-14)
    with pytest.raises(ValueError, match="No such unit"):
        kb.js_distance(p, q, base=1)


def test_what_is_refused_says_what_to_write():
    p = kb.Logits(torch.zeros(3))
    with pytest.raises(TypeError, match=r"write: .*js\(Logits\(a\)"):
        kb.js(torch.zeros(3), p)
    with pytest.raises(TypeError, match=r"Logits\(p\.logits\)"):
        kb.hellinger(Normal(0.0, 1.0), p)
    with pytest.raises(ValueError, match=r"alpha is out of range: it is the share of p"):
        kb.skew_kl(p, p, 1.5)
    with pytest.raises(ValueError, match=r"beta is out of range"):
        kb.scaled_js(p, p, math.nan)
    with pytest.raises(ValueError, match=r"0 <= alpha <= math\.inf"):
        kb.renyi(p, p, -0.5)
    with pytest.raises(TypeError, match=r"alpha=float\(alpha\)"):
        kb.renyi(p, p, torch.tensor(2.0))


def test_a_class_that_is_nearly_certain():
    """KL of 1e-25 and less, where log q/p of the heaviest class is nothing but rounding."""
    p = torch.tensor([1e7, 1e-10, 1e-18], dtype=torch.float64)
    q = torch.tensor([1.0, 1e-17 * (1 + 1e-5), 1e-25], dtype=torch.float64)
    exact = 1e-17 * 0.5e-10
    assert kb.kl(kb.Counts(p), kb.Counts(q)).item() == pytest.approx(exact, rel=1e-4)
    assert kb.js(kb.Counts(p), kb.Counts(q)).item() == pytest.approx(exact / 4, rel=1e-4)
    assert kb.total_variation(kb.Counts(p), kb.Counts(q)).item() == pytest.approx(1e-22, rel=1e-10)
