"""KL from 1e-30 to 1e3, every mix of views, up to the vocabulary of a language model, against mpmath.

Tolerances are the promise of the library: 1e-13 in float64, 1e-6 in float32; lower precision is the exact KL of the
rounded input, rounded once to float32 (1e-7).
"""

import itertools

import mpmath as mp
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import kullback as kb
from tests.tensors.exact import exact_kl, relative_error

VIEWS = (kb.Logits, kb.LogProbs, kb.Probs, kb.Counts)
MIXES = list(itertools.product(VIEWS, VIEWS))
FLOAT64, FLOAT32 = torch.float64, torch.float32
TOLERANCE = {FLOAT64: 1e-13, FLOAT32: 1e-6, torch.bfloat16: 1e-7, torch.float16: 1e-7}


def encode(logits, view, dtype):
    if view is kb.Logits:
        return logits.to(dtype)
    if view is kb.LogProbs:
        return logits.log_softmax(-1).to(dtype)
    probs = logits.softmax(-1)
    return (probs if view is kb.Probs else 1234.5 * probs).to(dtype)


def rows(seed, size, distance, spread=3.0):
    generator = torch.Generator().manual_seed(seed)
    p = spread * torch.randn(size, dtype=FLOAT64, generator=generator)
    return p, p + distance * torch.randn(size, dtype=FLOAT64, generator=generator)


def check(views, tensors, tolerance, gradient_tolerance):
    view_p, view_q = views
    x, y = (t.requires_grad_() for t in tensors)
    value = kb.kl(view_p(x), view_q(y))
    want, want_p, want_q = exact_kl(x.detach(), view_p, y.detach(), view_q)
    assert value >= 0
    assert relative_error(value.detach(), want) <= tolerance
    grad_p, grad_q = torch.autograd.grad(value, (x, y))
    assert relative_error(grad_p, want_p) <= gradient_tolerance
    assert relative_error(grad_q, want_q) <= gradient_tolerance


@pytest.mark.parametrize("distance", [300.0, 3.0, 1e-2, 1e-6, 1e-10, 1e-14, 2e-16])
@pytest.mark.parametrize(("view_p", "view_q"), MIXES)
def test_float64(view_p, view_q, distance):
    p, q = rows(1, 40, distance)
    if distance > 100:
        p, q = p.clamp(-300, 300), q.clamp(-300, 300)
    check((view_p, view_q), (encode(p, view_p, FLOAT64), encode(q, view_q, FLOAT64)), 1e-13, 1e-13)


@pytest.mark.parametrize("dtype", [FLOAT32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("distance", [3.0, 1e-2, 1e-4, 1e-7])
@pytest.mark.parametrize(("view_p", "view_q"), MIXES)
@pytest.mark.sample(5)
def test_lower_precision_is_the_exact_kl_of_the_rounded_input(view_p, view_q, distance, dtype):
    p, q = rows(2, 40, distance, spread=1.0)
    eps = torch.finfo(dtype).eps
    check((view_p, view_q), (encode(p, view_p, dtype), encode(q, view_q, dtype)), TOLERANCE[dtype], eps)


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32])
@pytest.mark.parametrize("distance", [20.0, 1.0, 1e-3, 1e-7, 1e-13])
@pytest.mark.parametrize(("view_p", "view_q"), [(kb.Logits, kb.Logits), (kb.Probs, kb.Logits), (kb.Probs, kb.Counts)])
@pytest.mark.sample(5)
def test_a_vocabulary_of_131072(view_p, view_q, distance, dtype):
    distinct, repeats = 64, 2048
    p, q = rows(3, distinct, distance)
    x, y = encode(p, view_p, dtype), encode(q, view_q, dtype)
    if view_p is kb.Probs:
        x = (x.double() / repeats).to(dtype)
    order = torch.randperm(distinct * repeats, generator=torch.Generator().manual_seed(4)) % distinct
    x_all, y_all = x[order].requires_grad_(), y[order].requires_grad_()
    value = kb.kl(view_p(x_all), view_q(y_all))
    want, want_p, want_q = exact_kl(x, view_p, y, view_q, times=[repeats] * distinct)
    tolerance = TOLERANCE[dtype]
    assert relative_error(value.detach(), want) <= tolerance
    grad_p, grad_q = torch.autograd.grad(value, (x_all, y_all))
    first = torch.stack([(order == i).nonzero()[0, 0] for i in range(distinct)])
    assert relative_error(grad_p[first], want_p) <= tolerance
    assert relative_error(grad_q[first], want_q) <= tolerance


