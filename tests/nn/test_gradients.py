"""Gradients of the drop-in, first and second order, at the edges, and through every transform."""

import math

import mpmath
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

from kullback.nn import KLDivLoss
from kullback.nn.functional import kl_div
from tests.nn.torch_cases import CASES, REDUCTIONS, case_id, make, torchs_kl_div

pytestmark = [
    pytest.mark.filterwarnings("ignore::kullback.KullbackWarning"),
    # torch's own: at its first forward-mode derivative, and in the gradcheck and inductor of its 2.6
    pytest.mark.filterwarnings("ignore:.torch.jit.script:"),
    pytest.mark.filterwarnings("ignore:Please use .torch.vmap"),
    pytest.mark.filterwarnings("ignore:Skipping serialization"),
]

INF = math.inf


def loss_of(reduction="sum", log_target=False, function=kl_div):
    return lambda log_q, target: function(log_q, target, reduction=reduction, log_target=log_target)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", CASES, ids=case_id)
@pytest.mark.sample(3)
def test_both_orders_are_torchs_on_torchs_cases(case, dtype):
    found = []
    for function in (kl_div, torchs_kl_div):
        log_q, target = (t.requires_grad_() for t in make(case, dtype))
        out = function(log_q, target, reduction=case[3], log_target=case[4])
        weight = torch.linspace(0.5, 1.5, out.numel(), dtype=dtype).reshape(out.shape).requires_grad_()
        first = torch.autograd.grad(out, (log_q, target), weight, create_graph=True)
        plain = torch.autograd.grad(
            function(log_q, target, reduction=case[3], log_target=case[4]), (log_q, target), weight
        )
        mixed = sum((g * torch.linspace(-1, 2, g.numel(), dtype=dtype).reshape(g.shape)).sum() for g in first)
        second = torch.autograd.grad(mixed, (log_q, target, weight))
        found.append((*first, *plain, *second))
    for ours, torchs in zip(*found, strict=True):
        if not torchs.isnan().any():
            tolerance = 50 * torch.finfo(dtype).eps
            torch.testing.assert_close(ours, torchs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_numerical_derivatives(reduction, log_target):
    log_q, target = (t.requires_grad_() for t in make(((3, 4), (3, 4), True, reduction, log_target)))
    checked = loss_of(reduction, log_target)
    assert gradcheck(checked, (log_q, target), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(checked, (log_q, target), check_batched_grad=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("log_target", [False, True])
def test_gradients_are_rounded_once(dtype, log_target):
    torch.manual_seed(0)
    log_q = torch.log_softmax(3 * torch.randn(3, 50), -1).to(dtype).requires_grad_()
    target = torch.log_softmax(3 * torch.randn(3, 50), -1).to(dtype)
    target = (target if log_target else target.exp()).requires_grad_()
    to_log_q, to_target = torch.autograd.grad(
        kl_div(log_q, target, reduction="batchmean", log_target=log_target), (log_q, target)
    )
    half, tiny = torch.finfo(dtype).eps / 2, torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    with mpmath.workdps(50):
        for x, t, gx, gt in zip(
            *(v.double().flatten().tolist() for v in (log_q, target, to_log_q, to_target)), strict=True
        ):
            p, log_p = (mpmath.exp(t), mpmath.mpf(t)) if log_target else (mpmath.mpf(t), mpmath.log(t))
            exact_x, exact_t = -p / 3, (log_p - x + 1) * (p if log_target else 1) / 3
            assert abs(gx - exact_x) <= half * abs(exact_x) * (1 + 1e-6) + tiny
            assert abs(gt - exact_t) <= half * abs(exact_t) * (1 + 1e-6) + 1e-15 * (p if log_target else 1) * 20 + tiny


# (log q, p or log p, log_target, gradient to log q, gradient to the target)
FINITE = [
    ([-INF, 0.0], [0.0, 1.0], False, [0.0, -1.0], [0.0, 1.0]),
    ([-2.0, 0.0], [0.0, 1.0], False, [0.0, -1.0], [0.0, 1.0]),
    ([-INF, 0.0], [-INF, 0.0], True, [0.0, -1.0], [0.0, 1.0]),
    ([-2.0, 0.0], [-INF, 0.0], True, [0.0, -1.0], [0.0, 1.0]),
]
INFINITE = [
    ([-INF, -1.0], [0.5, 0.5], False, [-0.5, -0.5], [0.0, math.log(0.5) + 2]),
    ([-INF, -1.0], [0.0, -1.0], True, [-1.0, -math.exp(-1)], [0.0, math.exp(-1)]),
    ([-INF, -1.0], [-800.0, 0.0], True, [0.0, -1.0], [0.0, 2.0]),
]


@pytest.mark.parametrize(("log_q", "target", "log_target", "to_log_q", "to_target"), FINITE + INFINITE)
def test_edges_have_finite_gradients_on_every_route(log_q, target, log_target, to_log_q, to_target):
    log_q, target = torch.tensor(log_q, dtype=torch.float64), torch.tensor(target, dtype=torch.float64)
    expected = torch.tensor([to_log_q, to_target], dtype=torch.float64)
    loss = loss_of("sum", log_target)
    leaves = log_q.clone().requires_grad_(), target.clone().requires_grad_()
    routes = {
        "eager": torch.autograd.grad(loss(*leaves), leaves),
        "recorded": torch.autograd.grad(loss(*leaves), leaves, create_graph=True),
        "func.grad": grad(loss, argnums=(0, 1))(log_q, target),
        "jacfwd": jacfwd(loss, argnums=(0, 1))(log_q, target),
    }
    for name, found in routes.items():
        torch.testing.assert_close(
            torch.stack(found), expected, rtol=1e-12, atol=1e-300, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize(("log_q", "target", "log_target"), [edge[:3] for edge in FINITE])
def test_edges_have_a_finite_symmetric_hessian(log_q, target, log_target):
    both = torch.tensor([log_q, target], dtype=torch.float64)

    def loss(z):
        return kl_div(z[0], z[1], reduction="sum", log_target=log_target)

    by_func = hessian(loss)(both).reshape(4, 4)
    torch.testing.assert_close(torch.autograd.functional.hessian(loss, both).reshape(4, 4), by_func)
    assert by_func.isfinite().all()
    assert torch.equal(by_func, by_func.T)
    if not log_target and log_q[0] > -INF:
        assert by_func[0, 2] == -1  # ∂²/∂log q ∂p, also at p = 0


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
def test_batched_gradients(log_target, create_graph):
    log_q, target = make(((3, 4), (3, 4), True, "none", log_target))
    found = torch.autograd.functional.jacobian(
        loss_of("none", log_target), (log_q, target), vectorize=True, create_graph=create_graph
    )
    expected = torch.autograd.functional.jacobian(loss_of("none", log_target, torchs_kl_div), (log_q, target))
    for ours, torchs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, torchs)


def test_an_underflowed_teacher_gets_a_gradient():
    teacher = torch.tensor([0.0, -200.0], requires_grad=True)
    kl_div(torch.log_softmax(torch.zeros(2), -1), torch.softmax(teacher, -1), reduction="sum").backward()
    torch.testing.assert_close(teacher.grad, torch.zeros(2))


def test_a_masked_class_on_both_sides():
    student = torch.tensor([[1.0, 2.5, -INF]], requires_grad=True)
    teacher = torch.tensor([[1.0, 2.0, -INF]], requires_grad=True)
    log_q, log_p = torch.log_softmax(student, -1), torch.log_softmax(teacher, -1)
    for target, log_target in ((log_p, True), (log_p.exp(), False)):
        found = torch.autograd.grad(
            kl_div(log_q, target, reduction="batchmean", log_target=log_target), (student, teacher), retain_graph=True
        )
        q, p = log_q.exp(), log_p.exp()
        torch.testing.assert_close(found[0], q - p)
        assert found[1].isfinite().all()
        assert found[1][0, 2] == 0


def test_nothing_is_spent_on_a_side_that_needs_none():
    log_q, p = make(((4, 7), (4, 7), True, "sum", False))
    loss = kl_div(log_q.requires_grad_(), p, reduction="sum")
    (to_log_q,) = torch.autograd.grad(loss, log_q)
    torch.testing.assert_close(to_log_q, -p)
    with torch.no_grad():
        assert kl_div(log_q, p, reduction="sum").grad_fn is None


def test_a_target_that_depends_on_the_input():
    z = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)

    def loss(z, function=kl_div):
        log_q = torch.log_softmax(z, -1)
        return function(log_q, torch.softmax(2 * log_q, -1), reduction="sum")

    ours, torchs = (torch.autograd.functional.hessian(lambda z, f=f: loss(z, f), z) for f in (kl_div, torchs_kl_div))
    torch.testing.assert_close(ours, torchs)


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_transforms(reduction, log_target):
    log_q, target = make(((5, 3, 4), (5, 3, 4), True, reduction, log_target))
    loss = loss_of(reduction, log_target)
    expected = torch.stack([loss(a, b) for a, b in zip(log_q, target, strict=True)])
    torch.testing.assert_close(vmap(loss)(log_q, target), expected)
    torch.testing.assert_close(vmap(loss, in_dims=(0, None))(log_q, target[0])[0], expected[0])
    tangents = torch.ones_like(log_q[0]), torch.full_like(log_q[0], 0.5)
    value, slope = jvp(loss, (log_q[0], target[0]), tangents)
    torch.testing.assert_close(value, expected[0])
    by_rows = jacrev(loss, argnums=(0, 1))(log_q[0], target[0])
    directional = sum(
        (j * t).flatten(loss(log_q[0], target[0]).dim()).sum(-1) for j, t in zip(by_rows, tangents, strict=True)
    )
    torch.testing.assert_close(slope, directional)
    per_sample = vmap(grad(lambda a, b: loss(a, b).sum()))(log_q, target)
    assert per_sample.shape == log_q.shape


def test_dual_numbers_outside_functorch():
    log_q, p = make(((3, 4), (3, 4), True, "sum", False))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(log_q, torch.ones_like(log_q))
        tangent = torch.autograd.forward_ad.unpack_dual(kl_div(dual, p, reduction="sum")).tangent
    torch.testing.assert_close(tangent, -p.sum())


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.sample(3)
def test_compiled_without_a_break(reduction, log_target):
    torch._dynamo.reset()
    log_q, target = make(((3, 4), (3, 4), True, reduction, log_target), torch.float32)
    log_q[0, 0], target[0, 0] = -INF, (-INF if log_target else 0)
    compiled = torch.compile(KLDivLoss(reduction=reduction, log_target=log_target), backend="aot_eager", fullgraph=True)
    found = []
    for function in (compiled, loss_of(reduction, log_target)):
        leaves = log_q.clone().requires_grad_(), target.clone().requires_grad_()
        value = function(*leaves)
        found.append((value, *torch.autograd.grad(value.sum(), leaves)))
    for ours, eager in zip(*found, strict=True):
        torch.testing.assert_close(ours, eager)


@pytest.mark.slow
def test_compiled_by_inductor():
    torch._dynamo.reset()
    log_q, p = make(((3, 4), (3, 4), True, "batchmean", False), torch.float32)
    p[0, 0], log_q[0, 0] = 0, -INF
    leaf = log_q.clone().requires_grad_()
    value = torch.compile(loss_of("batchmean"), fullgraph=True)(leaf, p)
    torch.testing.assert_close(value, kl_div(log_q, p, reduction="batchmean"))
    torch.testing.assert_close(torch.autograd.grad(value, leaf)[0], -p / 3)


def test_exported_and_traced():
    log_q, p = make(((3, 4), (3, 4), True, "batchmean", False))
    expected = kl_div(log_q, p, reduction="batchmean")
    criterion = KLDivLoss(reduction="batchmean")
    torch.testing.assert_close(torch.export.export(criterion, (log_q, p)).module()(log_q, p), expected)
    torch.testing.assert_close(torch.fx.symbolic_trace(criterion)(log_q, p), expected)
    other = make(((3, 4), (3, 4), True, "batchmean", False), seed=5)
    traced = torch.fx.experimental.proxy_tensor.make_fx(criterion)(log_q, p)
    torch.testing.assert_close(traced(*other), criterion(*other))
