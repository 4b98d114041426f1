"""The direct call for small tensors: what it serves, what it declines, and that a declined call is still answered."""

from __future__ import annotations

import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

from kullback import special
from kullback.kernels import elementwise, native
from kullback.kernels import special as kernels

pytestmark = pytest.mark.skipif(kernels.expm1mx.dense is None, reason="the extension module is not built here")

unary, binary = kernels.expm1mx.dense, kernels.rel_entr.dense


@pytest.fixture(params=[True, False], ids=["exchange", "attributes"], autouse=True)
def way_of_looking(request):
    """Tensors described by DLPack's table, and by their attributes where torch has no table."""
    from kullback.kernels import _dense_call

    before = _dense_call.use_exchange(request.param)
    yield
    _dense_call.use_exchange(before)


class Subclass(torch.Tensor):
    pass


def sample(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=dtype) + 0.1


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (5000,), (40000,)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_what_it_serves_equals_the_long_way_bit_by_bit(shape, dtype):
    x, y = sample(*shape, dtype=dtype), sample(*shape, dtype=dtype) + 0.5
    assert torch.equal(unary(x), elementwise.kernel("expm1mx")(x))
    found = binary(x, y)
    assert torch.equal(found, elementwise.kernel("rel_entr")(x, y))
    assert (found.shape, found.dtype) == (x.shape, dtype)


def test_a_parameter_is_served_while_no_gradient_is_recorded():
    x = torch.nn.Parameter(sample(3))
    with torch.no_grad():
        assert torch.equal(unary(x), unary(x.detach()))
    assert unary(x) is NotImplemented


DECLINED = {
    "needs a gradient": lambda: sample(4).requires_grad_(),
    "strided": lambda: sample(4, 4).T,
    "expanded": lambda: sample(1).expand(4),
    "float16": lambda: sample(4).half(),
    "bfloat16": lambda: sample(4).bfloat16(),
    "complex": lambda: torch.complex(sample(4), sample(4)),
    "integers": lambda: torch.arange(4),
    "subclass": lambda: sample(4).as_subclass(Subclass),
    "sparse": lambda: sample(4).to_sparse(),
    "negation pending": lambda: torch._neg_view(sample(4)),
    "meta": lambda: sample(4).to("meta"),
    "a number": lambda: 1.0,
    "nothing": lambda: None,
}


@pytest.mark.parametrize("make", DECLINED.values(), ids=DECLINED)
def test_it_declines_whatever_is_not_ordinary(make):
    assert unary(make()) is NotImplemented
    assert binary(sample(4), make()) is NotImplemented
    assert binary(make(), sample(4)) is NotImplemented


def test_it_declines_arguments_that_differ():
    assert binary(sample(4), sample(4).float()) is NotImplemented
    assert binary(sample(4), sample(1)) is NotImplemented
    assert binary(sample(2, 3), sample(3, 2)) is NotImplemented
    assert binary(sample(6), sample(2, 3)) is NotImplemented
    assert binary(sample(4)) is NotImplemented
    assert unary(sample(4), sample(4)) is NotImplemented
    assert unary() is NotImplemented


def test_it_declines_while_somebody_follows():
    x = sample(3)
    with forward_ad.dual_level():
        assert unary(x) is NotImplemented
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert unary(x) is NotImplemented
    seen = []
    torch.vmap(lambda row: (seen.append(unary(row)), seen.append(unary(x)), row)[2])(sample(2, 3))
    assert seen == [NotImplemented, NotImplemented]


def test_it_declines_a_batch_of_gradients():
    seen = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            seen.append(unary(grad))
            return 2 * grad

    x = sample(3).requires_grad_()
    torch.autograd.grad(Twice.apply(x), x, torch.eye(3, dtype=torch.float64), is_grads_batched=True)
    assert seen == [NotImplemented]


def test_a_declined_call_is_answered_all_the_same():
    x = sample(4, 4)
    torch.testing.assert_close(special.expm1mx(x.T), special.expm1mx(x).T, rtol=0, atol=0)
    torch.testing.assert_close(special.rel_entr(x, 0.5), special.rel_entr(x, torch.full_like(x, 0.5)), rtol=0, atol=0)


def test_no_reference_is_kept():
    x = sample(8)
    before = sys.getrefcount(x)
    for _ in range(100):
        unary(x), binary(x, x), binary(x, 1.0)
    assert sys.getrefcount(x) == before


def test_without_the_module_the_long_way_serves(monkeypatch):
    monkeypatch.setitem(sys.modules, "kullback.kernels._dense_call", None)
    monkeypatch.delattr("kullback.kernels._dense_call", raising=False)
    assert elementwise.dense_kernel("expm1mx", 1) is None
    assert native.library() is not None
