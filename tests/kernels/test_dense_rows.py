"""The direct call of the rows of dense tensors: everything autograd may do with a recorded call."""

from __future__ import annotations

import pytest
import torch

import kullback as kb
from kullback.kernels import dense_rows, native
from kullback.kernels.native_rows import reference_only

pytestmark = pytest.mark.skipif(
    native.library() is None or dense_rows._rows_call is None, reason="the extension module was not built"
)


def sides(rows=3, classes=7, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, classes, generator=generator, dtype=dtype).requires_grad_() for _ in range(2)]


def value_of(a, b):
    value = kb.kl(kb.Logits(a), kb.Logits(b))
    assert "NativeDense" in value.grad_fn.name()
    return value


def gradient_of(a, b, grad):
    with reference_only():
        value = kb.kl(kb.Logits(a), kb.Logits(b))
    assert "Native" not in value.grad_fn.name()
    return torch.autograd.grad(value, (a, b), grad)


def same(found, expected):
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-15)


GRADS = {
    "fresh": lambda: torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64),
    "expanded": lambda: torch.tensor(1.5, dtype=torch.float64).expand(3),
    "every second": lambda: torch.arange(6.0, dtype=torch.float64)[::2],
    "negated view": lambda: torch._neg_view(torch.arange(3.0, dtype=torch.float64)),
}


@pytest.mark.parametrize("grad", GRADS, ids=str)
def test_incoming_gradients_of_any_layout(grad):
    a, b = sides()
    same(torch.autograd.grad(value_of(a, b), (a, b), GRADS[grad]()), gradient_of(a, b, GRADS[grad]()))


def test_incoming_gradient_of_a_batch_with_jumps():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(2, 3, 5, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2))
    grad = torch.arange(6.0, dtype=torch.float64).reshape(3, 2).t()
    same(torch.autograd.grad(value_of(a, b), (a, b), grad), gradient_of(a, b, grad))


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (True, True)])
def test_gradients_to_the_sides_that_want_one(wanted):
    a, b = (t.detach().requires_grad_(want) for t, want in zip(sides(), wanted, strict=True))
    value_of(a, b).sum().backward()
    assert [t.grad is not None for t in (a, b)] == list(wanted)