def test_counts_with_smoothing_are_exact():
    x, y = torch.tensor([3.0, 1.0, 0.0], dtype=FLOAT64), torch.tensor([2.0, 0.0, 1.0], dtype=FLOAT64)
    value = kb.kl(kb.Counts(x, smoothing=0.1), kb.Counts(y, smoothing=1e-17))
    with mp.workdps(60):
        tenth, tiny = mp.mpf(0.1), mp.mpf(1e-17)
        p = [(mp.mpf(v) + tenth) / (4 + 3 * tenth) for v in (3, 1, 0)]
        q = [(mp.mpf(v) + tiny) / (3 + 3 * tiny) for v in (2, 0, 1)]
        want = mp.fsum(a * mp.log(a / b) for a, b in zip(p, q, strict=True))
    assert relative_error(value, want) <= 1e-15


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, torch.bfloat16, torch.float16])
def test_equal_input_gives_exactly_zero(view, dtype):
    x = encode(rows(5, 200, 0.0)[0], view, dtype).requires_grad_()
    y = x.detach().clone().requires_grad_()
    value = kb.kl(view(x), view(y))
    assert value.item() == 0.0
    assert all(torch.count_nonzero(g) == 0 for g in torch.autograd.grad(value, (x, y)))


@pytest.mark.parametrize("shift", [1.0, -5.0, 1e3, -1e4])
def test_a_shift_of_the_logits_changes_rounding_only(shift):
    p, q = rows(6, 50, 1e-3)
    step = 2.0**-30  # on this grid the shift is exact
    p, q = (torch.round(v / step) * step for v in (p, q))
    unshifted = kb.kl(kb.Logits(p), kb.Logits(q))
    assert torch.allclose(kb.kl(kb.Logits(p + shift), kb.Logits(q)), unshifted, rtol=1e-14, atol=0)
    assert torch.allclose(kb.kl(kb.Logits(p), kb.Logits(q + shift)), unshifted, rtol=1e-14, atol=0)


def test_logits_that_underflow_stay_inside_the_support():
    def kl(a, b):
        return kb.kl(kb.Logits(torch.tensor(a, dtype=FLOAT64)), kb.Logits(torch.tensor(b, dtype=FLOAT64))).item()

    assert kl([0.0, -1.0], [0.0, -800.0]) == pytest.approx(214.57093398710788, rel=1e-15)
    assert kl([0.0, -800.0], [0.0, -1.0]) == pytest.approx(0.31326168751822286, rel=1e-15)
    assert kl([1e4, -1e4], [-1e4, 1e4]) == 20000.0
    assert kl([0.0, -800.0], [0.0, 1000.0]) == 1000.0


@pytest.mark.parametrize(("view_p", "view_q"), MIXES)
def test_zeros(view_p, view_q):
    inf = float("inf")

    def make(view, probs):
        probs = torch.tensor(probs, dtype=FLOAT64)
        return (probs if view in (kb.Probs, kb.Counts) else probs.log()).requires_grad_()

    x = make(view_p, [[0.5, 0.5, 0.0, 0.0], [0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0]])
    y = make(view_q, [[0.25, 0.5, 0.25, 0.0], [0.0, 0.5, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])
    value = kb.kl(view_p(x), view_q(y))
    assert value[1] == inf
    assert value[2] == 0
    assert value[0].item() == pytest.approx(0.34657359027997264, rel=1e-15)
    grads = torch.autograd.grad(value.sum(), (x, y), create_graph=True)
    assert all(g.isfinite().all() for g in grads)
    assert all(torch.count_nonzero(g[1]) == 0 for g in grads), "an infinite row has zero gradient"
    want = exact_kl(x[0].detach(), view_p, y[0].detach(), view_q)
    assert relative_error(grads[0][0].detach(), want[1]) <= 1e-15
    assert relative_error(grads[1][0].detach(), want[2]) <= 1e-15
    assert torch.count_nonzero(grads[0][0, 2:]) == 0
    second = torch.autograd.grad(sum((g * g).sum() for g in grads), (x, y))
    assert all(g.isfinite().all() for g in second)


@pytest.mark.parametrize(("view_p", "view_q"), MIXES)
def test_disjoint_supports_are_infinite_with_zero_gradient(view_p, view_q):
    p, q = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=FLOAT64), torch.tensor([0.0, 0.0, 0.25, 0.75], dtype=FLOAT64)
    x = (p if view_p in (kb.Probs, kb.Counts) else p.log()).requires_grad_()
    y = (q if view_q in (kb.Probs, kb.Counts) else q.log()).requires_grad_()
    value = kb.kl(view_p(x), view_q(y))
    assert value == float("inf")
    grads = torch.autograd.grad(value, (x, y), create_graph=True)
    second = torch.autograd.grad(sum((g + g * g).sum() for g in grads), (x, y))
    assert all(torch.count_nonzero(g) == 0 for g in (*grads, *second))
    inside = torch.func.grad(lambda a, b: kb.kl(view_p(a), view_q(b)), (0, 1))(x.detach(), y.detach())
    assert all(torch.count_nonzero(g) == 0 for g in inside)


