"""Native entropy, cross-entropy and log of the sum of weights: against 60 digits, and against the reference."""

from __future__ import annotations

import contextlib

import mpmath as mp
import pytest
import torch

import kullback as kb
from kullback.kernels import native
from kullback.kernels.entropy_rows import logsumexp_rows
from kullback.kernels.native_rows import reference_only
from kullback.kernels.sides import Encoding

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native library")

INF = float("inf")
# Relative, of values and of the largest entry of a gradient.
VALUE = {torch.float64: 1e-13, torch.float32: 2e-7, torch.bfloat16: 2e-7, torch.float16: 2e-7}
GRADIENT = {torch.float64: 1e-13, torch.float32: 1e-6, torch.bfloat16: 4e-3, torch.float16: 1e-3}
DTYPES = list(VALUE)


def draw(classes, case, seed):
    generator = torch.Generator().manual_seed(seed)
    a, b = 2 * torch.randn(2, classes, generator=generator, dtype=torch.float64)
    if case == "near":
        b = a + 1e-6 * b
    elif case == "certain":
        a[0], b[0] = 33.0, 31.0
    elif case == "shifted":
        a, b = a + 1e3, b - 1e4
    elif case == "wide":
        a, b = 20 * a, 20 * b
    elif case == "masked":
        a[classes // 2 :: 3] = -INF
        b[classes - 1] = a[classes - 1] = -INF if classes > 1 else 0.0
    elif case == "uniform":
        a, b = torch.zeros_like(a), torch.zeros_like(b)
    return a, b


def log_weights(x, linear):
    found = [mp.mpf(v) for v in x.double().tolist()]
    return [(mp.log(v) if v > 0 else -mp.inf) for v in found] if linear else found


def normalised(logs):
    top = max(logs)
    total = top + mp.log(mp.fsum(mp.exp(v - top) for v in logs))
    return [v - total for v in logs], total


def truth(x, y, linear_p, linear_q):
    """H(p, q), its derivatives, and the log of p's sum."""
    with mp.workdps(60):
        (log_p, total_p), (log_q, total_q) = (
            normalised(log_weights(t, linear)) for t, linear in ((x, linear_p), (y, linear_q))
        )
        p, q = [mp.exp(v) for v in log_p], [mp.exp(v) for v in log_q]
        if any(u > 0 and v == 0 for u, v in zip(p, q, strict=True)):
            return mp.inf, None, None, total_p
        value = -mp.fsum(u * v for u, v in zip(p, log_q, strict=True) if u > 0)
        per_p = [mp.exp(-total_p)] * len(p) if linear_p else p
        to_p = [-w * (v + value) if v > -mp.inf else mp.mpf(0) for w, v in zip(per_p, log_q, strict=True)]
        to_q = [
            (mp.exp(-total_q) * (1 - u / v if v > 0 else 1) if linear_q else v - u) for u, v in zip(p, q, strict=True)
        ]
        return value, to_p, to_q, total_p


def close(found, want, tolerance):
    want = want if isinstance(want, list) else [want]
    scale = max(abs(w) for w in want)
    for got, expected in zip(found.reshape(-1).tolist(), want, strict=True):
        if expected == mp.inf:
            assert got == INF
        else:
            assert abs(mp.mpf(got) - expected) <= tolerance * scale, (got, expected)


CASES = ["plain", "near", "certain", "shifted", "wide", "masked", "uniform"]
VIEWS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("linear_p", "linear_q"), VIEWS)
@pytest.mark.parametrize("route", ["native", "reference"])
@pytest.mark.sample(4)
def test_against_the_truth(route, linear_p, linear_q, case, dtype):
    if (linear_p or linear_q) and case in ("wide", "certain") and dtype is torch.float16:
        case = "plain"  # beyond the range of float16
    for classes in (1, 2, 7, 70):
        a, b = draw(classes, case, classes)
        x, y = (
            (t.softmax(-1) if linear else t).to(dtype).requires_grad_() for t, linear in ((a, linear_p), (b, linear_q))
        )
        value, to_p, to_q, total = truth(x.detach(), y.detach(), linear_p, linear_q)
        entropy, of_entropy, _, _ = truth(x.detach(), x.detach(), linear_p, linear_p)
        p, q = (kb.Counts if linear_p else kb.Logits)(x), (kb.Counts if linear_q else kb.Logits)(y)
        with contextlib.nullcontext() if route == "native" else reference_only():
            cross, alone = kb.cross_entropy(p, q), kb.entropy(p)
            summed = logsumexp_rows((x,), (Encoding(linear=linear_p),))
            for rows in (cross, alone, summed):
                assert ("Native" in rows.grad_fn.name()) == (route == "native")
            with torch.no_grad():
                assert torch.equal(kb.cross_entropy(p, q), cross)
        close(cross.detach(), value, VALUE[dtype])
        close(alone.detach(), entropy, VALUE[dtype])
        assert abs(summed.item() - total) <= VALUE[dtype] * max(abs(total), 0.25)
        (found,) = torch.autograd.grad(alone, x)
        half = max(torch.finfo(dtype).smallest_normal, 1e-50)  # below, the truth is rounding
        if max(abs(g) for g in of_entropy) > half:
            close(found, of_entropy, GRADIENT[dtype])
        (found,) = torch.autograd.grad(summed, x)
        one = [mp.exp(-total)] * classes if linear_p else [mp.exp(v) for v in normalised(log_weights(x.detach(), 0))[0]]
        close(found, one, GRADIENT[dtype])
        if to_p is not None and to_q is not None:
            for found, want in zip(torch.autograd.grad(cross, (x, y)), (to_p, to_q), strict=True):
                if max(abs(g) for g in want) > half:
                    close(found, want, GRADIENT[dtype])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("classes", [1025, 5000])