def test_backward_twice_gives_the_same():
    a, b = sides()
    value = value_of(a, b)
    first = torch.autograd.grad(value.sum(), (a, b), retain_graph=True)
    second = torch.autograd.grad(value.sum(), (a, b))
    assert all(torch.equal(one, two) for one, two in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(value.sum(), (a, b))


@pytest.mark.parametrize("side", [0, 1])
def test_inputs_may_not_change_before_backward(side):
    a, b = sides()
    value = value_of(a, b)
    with torch.no_grad():
        (a, b)[side].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


def test_second_derivatives():
    assert torch.autograd.gradgradcheck(lambda a, b: kb.kl(kb.Logits(a), kb.Logits(b)), sides(2, 4))
    a, b = sides()
    (first,) = torch.autograd.grad(value_of(a, b).sum(), b, create_graph=True)
    assert first.requires_grad


def test_hooks_see_and_change_the_gradient():
    a, b = sides()
    seen = []
    value = value_of(a, b)
    value.register_hook(lambda g: seen.append(g) or 2 * g)
    b.register_hook(seen.append)
    value.sum().backward()
    assert len(seen) == 2
    same([b.grad], gradient_of(a, b, torch.full((3,), 2.0, dtype=torch.float64))[1:])


def test_a_batch_of_gradients_at_once():
    a, b = sides()
    grads = torch.eye(3, dtype=torch.float64)
    found = torch.autograd.grad(value_of(a, b), (a, b), grads, is_grads_batched=True)
    for i in range(3):
        same([g[i] for g in found], gradient_of(a, b, grads[i]))


def test_without_gradient_nothing_is_recorded():
    a, b = sides()
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            assert kb.kl(kb.Logits(a), kb.Logits(b)).grad_fn is None
    with torch.inference_mode():
        made_inside = torch.randn(3, 7)
    assert not kb.kl(kb.Logits(made_inside), kb.Logits(made_inside)).requires_grad


def test_parameters_and_results_of_every_dtype():
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        a, b = sides(dtype=dtype)
        value = value_of(torch.nn.Parameter(a.detach()), b)
        assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        (found,) = torch.autograd.grad(value.sum(), b)
        assert found.dtype == dtype


def test_one_row_gives_a_number():
    a, b = (t[0].detach().requires_grad_() for t in sides())
    value = value_of(a, b)
    assert value.shape == ()
    (found,) = torch.autograd.grad(value, b)
    same([found], gradient_of(a, b, torch.ones((), dtype=torch.float64))[1:])


def test_bad_values_are_explained_with_and_without_gradient():
    a, b = sides()
    with torch.no_grad():
        a[1, 2] = float("nan")
    with pytest.raises(kb.InputValueError, match=r"(?i)nan"):
        kb.kl(kb.Logits(a), kb.Logits(b))
    with pytest.raises(kb.InputValueError, match=r"(?i)nan"), torch.no_grad():
        kb.kl(kb.Logits(a), kb.Logits(b))
    assert kb.kl(kb.Logits(a), kb.Logits(b), validate=False).isnan().tolist() == [False, True, False]


def rows_of_every_kind(classes):
    """Far apart, near, equal, excluded classes, infinite, huge: the forward pass writes some and leaves others."""
    generator = torch.Generator().manual_seed(classes)
    a, b = (torch.randn(24, classes, generator=generator) for _ in range(2))
    b[3:6] = a[3:6] + 1e-3 * b[3:6]
    b[6] = a[6]
    a[7, 2] = b[7, 2] = b[8, 3] = a[9, 1] = -torch.inf
    a[10:12] *= 1e4
    a[12:14, 5] += 30
    return a, b


GRADS_OF_ROWS = {
    "sum": lambda value: torch.ones(()).expand(value.shape),
    "mean": lambda value: torch.full((), 1 / 24).expand(value.shape),
    "some": lambda value: torch.arange(-2.0, len(value) - 2),
}


@pytest.mark.parametrize("grad", GRADS_OF_ROWS, ids=str)
@pytest.mark.parametrize("classes", [49, 64, 100, 1000, 4096, 4097])
@pytest.mark.parametrize("wanted", [(True, False), (False, True), (True, True)], ids=["p", "q", "both"])
def test_gradients_that_the_forward_pass_has_begun(classes, grad, wanted):
    sides = [t.requires_grad_(want) for t, want in zip(rows_of_every_kind(classes), wanted, strict=True)]
    wide = [t.detach().double().requires_grad_(want) for t, want in zip(sides, wanted, strict=True)]
    weights = GRADS_OF_ROWS[grad](torch.empty(24))
    values = [kb.kl(kb.Logits(x), kb.Logits(y)) for x, y in (sides, wide)]
    expected = torch.autograd.grad(values[1], [t for t in wide if t.requires_grad], weights.double())
    assert torch.allclose(values[0].double(), values[1], rtol=1e-6)
    for _ in range(2):  # the second pass finds them given away
        found = torch.autograd.grad(values[0], [t for t in sides if t.requires_grad], weights, retain_graph=True)
        for narrow, exact in zip(found, expected, strict=True):
            error = (narrow.double() - exact).abs().amax(-1)
            assert bool((error <= 1e-6 * exact.abs().amax(-1) + 1e-37).all())
            assert bool((narrow[weights == 0] == 0).all())
            narrow.zero_()  # it is the caller's


def test_a_gradient_that_is_begun_does_not_hide_modified_inputs():
    a, b = (t.requires_grad_() for t in rows_of_every_kind(64))
    value = kb.kl(kb.Logits(a), kb.Logits(b))
    with torch.no_grad():
        b.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()
