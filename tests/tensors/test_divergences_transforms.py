"""Derivatives twice, and every transform gives what plain eager mode gives."""

import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import kullback as kb
from tests.tensors.divergences import CURVATURES, DIVERGENCES

# Torch's own: forward mode imports scripted decompositions, batched gradients still call the older vmap.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Please use `torch.vmap` instead:FutureWarning"),
]
FEW = ["js_distance", "total_variation", "chi2", "skew_kl 0.1", "renyi 0.3", "renyi 30.0"]


@pytest.fixture(name="rows")
def row_tensors():
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(3, 5, dtype=torch.float64, generator=generator) for _ in range(2))


def mixed(name):
    """Logits on one side, weights that have a zero on the other."""
    f = DIVERGENCES[name]

    def call(x, y):
        zero = torch.zeros((*y.shape[:-1], 1), dtype=y.dtype)
        return f(kb.Logits(torch.cat([x, zero - torch.inf], -1)), kb.Counts(torch.cat([y.exp(), zero], -1)))

    return call


def close(got, want):
    return torch.allclose(got, want, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", [*FEW, "jeffreys", "hellinger", "scaled_js 0.3", "renyi inf"])
@pytest.mark.sample(4)
def test_gradcheck_twice(name, rows):
    a, b = (t[0, :3].clone().requires_grad_() for t in rows)
    f = mixed(name)
    assert torch.autograd.gradcheck(f, (a, b), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, (a, b))


@pytest.mark.parametrize("name", CURVATURES)
def test_curvature_at_equality_is_fishers(name, rows):
    a, direction = rows[0][0], rows[1][0]
    fixed = kb.Logits(a)
    for call in (lambda x: DIVERGENCES[name](kb.Logits(x), fixed), lambda x: DIVERGENCES[name](fixed, kb.Logits(x))):
        x = a.clone().requires_grad_()
        (first,) = torch.autograd.grad(call(x), x, create_graph=True)
        assert (first == 0).all()
        (product,) = torch.autograd.grad((first * direction).sum(), x)
        p = a.softmax(-1)
        fisher = p * direction - p * (p * direction).sum()
        assert torch.allclose(product, CURVATURES[name] * fisher, rtol=1e-13, atol=1e-15 * CURVATURES[name])


@pytest.mark.parametrize("name", FEW)
def test_transforms(name, rows):
    a, b = rows
    f = mixed(name)
    values = torch.stack([f(x, y) for x, y in zip(a, b, strict=True)])
    assert close(f(a, b), values)
    assert close(vmap(f)(a, b), values)
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    want = torch.autograd.grad(f(x, y).sum(), (x, y))
    got = vmap(grad(f, (0, 1)))(a, b)
    assert close(got[0], want[0])
    assert close(got[1], want[1])
    tangent = jvp(f, (a[0], b[0]), (a[1], b[1]))[1]
    assert close(tangent, (want[0][0] * a[1]).sum() + (want[1][0] * b[1]).sum())
    second = torch.autograd.functional.hessian(f, (a[0], b[0]))
    for build in (hessian, lambda f, n: jacrev(jacrev(f, n), n), lambda f, n: jacfwd(jacfwd(f, n), n)):
        found = build(f, (0, 1))(a[0], b[0])
        assert all(close(found[i][j], second[i][j]) for i in range(2) for j in range(2))


@pytest.mark.parametrize("name", ["total_variation", "skew_kl 0.1", "renyi 30.0"])
@pytest.mark.sample(5)
def test_compile(name, rows):
    a, b = (t.clone().requires_grad_() for t in rows)
    f = mixed(name)
    torch._dynamo.reset()
    value = torch.compile(f, fullgraph=True, backend="aot_eager")(a, b)
    assert close(value, f(a, b))
    want = torch.autograd.grad(f(a, b).sum(), (a, b))
    assert all(close(g, w) for g, w in zip(torch.autograd.grad(value.sum(), (a, b)), want, strict=True))


@pytest.mark.slow
def test_compile_with_inductor_near_equality(rows):
    a = rows[0]
    b = a + 1e-12 * rows[1]
    torch._dynamo.reset()
    f = lambda x, y: kb.hellinger(kb.Logits(x), kb.Logits(y))  # noqa: E731
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    value = torch.compile(f, fullgraph=True)(x, y)
    assert torch.allclose(value, f(a, b), rtol=1e-13, atol=0)
    want = torch.autograd.grad(f(x, y).sum(), (x, y))
    for g, w in zip(torch.autograd.grad(value.sum(), (x, y)), want, strict=True):
        assert torch.allclose(g, w, rtol=1e-11, atol=1e-12 * w.abs().max().item())


@pytest.mark.slow
def test_compile_with_a_parameter_that_changes(rows):
    p, q = (kb.Logits(t) for t in rows)
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, y, alpha: kb.skew_kl(kb.Logits(x), kb.Logits(y), alpha), fullgraph=True, backend="aot_eager"
    )
    for alpha in (0.1, 0.7):
        assert close(compiled(*rows, alpha), kb.skew_kl(p, q, alpha))
