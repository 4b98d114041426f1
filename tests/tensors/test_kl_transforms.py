"""Every transform gives what plain eager mode gives."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import kullback as kb

# Torch's own: forward mode imports scripted decompositions, batched gradients still call the older vmap.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Please use `torch.vmap` instead:FutureWarning"),
]

FUNCTIONS = {
    "logits": lambda x, y: kb.kl(kb.Logits(x), kb.Logits(y)),
    "probs, logits": lambda x, y: kb.kl(kb.Probs(x.softmax(-1)), kb.Logits(y)),
    "counts, probs": lambda x, y: kb.kl(kb.Counts(x.exp(), smoothing=0.5), kb.Probs(y.softmax(-1))),
    "entropy": lambda x, y: kb.entropy(kb.Logits(x + 0 * y)),
    "cross-entropy": lambda x, y: kb.cross_entropy(kb.Probs(x.softmax(-1)), kb.Logits(y)),
    "generalised": lambda x, y: kb.generalized_kl(kb.Counts(x.exp()), kb.Logits(y)),
    "pairwise": lambda x, y: kb.pairwise_kl(kb.Logits(x[None]), kb.Probs(y[None].softmax(-1))).squeeze((-1, -2)),
}


@pytest.fixture(params=FUNCTIONS, name="f")
def function(request):
    return FUNCTIONS[request.param]


@pytest.fixture(name="rows")
def row_tensors():
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(3, 5, dtype=torch.float64, generator=generator) for _ in range(2))


def eager_gradients(f, a, b):
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    return torch.autograd.grad(f(a, b).sum(), (a, b))


def along_second(f):
    return lambda x, y: (grad(f)(x, y) * y).sum()


def close(got, want):
    return torch.allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.sample(3)
def test_gradcheck_twice(f, rows):
    a, b = (t[0].clone().requires_grad_() for t in rows)
    assert torch.autograd.gradcheck(f, (a, b), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, (a, b))


def test_vmap_and_func_grad(f, rows):
    a, b = rows
    values = torch.stack([f(x, y) for x, y in zip(a, b, strict=True)])
    assert close(vmap(f)(a, b), values)
    assert close(vmap(f, (0, None))(a, b[0]), torch.stack([f(x, b[0]) for x in a]))
    want = [eager_gradients(f, x, y) for x, y in zip(a, b, strict=True)]
    got = vmap(grad(f, (0, 1)))(a, b)
    assert close(got[0], torch.stack([w[0] for w in want]))
    assert close(got[1], torch.stack([w[1] for w in want]))


def test_forward_mode(f, rows):
    (a, b), (da, db) = (rows[0][0], rows[1][0]), (rows[0][1], rows[1][1])
    to_a, to_b = eager_gradients(f, a, b)
    want = (to_a * da).sum() + (to_b * db).sum()
    assert close(jvp(f, (a, b), (da, db))[1], want)
    with forward_ad.dual_level():
        out = f(forward_ad.make_dual(a, da), forward_ad.make_dual(b, db))
        assert close(forward_ad.unpack_dual(out).tangent, want)
    assert close(torch.autograd.functional.jvp(f, (a, b), (da, db))[1], want)


def test_hessians_agree(f, rows):
    a, b = rows[0][0], rows[1][0]
    by_func = hessian(f, (0, 1))(a, b)
    by_double_backward = torch.autograd.functional.hessian(f, (a, b))
    reverse_twice = jacrev(jacrev(f, (0, 1)), (0, 1))(a, b)
    forward_twice = jacfwd(jacfwd(f, (0, 1)), (0, 1))(a, b)
    for i in range(2):
        for j in range(2):
            assert close(by_func[i][j], by_double_backward[i][j])
            assert close(reverse_twice[i][j], by_double_backward[i][j])
            assert close(forward_twice[i][j], by_double_backward[i][j])


def test_batched_gradients(f, rows):
    a, b = rows[0][0], rows[1][0]
    jacobian = torch.autograd.functional.jacobian(lambda x: f(x, b)[None], a, vectorize=True)
    assert close(jacobian[0], eager_gradients(f, a, b)[0])


def test_third_derivative(f, rows):
    a, b = rows[0][0].clone().requires_grad_(), rows[1][0]
    total, want = f(a, b), f
    for _ in range(3):
        (g,) = torch.autograd.grad(total, a, create_graph=True)
        total = (g * b).sum()
        want = along_second(want)
    assert close(total.detach(), want(a.detach(), b))


@pytest.mark.sample(7)
def test_compile(f, rows):
    a, b = (t[0].clone().requires_grad_() for t in rows)
    torch._dynamo.reset()
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    value = compiled(a, b)
    assert close(value.detach(), f(a, b).detach())
    for got, want in zip(torch.autograd.grad(value, (a, b)), eager_gradients(f, a, b), strict=True):
        assert close(got, want)


@pytest.mark.slow
def test_compile_with_inductor_near_equality():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(4, 50, dtype=torch.float64, generator=generator)
    b = a + 1e-12 * torch.randn(4, 50, dtype=torch.float64, generator=generator)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: kb.kl(kb.Logits(x), kb.Logits(y), reduction="mean"), fullgraph=True)
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    value = compiled(x, y)
    want = kb.kl(kb.Logits(a), kb.Logits(b), reduction="mean")
    assert torch.allclose(value, want, rtol=1e-14, atol=0)
    got = torch.autograd.grad(value, (x, y))
    for g, w in zip(got, eager_gradients(lambda p, q: kb.kl(kb.Logits(p), kb.Logits(q)) / 4, a, b), strict=True):
        assert torch.allclose(g, w, rtol=1e-12, atol=1e-14 * w.abs().max().item())


@pytest.mark.sample(2)
def test_compile_with_every_option_and_changing_shapes():
    torch._dynamo.reset()

    def loss(x, y, mask, weight):
        return kb.kl(kb.Probs(x), kb.Logits(y), mask=mask, weight=weight, reduction="mean", base=2)

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows, classes in ((3, 5), (4, 7), (6, 2)):
        x, y = torch.randn(rows, classes).softmax(-1), torch.randn(rows, classes)
        mask, weight = torch.arange(rows) % 2 == 0, torch.rand(rows)
        assert torch.allclose(compiled(x, y, mask, weight), loss(x, y, mask, weight), rtol=1e-6, atol=0)
