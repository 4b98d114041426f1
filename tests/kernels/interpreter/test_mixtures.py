"""Mixtures, entropy and cross-entropy by Triton against 50 digits, as `test_kl.py` has it for KL."""

from __future__ import annotations

import math

import pytest
import torch

import kullback as kb
from tests.kernels.interpreter.test_kl import GRADIENT, INF, near
from tests.kernels.interpreter.truth import (
    cross_entropy_terms,
    divergence_truth,
    entropy_terms,
    mixture_terms,
    relative_error,
    row_error,
)

DIVERGENCES = {
    "js": (kb.js, mixture_terms(0.5, 0.5, 0.5)),
    "skew_kl": (lambda p, q, **options: kb.skew_kl(p, q, 0.125, **options), mixture_terms(0.125, 1, 0)),
    "scaled_js": (lambda p, q, **options: kb.scaled_js(p, q, 0.75, **options), mixture_terms(0.75, 4, 4 / 3)),
    "cross_entropy": (kb.cross_entropy, cross_entropy_terms),
}


def evaluate(function, p, q, **options):
    x, y = (view.tensor.detach().clone().requires_grad_() for view in (p, q))
    value = function(p.with_tensor(x), q.with_tensor(y), **options)
    value.sum().backward()
    return value.detach(), x.grad, y.grad


def check(name, p, q):
    function, terms = DIVERGENCES[name]
    found, *gradients = evaluate(function, p, q)
    for i in range(found.shape[0]):
        value, *wanted = divergence_truth(terms, p, q, p.tensor[i], q.tensor[i])
        assert relative_error(float(found[i]), value) <= 5.0  # 4 roundings, and one of the parameters
        for got, want, view in zip(gradients, wanted, (p, q), strict=True):
            assert row_error(got[i], want) <= GRADIENT[view.tensor.dtype]


@pytest.mark.parametrize("distance", [10.0, 1.0, 1e-6])
@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.sample(12)
def test_logits(name, distance):
    for classes in (1, 2, 150):
        a, b = near(1, classes, distance, seed=classes)
        check(name, kb.Logits(a), kb.Logits(b))


@pytest.mark.slow
@pytest.mark.parametrize("name", DIVERGENCES)
def test_views_and_dtypes(name):
    a, b = near(1, 60, 0.5, torch.float64)
    check(name, kb.Probs(a.softmax(-1).float()), kb.LogProbs(b.log_softmax(-1).float()))
    check(name, kb.Counts(a.exp().float(), smoothing=0.5), kb.Probs(b.softmax(-1).float()))
    check(name, kb.Logits(a.to(torch.bfloat16)), kb.Logits(b.to(torch.float16)))


@pytest.mark.slow
@pytest.mark.parametrize("distance", [3.0, 1e-6])
@pytest.mark.parametrize("classes", [1000, 1025, 32000])
@pytest.mark.parametrize("name", DIVERGENCES)
def test_long_rows(name, classes, distance):
    a, b = near(1, classes, distance)
    check(name, kb.Logits(a), kb.Logits(b))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["js", "skew_kl", "scaled_js"])
def test_rows_of_one_token(name):
    """A teacher that is nearly certain: slopes of most of p differ by less than they are rounded to."""
    a, b = near(2, 50, 1.0)
    a[:, 7] += torch.tensor([20.0, 12.0])
    b[1, 7] += 12.0
    check(name, kb.Logits(a), kb.Logits(b))


