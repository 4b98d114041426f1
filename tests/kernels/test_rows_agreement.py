"""Native rows against the reference: values, gradients, messages, for every dtype, view and layout."""

from __future__ import annotations

import contextlib
import functools
import math

import pytest
import torch

import kullback as kb
from kullback.kernels import native, row_op
from kullback.kernels.native_rows import reference_only

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native library")

INF = float("inf")
# Relative, of values and of the largest gradient entry of a row: rows of floats are computed in float.
VALUE = {torch.float64: 1e-13, torch.float32: 1e-6, torch.bfloat16: 1e-6, torch.float16: 1e-6}
GRADIENT = {torch.float64: 1e-13, torch.float32: 1e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
DTYPES = list(VALUE)


def both_ways(p, q, function=kb.kl, **options):
    """Value and gradients, native and reference, of sum_i (i + 1) D_i."""
    found = []
    for context in (contextlib.nullcontext(), reference_only()):
        x, y = (v.tensor.detach().clone(memory_format=torch.preserve_format).requires_grad_() for v in (p, q))
        with context:
            value = function(p.with_tensor(x), q.with_tensor(y), **options)
        assert ("Native" in value.grad_fn.name()) == (not found) or options
        weights = torch.arange(1.0, value.numel() + 1, dtype=value.dtype).reshape(value.shape)
        finite = value.detach().isfinite()
        torch.where(finite, value, 0.0).mul(weights).sum().backward()
        found.append((value.detach(), x.grad, y.grad))
    return found


def agree(p, q, *, function=kb.kl, value_tolerance=None, gradient_tolerance=None, **options):
    (value, *gradients), (want, *want_gradients) = both_ways(p, q, function=function, **options)
    dtype = value.dtype if p.tensor.dtype == q.tensor.dtype == torch.float64 else p.tensor.dtype
    assert value.dtype == want.dtype
    torch.testing.assert_close(value, want, rtol=value_tolerance or VALUE[dtype], atol=0)
    with torch.no_grad():  # a value that no gradient will follow may be found by another route
        torch.testing.assert_close(function(p, q, **options), want, rtol=value_tolerance or VALUE[dtype], atol=0)
    for found, expected in zip(gradients, want_gradients, strict=True):
        assert found.dtype == expected.dtype
        assert found.isfinite().all()
        scale = expected.double().abs().amax(-1, keepdim=True)
        error = (found.double() - expected.double()).abs()
        # The gradient of a mixture to a certain side is the difference of two equal numbers, each held to 32 digits.
        info = torch.finfo(found.dtype)
        smallest = info.smallest_normal * info.eps if function is kb.kl else 1e-28
        assert (error <= (gradient_tolerance or GRADIENT[found.dtype]) * scale + smallest).all()


def logits(rows, classes, distance, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a = 2 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    b = a + distance * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    return a.to(dtype), b.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distance", [10.0, 1.0, 0.1, 1e-3, 1e-6])
@pytest.mark.parametrize("classes", [1, 2, 17, 49, 64, 127, 1000, 1024, 1025, 5000])
def test_logits(classes, distance, dtype):
    a, b = logits(3, classes, distance, dtype)
    agree(kb.Logits(a), kb.Logits(b))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distance", [3.0, 1e-2, 1e-5])
@pytest.mark.parametrize(("view_p", "view_q"), [
    (kb.Probs, kb.Probs), (kb.Probs, kb.Logits), (kb.LogProbs, kb.Probs), (kb.Counts, kb.LogProbs),
])  # fmt: skip
def test_views(view_p, view_q, distance, dtype):
    def hold(x, view):
        return view({kb.Logits: x, kb.LogProbs: x.log_softmax(-1)}.get(view, x.softmax(-1)).to(dtype))

    a, b = logits(4, 333, distance, torch.float64)
    agree(hold(a, view_p), hold(b, view_q))


@pytest.mark.parametrize("distance", [1e-3, 1e-8, 1e-13])
@pytest.mark.parametrize("classes", [2, 50, 1030])
@pytest.mark.parametrize("narrow", ["neither", "p", "q"])
def test_weights_whose_logarithms_need_more_than_double(distance, classes, narrow):
    a, b = logits(3, classes, distance, torch.float64)
    p, q = 37 * a.softmax(-1), 1e5 * b.softmax(-1)
    p = p.float() if narrow == "p" else p
    q = q.float() if narrow == "q" else q
    agree(kb.Counts(p), kb.Counts(q), value_tolerance=1e-13, gradient_tolerance=1e-6 if narrow != "neither" else None)
    agree(kb.Counts(p, smoothing=0.3), kb.Logits((p.double() + 0.3).log() + (b - a)), value_tolerance=1e-13,
          gradient_tolerance=1e-6 if narrow == "p" else None)  # fmt: skip
    q[0, 0], p[1, 1] = 7.0, 0.0
    agree(kb.Logits(a), kb.Counts(q), value_tolerance=1e-13, gradient_tolerance=1e-6 if narrow == "q" else None)
    agree(kb.Counts(p), kb.Logits(b), value_tolerance=1e-13, gradient_tolerance=1e-6 if narrow == "p" else None)


@pytest.mark.parametrize("view_q", [kb.Logits, kb.LogProbs])
def test_nearly_certain_rows_that_are_nearly_equal(view_q):
    a, b = (4 * x for x in logits(40, 60, 1e-8, torch.float64))
    agree(kb.Logits(a.float()), view_q(b.log_softmax(-1).float()))


SPARSE = {
    "labels": lambda x: torch.nn.functional.one_hot(x.argmax(-1), x.shape[-1]).float(),
    "a few classes": lambda x: torch.where(x > 1, x, 0.0),
    "two levels": lambda x: torch.where(x > 0, 2.0, 1.0),
    "equal weights": torch.ones_like,
    "large weights": lambda x: 1e30 * x.abs(),
}


@pytest.mark.parametrize("name", SPARSE, ids=str)
@pytest.mark.parametrize("classes", [64, 77])
def test_weights_of_all_sizes(name, classes):
    a, b = logits(4, classes, 3.0, torch.float32)
    weights = SPARSE[name](a)
    agree(kb.Counts(weights), kb.Logits(b))
    agree(kb.Counts(weights), kb.Counts(SPARSE[name](a) + b.exp() * weights.amax()))
    if bool((weights > 0).all()):
        agree(kb.Logits(b), kb.Counts(weights))
    agree(kb.Counts(weights, smoothing=0.5), kb.Counts(b.exp(), smoothing=1.0))


@pytest.mark.parametrize("weights", [
    lambda x: torch.where(x > 0, x.abs(), 1e-39), lambda x: torch.where(x > 0, 3e-39, 1e-39),
])  # fmt: skip
def test_subnormal_weights(weights):
    """Values only: the derivatives are beyond the range of float."""
    a, b = logits(4, 77, 3.0, torch.float32)
    for p, q in ((kb.Counts(weights(a)), kb.Logits(b)), (kb.Logits(b), kb.Counts(weights(a)))):
        with reference_only():
            want = kb.kl(p, q)
        torch.testing.assert_close(kb.kl(p, q), want, rtol=VALUE[torch.float32], atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shift", [1000.0, 3000.0, 1e6, -1e6])
def test_a_common_shift_changes_nothing(shift, dtype):
    a, b = logits(3, 300, 1.0, dtype)
    agree(kb.Logits(a + shift), kb.Logits(b + shift))
    agree(kb.Logits(a), kb.Logits(b + shift))


def test_a_shift_that_swallows_all_differences_leaves_a_uniform_row():
    a, _ = logits(3, 300, 1.0, torch.float64)
    b = torch.full_like(a, 1e30)
    entropy = -(a.log_softmax(-1) * a.softmax(-1)).sum(-1)
    torch.testing.assert_close(kb.kl(kb.Logits(a), kb.Logits(b)), math.log(300) - entropy, rtol=1e-13, atol=0)


MIXTURES = {
    "js": kb.js,
    "skew_kl 0.1": functools.partial(kb.skew_kl, alpha=0.1),
    "skew_kl 0.999": functools.partial(kb.skew_kl, alpha=0.999),
    "scaled_js 0.3": functools.partial(kb.scaled_js, beta=0.3),
    "scaled_js 1e-4": functools.partial(kb.scaled_js, beta=1e-4),
    "scaled_js 1 - 1e-5": functools.partial(kb.scaled_js, beta=1 - 1e-5),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distance", [10.0, 1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("name", MIXTURES, ids=str)
@pytest.mark.sample(3)
def test_mixtures(name, distance, dtype):
    for classes in (1, 2, 49, 1025):
        a, b = logits(3, classes, distance, dtype)
        agree(kb.Logits(a), kb.Logits(b), function=MIXTURES[name])
    a, b = (x.to(dtype).t().contiguous().t() for x in logits(3, 200, distance, torch.float64))
    agree(kb.Logits(a + 3), kb.LogProbs(b.double().log_softmax(-1).to(dtype)), function=MIXTURES[name])
    agree(kb.Probs(a.double().softmax(-1).to(dtype)), kb.Logits(b), function=MIXTURES[name])
    agree(kb.Logits(a), kb.Counts(b.double().softmax(-1).to(dtype)), function=MIXTURES[name])


@pytest.mark.parametrize("name", MIXTURES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_mixtures_of_certain_rows(name, dtype):
    a, b = logits(4, 300, 1.0, dtype)
    a[0, 3] = b[0, 3] = 30.0  # both certain of the same class
    a[1, 3] = b[1, 4] = 30.0  # of different ones
    a[2, 3] = 2000.0
    agree(kb.Logits(a), kb.Logits(b), function=MIXTURES[name])


@pytest.mark.parametrize("name", MIXTURES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distance", [1.0, 1e-2])
def test_mixtures_of_rows_with_excluded_classes(name, distance, dtype):
    a, b = logits(5, 200, distance, dtype)
    a[0, ::7] = b[0, ::7] = -INF  # the same classes
    a[1, ::5] = -INF  # only q has them
    b[2, 3:60] = -INF  # only p has them
    a[3, 1:], a[3, 0] = -INF, 0  # p is certain
    a[4, 5] = b[4, 6] = -INF
    # To a side that alone has nearly all of its classes the derivative is nearly constant: the rest has lost digits.
    tolerance = 1e-11 if dtype == torch.float64 else None
    agree(kb.Logits(a), kb.Logits(b), function=MIXTURES[name], gradient_tolerance=tolerance)


@pytest.mark.parametrize("name", MIXTURES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_mixtures_of_disjoint_rows(name, dtype):
    a, b = logits(1, 200, 1.0, dtype)
    a[:, 150:], b[:, :150] = -INF, -INF
    (value, *gradients), (want, *_) = both_ways(kb.Logits(a), kb.Logits(b), function=MIXTURES[name])
    torch.testing.assert_close(value, want, rtol=VALUE[dtype], atol=0)
    # All derivatives are alike and the gradients 0, but for what rounding leaves of their mean.
    assert all(g.abs().max() <= torch.finfo(dtype).eps for g in gradients)


@pytest.mark.parametrize("name", MIXTURES, ids=str)
@pytest.mark.parametrize("sides", ["p", "q", "both"])
def test_mixtures_of_weights_that_are_zero(name, sides):
    a, b = logits(4, 60, 1.0, torch.float32)
    a[0, 5] = b[1, 6] = a[2, 7] = b[2, 7] = -INF
    p = kb.Counts(a.exp()) if sides != "q" else kb.Logits(a)
    q = kb.Counts(b.exp()) if sides != "p" else kb.Logits(b)
    agree(p, q, function=MIXTURES[name])


def test_equal_rows_have_mixtures_of_exactly_zero():
    a, _ = logits(3, 500, 1.0, torch.float32)
    for function in MIXTURES.values():
        x, y = a.clone().requires_grad_(), a.clone().requires_grad_()
        value = function(kb.Logits(x), kb.Logits(y))
        assert "Native" in value.grad_fn.name()
        assert (value == 0).all()
        assert all((g == 0).all() for g in torch.autograd.grad(value.sum(), (x, y)))


RATIOS = {
    "jeffreys": kb.jeffreys,
    "total_variation": kb.total_variation,
    "hellinger": kb.hellinger,
    "chi2": kb.chi2,
    "js_distance": kb.js_distance,
    "renyi 1e-9": functools.partial(kb.renyi, alpha=1e-9),
    "renyi 0.3": functools.partial(kb.renyi, alpha=0.3),
    "renyi 1 + 1e-9": functools.partial(kb.renyi, alpha=1 + 1e-9),
    "renyi 2": functools.partial(kb.renyi, alpha=2.0),
    "renyi 30": functools.partial(kb.renyi, alpha=30.0),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("distance", [1.0, 1e-3])
@pytest.mark.parametrize("name", RATIOS, ids=str)
@pytest.mark.sample(4)
def test_ratios(name, distance, dtype):
    for classes in (1, 2, 49, 1025):
        a, b = logits(3, classes, distance, dtype)
        agree(kb.Logits(a), kb.Logits(b), function=RATIOS[name])
    a, b = logits(3, 200, distance, torch.float64)
    agree(kb.Probs(a.softmax(-1).to(dtype)), kb.Logits(b.to(dtype)), function=RATIOS[name])
    agree(kb.Logits(a.to(dtype)), kb.Counts(b.softmax(-1).to(dtype)), function=RATIOS[name])


@pytest.mark.parametrize("name", RATIOS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_ratios_of_certain_rows_and_excluded_classes(name, dtype):
    a, b = logits(4, 300, 1.0, dtype)
    a[0, 3] = b[0, 3] = 30.0  # both certain of the same class
    a[1, 3] = b[1, 4] = 30.0  # of different ones
    a[2, 3] = 2000.0
    agree(kb.Logits(a), kb.Logits(b), function=RATIOS[name])
    a, b = logits(5, 200, 1.0, dtype)
    a[0, ::7] = b[0, ::7] = -INF  # the same classes
    a[1, ::5] = -INF  # only q has them
    b[2, 3:60] = -INF  # only p has them
    a[3, 1:], a[3, 0] = -INF, 0  # p is certain
    a[4, 5] = b[4, 6] = -INF
    agree(
        kb.Logits(a), kb.Logits(b), function=RATIOS[name], gradient_tolerance=1e-11 if dtype == torch.float64 else None
    )
    a, b = logits(4, 60, 1.0, dtype)
    a[0, 5] = b[1, 6] = a[2, 7] = b[2, 7] = -INF
    agree(kb.Counts(a.exp()), kb.Counts(b.exp()), function=RATIOS[name])
    agree(kb.Counts(a.exp()), kb.Logits(b), function=RATIOS[name])
    agree(kb.Logits(a), kb.Counts(b.exp()), function=RATIOS[name])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distance", [1.0, 1e-3])
def test_excluded_classes(dtype, distance):
    a, b = logits(5, 200, distance, dtype)
    a[0, ::7] = b[0, ::7] = -INF  # the same classes
    a[1, ::5] = -INF  # q has mass outside the support of p
    b[2, 3] = -INF  # infinite
    a[3, 1:] = -INF  # one class only
    a[3, 0] = 0
    a[4], b[4] = -INF, -INF
    a[4, 150:], b[4, 150:] = 1.0, torch.linspace(0, distance, 50)
    agree(kb.Logits(a), kb.Logits(b))


def test_large_finite_numbers_stand_for_excluded_classes():
    a, b = logits(3, 100, 1.0, torch.float32)
    a[:, 10:20] = b[:, 10:30] = torch.finfo(torch.float32).min
    a[:, 20:30] = -1e9
    agree(kb.Logits(a), kb.Logits(b))


def test_a_class_that_underflows_still_counts():
    a = torch.zeros(60)
    b = a.clone()
    a[7], b[7] = -100.0, -120.0
    agree(kb.Logits(a), kb.Logits(b), value_tolerance=1e-2)  # a subnormal number of 9 bits


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("classes", [1, 10, 63, 64, 1000, 5000])
def test_equal_rows_give_exactly_zero(classes, dtype):
    a, _ = logits(4, classes, 1.0, dtype)
    x, y = a.clone().requires_grad_(), a.clone().requires_grad_()
    value = kb.kl(kb.Logits(x), kb.Logits(y))
    assert (value == 0).all()
    assert all((g == 0).all() for g in torch.autograd.grad(value.sum(), (x, y)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_single_class_gives_exactly_zero(dtype):
    a, b = (
        torch.tensor([[18.309456], [1.0], [0.1]], dtype=dtype),
        torch.tensor([[1.0], [18.309456], [700.3]], dtype=dtype),
    )
    for p, q in ((a, b), (torch.cat([a, torch.full_like(a, -INF)], -1), torch.cat([b, torch.full_like(b, -INF)], -1))):
        for function in (kb.kl, *MIXTURES.values()):
            assert (function(kb.Logits(p), kb.Logits(q)) == 0).all()


LAYOUTS = {
    "transposed": lambda x: x.reshape(6, 4, -1).transpose(0, 1),
    "every second class": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "classes first": lambda x: x.t().contiguous().t(),
    "padded rows": lambda x: torch.nn.functional.pad(x, (0, 5))[:, :-5],
    "one row": lambda x: x[0],
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_layouts(layout, dtype):
    a, b = (LAYOUTS[layout](x) for x in logits(24, 77, 1.0, dtype))
    agree(kb.Logits(a), kb.Logits(b))
    agree(kb.Logits(a), kb.Logits(b.contiguous()))


@pytest.mark.parametrize(("shape_p", "shape_q"), [((5, 1, 90), (4, 90)), ((90,), (3, 90)), ((3, 90), (1, 90))])
def test_broadcast_batches(shape_p, shape_q):
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(shape_p, generator=generator), torch.randn(shape_q, generator=generator)
    agree(kb.Logits(a), kb.Logits(b))


def test_rows_that_are_left_out_are_zero_whatever_they_hold():
    a, b = logits(4, 100, 1.0, torch.float32)
    a[1], b[2] = float("nan"), INF
    agree(kb.Logits(a), kb.Logits(b), mask=torch.tensor([True, False, False, True]))


def test_a_row_without_incoming_gradient_is_not_read():
    a, b = logits(2, 100, 1.0, torch.float32)
    b[1] = float("nan")
    b.requires_grad_()
    kb.kl(kb.Logits(a), kb.Logits(b), validate=False)[0].backward()
    assert (b.grad[1] == 0).all()
    assert b.grad[0].isfinite().all()


BAD = {
    "nan": (kb.Logits, [0.0, math.nan, 1.0]),
    "plus infinity": (kb.Logits, [0.0, INF, 1.0]),
    "nothing left": (kb.Logits, [-INF, -INF, -INF]),
    "logits as log-probabilities": (kb.LogProbs, [0.5, 1.0, -2.0]),
    "unnormalised log-probabilities": (kb.LogProbs, [-0.5, -1.0, -2.0]),
    "negative probability": (kb.Probs, [-0.5, 1.0, 0.5]),
    "sum of probabilities": (kb.Probs, [0.5, 0.5, 0.5]),
    "no counts": (kb.Counts, [0.0, 0.0, 0.0]),
    "negative counts": (kb.Counts, [-1.0, 3.0, 1.0]),
}


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("bad", BAD, ids=str)
@pytest.mark.parametrize("recorded", [False, True])
def test_messages_are_the_same(bad, side, recorded):
    view, row = BAD[bad]
    views = [kb.Logits(torch.zeros(2, 3, requires_grad=recorded)) for _ in range(2)]
    good = torch.tensor([[0.2, 0.3, 0.5]])
    good = good.log() if view in (kb.LogProbs, kb.Logits) else good
    views[side] = view(torch.cat([good, torch.tensor([row])]))
    messages = []
    for context in (contextlib.nullcontext(), reference_only()):
        with context, pytest.raises(kb.InputValueError) as raised:
            kb.kl(*views)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("function", [kb.kl, kb.js, kb.jeffreys, kb.total_variation])
@pytest.mark.parametrize("shapes", [((7,), (5, 3, 7)), ((5, 1, 7), (3, 7)), ((1, 7), (5, 3, 7))])
def test_gradients_of_shared_rows_are_native(function, shapes, monkeypatch):
    p, q = (torch.randn(shape, generator=torch.Generator().manual_seed(i)) for i, shape in enumerate(shapes))
    mask = torch.rand(5, 3, generator=torch.Generator().manual_seed(2)) > 0.3

    def gradients(p, q):
        p, q = p.detach().requires_grad_(), q.detach().requires_grad_()
        weight = torch.linspace(1, 2, 15, dtype=p.dtype).reshape(5, 3)
        return torch.autograd.grad(function(kb.Logits(p), kb.Logits(q), mask=mask, weight=weight).sum(), (p, q))

    with reference_only():
        want = gradients(p.double(), q.double())
    monkeypatch.setattr(row_op, "reference_gradients", None)
    for got, exact in zip(gradients(p, q), want, strict=True):
        assert got.shape == exact.shape
        assert ((got - exact).abs() <= 1e-6 * exact.abs().max()).all()


@pytest.mark.parametrize(
    "views", [(kb.Logits, kb.Logits), (kb.Counts, kb.Logits), (kb.Logits, kb.Counts), (kb.Counts, kb.Counts)]
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0])
def test_generalized_kl_is_native(views, dtype, zeros, spread):
    generator = torch.Generator().manual_seed(0)
    a = 2 * torch.randn(6, 133, generator=generator, dtype=torch.float64)
    b = a + spread * torch.randn(6, 133, generator=generator, dtype=torch.float64)
    b = b.clamp(-75.0, 75.0)  # float32 holds e^b and e^(a−b)
    a[3] = b[3]
    if zeros:
        a[:, 5], a[:, 9], b[:, 9], b[1, 7] = -INF, -INF, -INF, -INF
    sides = [x.exp() if view is kb.Counts else x for x, view in zip((a, b), views, strict=True)]

    def derivatives(native_code):
        p, q = (x.to(dtype).requires_grad_() for x in sides)
        with contextlib.nullcontext() if native_code else reference_only():
            value = kb.generalized_kl(views[0](p), views[1](q))
            assert (type(value.grad_fn).__name__ == "_NativeRowsBackward") == native_code
            return value, *torch.autograd.grad(value[value.isfinite()].sum(), (p, q))

    (value, *found), (want, *expected) = derivatives(True), derivatives(False)
    torch.testing.assert_close(value, want, rtol=VALUE[dtype], atol=0)
    for got, exact in zip(found, expected, strict=True):
        assert ((got - exact).abs() <= GRADIENT[dtype] * exact.abs().amax(-1, keepdim=True)).all()
