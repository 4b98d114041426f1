"""Every manner in which torch calls a function, through the face, with an op whose native side is recognisable.

The toy op is Bernoulli-like with two visible outputs and one kept, and an option. Its "native" kernel counts its calls,
so each test says which route ran as well as that the numbers are right.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kullback.kernels import native
from kullback.kernels.face import Op

# torch's own: forward mode compiles its decompositions on first use; opcheck looks at .grad of what it was given;
# gradcheck of torch 2.6 batches with a deprecated name.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Please use `torch.vmap` instead:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]
needs_native = pytest.mark.skipif(native.library() is None, reason=native.status().reason)
calls = {"forward": 0, "backward": 0}


def _reference(p: Tensor, q: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    return scale * (p * (p / q).log()).sum(-1), (p - q).square().sum(-1)


def _native(p: Tensor, q: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    calls["forward"] += 1
    assert not (p.requires_grad and torch.is_grad_enabled())
    log_ratio = (p / q).log()
    kl, squares = scale * (p * log_ratio).sum(-1), (p - q).square().sum(-1)
    return kl.contiguous(), squares.contiguous(), log_ratio.contiguous()


def _backward(grads, saved, needs, scale):
    calls["backward"] += 1
    (grad_kl, grad_squares), (p, q, log_ratio) = grads, saved
    g, h = grad_kl[..., None] * scale, grad_squares[..., None] * 2 * (p - q)
    to_p = g * (log_ratio + 1) + h if needs[0] else None
    to_q = -g * p / q - h if needs[1] else None
    return to_p, to_q


def _fake(p: Tensor, q: Tensor, scale: float):
    rows = torch.broadcast_shapes(p.shape, q.shape)
    return p.new_empty(rows[:-1]), p.new_empty(rows[:-1]), p.new_empty(rows)


toy = Op(
    "test_toy",
    "(Tensor p, Tensor q, float scale) -> (Tensor, Tensor, Tensor)",
    reference=_reference,
    native=_native,
    backward=_backward,
    fake=_fake,
    kept=1,
)


def both(p: Tensor, q: Tensor) -> Tensor:
    """A scalar-per-row function of both outputs, for the transforms."""
    kl, squares = toy(p, q, 2.0)
    return kl + 3.0 * squares


def truth(p: Tensor, q: Tensor) -> Tensor:
    kl, squares = _reference(p, q, 2.0)
    return kl + 3.0 * squares


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.rand(4, 6, dtype=torch.float64) + 0.1, torch.rand(4, 6, dtype=torch.float64) + 0.1


@pytest.fixture
def count():
    """How many native forward and backward calls happened since the test began."""
    start = dict(calls)
    return lambda: (calls["forward"] - start["forward"], calls["backward"] - start["backward"])


@needs_native
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_eager_without_gradient_is_native(inputs, count, context):
    with context():
        result = toy(*inputs, 2.0)
    assert len(result) == 2, "kept outputs are not returned"
    torch.testing.assert_close(result, _reference(*inputs, 2.0))
    assert count() == (1, 0)


@needs_native
@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True)])
def test_eager_gradient_is_native_and_respects_needs_input_grad(inputs, count, which):
    leaves = [t.clone().requires_grad_(flag) for t, flag in zip(inputs, which, strict=True)]
    others = [t.clone().requires_grad_(flag) for t, flag in zip(inputs, which, strict=True)]
    both(*leaves).sum().backward()
    truth(*others).sum().backward()
    assert count() == (1, 1)
    for leaf, other, flag in zip(leaves, others, which, strict=True):
        assert (leaf.grad is not None) == flag
        if flag:
            torch.testing.assert_close(leaf.grad, other.grad)


def test_gradient_of_one_output_only(inputs):
    p = inputs[0].clone().requires_grad_()
    (grad,) = torch.autograd.grad(toy(p, inputs[1], 2.0)[1].sum(), p)
    torch.testing.assert_close(grad, 2 * (inputs[0] - inputs[1]))


def test_gradcheck_twice_with_batched_gradients(inputs):
    leaves = tuple(t[:2, :3].clone().requires_grad_() for t in inputs)
    assert torch.autograd.gradcheck(both, leaves, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(both, leaves, check_batched_grad=True)


def test_double_backward_keeps_arguments_apart(inputs):
    """q computed from p: the gradient to p must not also run through q."""

    def curvature(f):
        p = inputs[0].clone().requires_grad_()
        q = p * 1.5 + 0.1
        (first,) = torch.autograd.grad(f(p, q).sum(), p, create_graph=True)
        return torch.autograd.grad((first**2).sum(), p)[0]

    torch.testing.assert_close(curvature(both), curvature(truth))


TRANSFORMS = {
    "vmap": torch.vmap,
    "vmap one side": lambda f: lambda p, q: torch.vmap(f, in_dims=(0, None))(p, q[0]),
    "grad": lambda f: torch.func.grad(lambda p, q: f(p, q).sum()),
    "grad q": lambda f: torch.func.grad(lambda p, q: f(p, q).sum(), argnums=1),
    "vmap(grad)": lambda f: torch.vmap(torch.func.grad(lambda p, q: f(p, q).sum())),
    "jvp": lambda f: lambda p, q: torch.func.jvp(f, (p, q), (q, p)),
    "vjp": lambda f: lambda p, q: torch.func.vjp(f, p, q)[1](p[:, 0]),
    "hessian": lambda f: lambda p, q: torch.func.hessian(lambda x: f(x, q[0]))(p[0]),
    "jacfwd(jacrev)": lambda f: lambda p, q: torch.func.jacfwd(torch.func.jacrev(lambda x: f(p[0], x)))(q[0]),
    "jacrev": lambda f: torch.func.jacrev(f, argnums=(0, 1)),
    "functionalize": torch.func.functionalize,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_follow_the_reference(inputs, count, name):
    torch.testing.assert_close(TRANSFORMS[name](both)(*inputs), TRANSFORMS[name](truth)(*inputs))
    assert count() == (0, 0), "native code must not run where a transform is watching"


def test_forward_mode_dual_numbers(inputs, count):
    import torch.autograd.forward_ad as fad

    def tangent(f):
        with fad.dual_level():
            return fad.unpack_dual(f(fad.make_dual(inputs[0], inputs[1]), inputs[1])).tangent

    torch.testing.assert_close(tangent(both), tangent(truth))
    assert count() == (0, 0)


@pytest.mark.parametrize("name", ["plain", "vmap", "grad", "vmap(grad)", "jvp"])
def test_compile_fullgraph(inputs, name):
    wrap = TRANSFORMS.get(name, lambda f: f)
    torch.compiler.reset()
    compiled = torch.compile(wrap(both), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), wrap(truth)(*inputs))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_gradient(inputs, count, backend):
    torch.compiler.reset()
    compiled = torch.compile(lambda p, q: both(p, q).sum(), backend=backend, fullgraph=True)
    leaves = [t.clone().requires_grad_() for t in inputs]
    others = [t.clone().requires_grad_() for t in inputs]
    compiled(*leaves).backward()
    truth(*others).sum().backward()
    for leaf, other in zip(leaves, others, strict=True):
        torch.testing.assert_close(leaf.grad, other.grad)
    if toy.live:
        assert count() == (1, 1), "the compiled graph calls the native op"


def test_compile_with_dynamic_shapes(inputs):
    torch.compiler.reset()
    compiled = torch.compile(both, backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (2, 3, 4):
        torch.testing.assert_close(
            compiled(inputs[0][:rows], inputs[1][:rows]), truth(inputs[0][:rows], inputs[1][:rows])
        )


@needs_native
def test_library_op_passes_opcheck(inputs):
    p, q = inputs
    grad = torch.ones(4, dtype=torch.float64)
    for which in [(True, True), (True, False), (False, False)]:
        leaves = [t.clone().requires_grad_(flag) for t, flag in zip(inputs, which, strict=True)]
        torch.library.opcheck(torch.ops.kullback.test_toy.default, (*leaves, 2.0))
    kept = (p / q).log()
    arguments = ([grad, grad], [p, q, kept], [True, False], 2.0)
    torch.library.opcheck(torch.ops.kullback.test_toy_backward.default, arguments)


class Tagged(Tensor):
    """A tensor subclass that must survive the call."""


def test_subclasses_devices_and_tracers_go_to_the_reference(inputs, count):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    tagged = [t.as_subclass(Tagged) for t in inputs]
    assert type(toy(*tagged, 2.0)[0]) is Tagged
    meta = toy(*(t.to("meta") for t in inputs), 2.0)[0]
    assert meta.device.type == "meta"
    assert meta.shape == (4,)
    with FakeTensorMode() as mode:
        assert toy(*(mode.from_tensor(t) for t in inputs), 2.0)[0].shape == (4,)
    traced = make_fx(both)(*inputs)
    torch.testing.assert_close(traced(inputs[1], inputs[0]), truth(inputs[1], inputs[0]))
    assert count() == (0, 0)


def test_autocast_computes_half_precision_in_float32(inputs):
    p, q = (t.bfloat16() for t in inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = toy(p, q, 2.0)[0]
    assert value.dtype is torch.float32
    torch.testing.assert_close(value, _reference(p.float(), q.float(), 2.0)[0])


def test_saved_tensors_are_guarded_against_modification(inputs):
    p = inputs[0].clone().requires_grad_()
    q = inputs[1].clone()
    value = both(p, q).sum()
    q.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_without_backward_the_gradient_comes_from_the_reference(inputs):
    plain = Op(
        "test_toy_without_backward",
        "(Tensor p, Tensor q) -> Tensor",
        reference=lambda p, q: _reference(p, q, 1.0)[0],
        native=lambda p, q: _native(p, q, 1.0)[0],
    )
    leaves = [t.clone().requires_grad_() for t in inputs]
    torch.testing.assert_close(
        torch.autograd.grad(plain(*leaves).sum(), leaves),
        torch.autograd.grad(_reference(*leaves, 1.0)[0].sum(), leaves),
    )
    assert torch.autograd.gradgradcheck(plain, tuple(t[:2, :2] for t in leaves))


def test_an_op_with_kept_outputs_needs_a_fake_kernel():
    with pytest.raises(ValueError, match="needs a fake kernel"):
        Op("test_toy_bad", "(Tensor p) -> (Tensor, Tensor)", reference=abs, native=abs, kept=1)
