"""Functions of rows in compiled code: native kernels as nodes of the graph, and the op by itself."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch

import kullback as kb
from kullback.kernels import native

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native library")

VIEWS = {"Logits": kb.Logits, "LogProbs": kb.LogProbs, "Probs": kb.Probs, "Counts": kb.Counts}
FUNCTIONS = {
    "kl": kb.kl,
    "kl reversed": lambda p, q, **options: kb.kl(q, p, **options),
    "js": kb.js,
    "skew_kl": functools.partial(kb.skew_kl, alpha=0.3),
    "scaled_js": functools.partial(kb.scaled_js, beta=0.2),
}
EITHER = ("kl", (), (False, False), (0.0, 0.0))


def hold(x, view):
    return {"Logits": x, "LogProbs": x.log_softmax(-1)}.get(view, x.softmax(-1))


def draw(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2)]


def compiled(function, backend="aot_eager", **options):
    """The function compiled into one graph, and the names of what the graph calls."""
    called = []

    def spy(graph, inputs):
        del inputs
        called.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    torch._dynamo.reset()
    backend = spy if backend == "spy" else backend
    return torch.compile(function, fullgraph=True, backend=backend, **options), called


@pytest.mark.parametrize(
    ("name", "view_p", "view_q"),
    [("kl", *views) for views in itertools.product(("Logits", "LogProbs", "Probs"), repeat=2)]
    + [(name, "Counts", "Logits") for name in FUNCTIONS],
)
@pytest.mark.sample(3)
def test_compiled_code_calls_the_native_kernel(name, view_p, view_q):
    def function(x, y):
        return FUNCTIONS[name](VIEWS[view_p](x), VIEWS[view_q](y))

    a, b = draw(2, 60, dtype=torch.float32)
    x, y = hold(a, view_p), hold(b, view_q)
    run, called = compiled(function, "spy")
    assert torch.equal(run(x, y), function(x, y))
    assert sum("kullback.rows" in target for target in called) == 1
    assert not any("exp" in target or "log" in target for target in called)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("kl", torch.float64), ("kl reversed", torch.float16), ("js", torch.float32), ("skew_kl", torch.bfloat16)],
)
def test_compiled_gradients_are_those_of_eager_mode(name, dtype):
    def function(x, y, mask):
        return FUNCTIONS[name](kb.Logits(x), kb.Logits(y), mask=mask, reduction="sum")

    a, b = (t.requires_grad_() for t in draw(3, 70, dtype=dtype))
    mask = torch.tensor([True, False, True])
    run, _ = compiled(function)
    found = torch.autograd.grad(run(a, b, mask), (a, b))
    for got, want in zip(found, torch.autograd.grad(function(a, b, mask), (a, b)), strict=True):
        assert torch.equal(got, want)


def test_with_inductor():
    def function(x, y):
        return (kb.kl(kb.Logits(2 * x), kb.Logits(y)) * torch.arange(4.0)).sum()

    a, b = (t.requires_grad_() for t in draw(4, 300, dtype=torch.float32))
    run, _ = compiled(function, "inductor")
    value = run(a, b)
    torch.testing.assert_close(value, function(a, b), rtol=1e-6, atol=0)
    want = torch.autograd.grad(function(a, b), (a, b))
    for got, expected in zip(torch.autograd.grad(value, (a, b)), want, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_shapes_and_shares_that_change():
    def function(x, y, alpha):
        return kb.skew_kl(kb.Probs(x), kb.Logits(y), alpha)

    run, _ = compiled(function, dynamic=True)
    for shape, alpha in (((3, 5), 0.1), ((4, 70), 0.25), ((2, 3, 9), 0.5), ((4, 70), 1e-9), ((4, 70), 1.0)):
        a, b = draw(*shape, dtype=torch.float32)
        torch.testing.assert_close(run(a.softmax(-1), b, alpha), function(a.softmax(-1), b, alpha), rtol=1e-6, atol=0)


def test_smoothed_counts_strided_rows_and_shared_rows():
    def function(x, y):
        return kb.kl(kb.Counts(x, smoothing=0.5), kb.Logits(y, dim=0))

    a, b = draw(3, 70, dtype=torch.float32)
    counts, transposed = a[0].exp().requires_grad_(), b.t().requires_grad_()
    run, called = compiled(function, "spy")
    assert torch.equal(run(counts, transposed), function(counts, transposed))
    assert any("kullback.rows" in target for target in called)
    run, _ = compiled(function)
    found = torch.autograd.grad(run(counts, transposed).sum(), (counts, transposed))
    want = torch.autograd.grad(function(counts, transposed).sum(), (counts, transposed))
    for got, expected in zip(found, want, strict=True):
        # An entry of the gradient is a difference of probabilities: its rounding is theirs, however small it is.
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-7)


def test_transforms_inside_compiled_code_follow_the_reference():
    a, b = draw(3, 4, 9)
    run, _ = compiled(torch.vmap(lambda x, y: kb.kl(kb.Logits(x), kb.Logits(y))))
    torch.testing.assert_close(run(a, b), kb.kl(kb.Logits(a), kb.Logits(b)), rtol=1e-13, atol=0)
    run, _ = compiled(torch.func.grad(lambda x: kb.js(kb.Logits(x), kb.Logits(b)).sum()))
    x = a.clone().requires_grad_()
    (want,) = torch.autograd.grad(kb.js(kb.Logits(x), kb.Logits(b)).sum(), x)
    torch.testing.assert_close(run(a), want, rtol=1e-12, atol=1e-15)


def rows(x, y, keep=None, recorded=True, meaning=EITHER):
    return torch.ops.kullback.rows(x, y, keep, recorded, *meaning)[0]


SAMPLES = {
    "dense": lambda x, y: (x, y, None, True, *EITHER),
    "with gradients": lambda x, y: (x.requires_grad_(), y.requires_grad_(), None, True, *EITHER),
    "no statistics": lambda x, y: (x.requires_grad_(), y, None, False, *EITHER),
    "left out": lambda x, y: (x, y.requires_grad_(), torch.tensor([True, False, True]), True, *EITHER),
    "shared": lambda x, y: (x[0].requires_grad_(), y.requires_grad_(), None, True, *EITHER),
    "strided": lambda x, y: (x.t().contiguous().t().requires_grad_(), y[:, ::1], None, True, *EITHER),
    "mixture": lambda x, y: (
        x.softmax(-1).requires_grad_(), y.requires_grad_(), None, True, "skew_kl", (0.3,), (True, False), (0.0, 0.0)),
}  # fmt: skip


# opcheck looks at the gradients of what it has computed itself.
quiet = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


@quiet
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_the_op_by_itself(sample):
    torch.library.opcheck(torch.ops.kullback.rows.default, SAMPLES[sample](*draw(3, 9, dtype=torch.float32)))


@quiet
@pytest.mark.parametrize("needs", [(True, True), (False, True), (True, False)])
@pytest.mark.sample(3)
def test_its_gradient_by_itself(needs):
    x, y = (t.requires_grad_() for t in draw(3, 9))
    nothing = torch.empty(0, dtype=torch.float64)
    arguments = torch.ones(3, dtype=torch.float64), nothing, x, y, None, needs, *EITHER
    torch.library.opcheck(torch.ops.kullback.rows_backward.default, arguments)


@pytest.mark.parametrize("meaning", [EITHER, ("js", (), (False, False), (0.0, 0.0))], ids=["kl", "js"])
def test_its_derivatives_of_any_order(meaning):
    x, y = (t.requires_grad_() for t in draw(2, 4))
    assert torch.autograd.gradcheck(lambda x, y: rows(x, y, meaning=meaning), (x, y))
    assert torch.autograd.gradgradcheck(lambda x, y: rows(x, y, meaning=meaning), (x, y))
    (first,) = torch.autograd.grad(rows(x, y, meaning=meaning).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), y, create_graph=True)
    assert second.requires_grad


def test_it_can_be_mapped():
    x, y = draw(5, 3, 9)
    keep = torch.arange(15).reshape(5, 3) % 4 > 0
    want = kb.kl(kb.Logits(x), kb.Logits(y), mask=keep)
    torch.testing.assert_close(torch.vmap(rows)(x, y, keep), want)
    torch.testing.assert_close(torch.vmap(rows, in_dims=(0, 2))(x, y.movedim(0, 2)), kb.kl(kb.Logits(x), kb.Logits(y)))
    shared = torch.vmap(lambda k: rows(x[0], y[0], k))(keep)
    torch.testing.assert_close(shared, torch.where(keep, kb.kl(kb.Logits(x[0]), kb.Logits(y[0])), 0.0))
    row = torch.vmap(lambda r: rows(r, y[0]))(x[:, 0])
    torch.testing.assert_close(row, kb.kl(kb.Logits(x[:, :1]), kb.Logits(y[0])))


def test_a_batch_of_gradients_at_once():
    x, y = (t.requires_grad_() for t in draw(3, 9))
    grads = torch.eye(3, dtype=torch.float64)
    found = torch.autograd.grad(rows(x, y), (x, y), grads, is_grads_batched=True)
    want = torch.autograd.grad(kb.kl(kb.Logits(x), kb.Logits(y)), (x, y), grads, is_grads_batched=True)
    for got, expected in zip(found, want, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-15)