@pytest.mark.parametrize("scale", [1e-14, 1e-5, 1.0, 1e3, 1e30, 1e300])
def test_logits_of_any_size(scale):
    a = scale * torch.tensor([1.0, 0.0, -0.5], dtype=FLOAT64)
    b = scale * torch.tensor([-0.25, 1.0, 0.125], dtype=FLOAT64)
    check((kb.Logits, kb.Logits), (a, b), 1e-14, 1e-14)


def test_probabilities_near_the_smallest_number():
    p = torch.tensor([0.5, 0.5, 1e-310], dtype=FLOAT64)
    q = torch.tensor([1e-300, 1.0, 1e-308], dtype=FLOAT64)
    check((kb.Probs, kb.Probs), (p, q), 1e-14, 1e-14)
    check((kb.Probs, kb.Probs), (q.detach(), p.detach()), 1e-14, 1e-14)


def test_a_near_certain_class_keeps_the_digits_of_a_small_divergence():
    a, b = torch.tensor([0.0, 9.219], dtype=FLOAT64), torch.tensor([0.0, 16.165], dtype=FLOAT64)
    check((kb.Logits, kb.Logits), (a, b), 2e-15, 2e-15)


@pytest.mark.parametrize("distance", [1.0, 1e-9])
@pytest.mark.parametrize("side", [0, 1])
def test_a_finite_number_excludes_classes_of_one_side(side, distance):
    tensors = rows(5, 40, distance)
    tensors[side][3:9] = -1e30
    check((kb.Logits, kb.Logits), tensors, 1e-13, 1e-13)


@pytest.mark.parametrize(("p_is_sure", "q_is_sure"), [(40.0, 20.0), (20.0, 100.0), (90.0, 30.0)])
def test_transforms_keep_the_digits_of_nearly_certain_rows(p_is_sure, q_is_sure):
    x, y = (torch.linspace(0, end, 30, dtype=FLOAT64) for end in (1.0, 1.3))
    x[0], y[0] = p_is_sure, q_is_sure
    _, want_p, want_q = exact_kl(x, kb.Logits, y, kb.Logits)

    def kl(a, b):
        return kb.kl(kb.Logits(a), kb.Logits(b))

    by_reverse = torch.func.grad(kl, (0, 1))(x, y)
    by_forward = torch.func.jacfwd(kl, (0, 1))(x, y)
    for to_p, to_q in (by_reverse, by_forward):
        assert relative_error(to_p, want_p) <= 1e-13
        assert relative_error(to_q, want_q) <= 1e-13


def test_a_row_without_support_is_nan_alone_when_nobody_looks():
    a = torch.tensor([[-float("inf"), -float("inf")], [0.0, 1.0]])
    value = kb.kl(kb.Logits(a), kb.Logits(torch.zeros(2, 2)), validate=False)
    assert value.isnan().tolist() == [True, False]


LOGITS = st.integers(-(10**7), 10**7).map(lambda n: n / 1000)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(LOGITS, LOGITS), min_size=1, max_size=6),
    st.sampled_from([FLOAT64, FLOAT32, torch.bfloat16]),
)
def test_never_negative_never_nan(pairs, dtype):
    x, y = (torch.tensor(side, dtype=FLOAT64).to(dtype).requires_grad_() for side in zip(*pairs, strict=True))
    value = kb.kl(kb.Logits(x), kb.Logits(y))
    assert 0 <= value < float("inf")
    assert all(g.isfinite().all() for g in torch.autograd.grad(value, (x, y)))
    want = exact_kl(x.detach(), kb.Logits, y.detach(), kb.Logits)[0]
    if want > 1e-60:  # below, a definition at 100 digits cancels
        assert relative_error(value.detach(), want) <= (1e-13 if dtype == FLOAT64 else 1e-7)