@pytest.mark.parametrize("name", ["js", "skew_kl", "scaled_js"])
@pytest.mark.sample(3)
def test_supports_of_mixtures(name):
    function, _ = DIVERGENCES[name]
    a = torch.tensor([[0.0, -INF, 1.0, -INF, 2.0], [0.0, 1.0, 2.0, 3.0, -INF]])
    b = torch.tensor([[0.5, 2.0, 0.0, -INF, -INF], [-INF, -INF, 2.0, 3.0, 1.0]])
    check(name, kb.Logits(a), kb.Logits(b))
    found, *gradients = evaluate(function, kb.Probs(a.softmax(-1)), kb.Probs(b.softmax(-1)))
    want, *wanted = evaluate(function, kb.Probs(a.double().softmax(-1)), kb.Probs(b.double().softmax(-1)))
    torch.testing.assert_close(found.double(), want, rtol=1e-6, atol=0)
    for got, expected in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=2e-6, atol=1e-6)


def test_entropy():
    a, _ = near(2, 300, 1.0)
    a[1, 5] += 30.0
    a[1, 9] = -INF
    x = a.clone().requires_grad_()
    found = kb.entropy(kb.Logits(x))
    found.sum().backward()
    found = found.detach()
    for i in range(2):
        view = kb.Logits(a)
        value, slope, _ = divergence_truth(entropy_terms, view, view, a[i], a[i])
        assert relative_error(float(found[i]), value) <= 4.0
        assert row_error(x.grad[i], slope) <= 1e-6


@pytest.mark.slow
def test_cross_entropy_outside_the_support():
    a, b = near(2, 20, 1.0)
    b[0, 3] = -INF
    value, to_p, to_q = evaluate(kb.cross_entropy, kb.Logits(a), kb.Logits(b))
    assert value[0] == INF
    assert math.isfinite(value[1])
    assert not to_p[0].any()
    assert not to_q[0].any()


@pytest.mark.slow
@pytest.mark.parametrize("name", DIVERGENCES)
def test_masked_rows_and_equal_rows(name):
    function, _ = DIVERGENCES[name]
    a, b = near(3, 40, 1.0)
    a[1] = float("nan")
    mask = torch.tensor([True, False, True])
    value, to_p, to_q = evaluate(function, kb.Logits(a), kb.Logits(b), mask=mask)
    assert value[1] == 0.0
    assert not to_p[1].any()
    assert not to_q[1].any()
    if name != "cross_entropy":
        assert not evaluate(function, kb.Logits(b), kb.Logits(b))[0].any()


def test_temperature():
    """A scale of log-weights that float32 does not hold: 1/3."""
    from kullback.kernels.f_rows import js_rows
    from kullback.kernels.kl_rows import kl_rows
    from kullback.kernels.sides import Encoding

    a, b = near(2, 200, 1e-3)
    for rows in (kl_rows, js_rows):
        x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
        found = rows((x, y), (Encoding(scale=1 / 3), Encoding(scale=1 / 3)))
        found.sum().backward()
        v, w = a.double().requires_grad_(), b.double().requires_grad_()
        want = rows((v / 3, w / 3), (Encoding(), Encoding()))
        want.sum().backward()
        torch.testing.assert_close(found.double(), want, rtol=3e-7, atol=0)
        for got, expected in ((x.grad, v.grad), (y.grad, w.grad)):
            assert (got - expected).abs().amax() < 1e-6 * expected.abs().amax()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["js", "cross_entropy"])
def test_compiled(name):
    """The op that the compiler sees, with its shapes and its gradients."""
    function, _ = DIVERGENCES[name]
    a, b = near(3, 70, 1.0)

    def loss(x, y):
        return function(kb.Logits(x), kb.Logits(y)).square().sum()

    found = []
    for run in (loss, torch.compile(loss, backend="eager", fullgraph=True)):
        x, y = a.clone().requires_grad_(), b[0].clone().requires_grad_()
        run(x, y).backward()
        found.append((x.grad, y.grad))
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_row_is_the_same_alone_and_in_a_batch(name):
    function, _ = DIVERGENCES[name]
    a, b = near(2, 130, 1.0)
    together = function(kb.Logits(a), kb.Logits(b))
    alone = torch.cat([function(kb.Logits(a[i : i + 1]), kb.Logits(b[i : i + 1])) for i in range(2)])
    assert torch.equal(together, alone)