def test_long_rows_whose_largest_class_comes_late(classes, dtype):
    generator = torch.Generator().manual_seed(0)
    ramp = torch.linspace(0, 60, classes, dtype=torch.float64)
    a, b = (scale * ramp + torch.randn(3, classes, generator=generator, dtype=torch.float64) for scale in (1, -2))
    found = []
    for context in (contextlib.nullcontext(), reference_only()):
        x, y = (t.to(dtype).requires_grad_() for t in (a, b))
        with context:
            value = kb.cross_entropy(kb.Logits(x), kb.Logits(y)) + kb.entropy(kb.Logits(x))
        found.append((value.detach(), *torch.autograd.grad(value.sum(), (x, y))))
    (value, *gradients), (want, *expected) = found
    torch.testing.assert_close(value, want, rtol=VALUE[dtype], atol=0)
    for got, g in zip(gradients, expected, strict=True):
        assert ((got - g).abs() <= GRADIENT[dtype] * g.abs().amax(-1, keepdim=True)).all()


def test_layouts_masks_and_second_derivatives():
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 6, 4, generator=generator, dtype=torch.float64)
    keep = torch.tensor([True, False, True, True])
    for p, q in ((kb.Logits(a, dim=0), kb.Logits(b, dim=0)), (kb.Logits(a.t()[:, ::2]), kb.Logits(b.t()[:, ::2]))):
        with reference_only():
            want = kb.cross_entropy(p, q, mask=keep), kb.entropy(p, mask=keep)
        torch.testing.assert_close((kb.cross_entropy(p, q, mask=keep), kb.entropy(p, mask=keep)), want)
    x, y = a[:2].clone().requires_grad_(), b[:2].clone().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x, y: kb.cross_entropy(kb.Logits(x), kb.Logits(y)), (x, y))
    assert torch.autograd.gradgradcheck(lambda x: kb.entropy(kb.Logits(x)), (x,))
    assert torch.autograd.gradgradcheck(lambda x: kb.entropy(kb.Counts(x.exp())), (x,))


def test_shared_rows():
    a, b = torch.randn(2, 5, 9, dtype=torch.float64)
    x, y = a[0].clone().requires_grad_(), b.clone().requires_grad_()
    found = torch.autograd.grad(kb.cross_entropy(kb.Logits(x), kb.Logits(y)).sum(), (x, y))
    with reference_only():
        want = torch.autograd.grad(kb.cross_entropy(kb.Logits(x), kb.Logits(y)).sum(), (x, y))
    torch.testing.assert_close(found, want)


def test_compiled_code_calls_the_native_kernel():
    def function(x, y):
        return kb.entropy(kb.Logits(x)) + kb.cross_entropy(kb.Logits(x), kb.Logits(y))

    a, b = (torch.randn(3, 9, dtype=torch.float64).requires_grad_() for _ in range(2))
    torch._dynamo.reset()
    value = torch.compile(function, fullgraph=True, backend="aot_eager")(a, b)
    assert torch.equal(value, function(a, b))
    want = torch.autograd.grad(function(a, b).sum(), (a, b))
    for got, expected in zip(torch.autograd.grad(value.sum(), (a, b)), want, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("bad", [[0.0, float("nan"), 1.0], [0.0, INF, 1.0], [-INF, -INF, -INF]])
def test_bad_rows_are_explained(bad):
    x = torch.tensor([[0.0, 1.0, 2.0], bad])
    with pytest.raises(kb.InputValueError):
        kb.entropy(kb.Logits(x))
    with pytest.raises(kb.InputValueError):
        kb.cross_entropy(kb.Logits(torch.zeros(2, 3)), kb.Logits(x))
    assert kb.entropy(kb.Logits(x), validate=False).isnan().tolist() == [False, True]
