"""The values of the drop-in: torch's where torch is right, mpmath's at the exact stored inputs, and the edges."""

import math

import mpmath
import pytest
import torch

from kullback import InputTypeError, InputValueError, ShapeError
from kullback.nn import pointwise
from kullback.nn.functional import kl_div
from tests.nn.torch_cases import CASES, REDUCTIONS, case_id, make, torchs_kl_div

pytestmark = pytest.mark.filterwarnings("ignore::kullback.KullbackWarning")

INF, NAN = math.inf, math.nan
HALF_ULP = {torch.float64: 2**-53, torch.float32: 2**-24, torch.float16: 2**-11, torch.bfloat16: 2**-8}


def truth(log_q, target, log_target):
    """The exact sum of the pointwise terms, and Σ p (|log p| + |log q|), the size of what cancels in it."""
    with mpmath.workdps(50):
        total, size = mpmath.mpf(0), mpmath.mpf(0)
        for x, t in zip(log_q.double().flatten().tolist(), target.double().flatten().tolist(), strict=True):
            if t == (-INF if log_target else 0):
                continue
            p, log_p = (mpmath.exp(t), mpmath.mpf(t)) if log_target else (mpmath.mpf(t), mpmath.log(t))
            total += p * (log_p - x)
            size += p * (abs(log_p) + abs(x))
        return total, size


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_equal_to_torch_on_torchs_cases(case, dtype):
    log_q, target = make(case, dtype)
    options = {"reduction": case[3], "log_target": case[4]}
    ours, torchs = kl_div(log_q, target, **options), torchs_kl_div(log_q, target, **options)
    assert ours.dtype == torchs.dtype
    assert ours.shape == torchs.shape
    if torchs.isnan().any():  # the mean of nothing
        assert log_q.numel() == 0
        assert ours == 0
    else:
        tolerance = 20 * torch.finfo(dtype).eps
        torch.testing.assert_close(ours, torchs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("dtype", HALF_ULP)
@pytest.mark.parametrize("gap", [1.0, 1e-2, 1e-4, 0.0])
def test_a_sum_is_the_rounded_sum_of_the_exact_terms(gap, dtype, log_target):
    torch.manual_seed(1)
    logits = 3 * torch.randn(700, dtype=torch.float64)
    log_p = torch.log_softmax(logits, -1).to(dtype)
    log_q = torch.log_softmax(logits + gap * torch.randn(700, dtype=torch.float64), -1).to(dtype)
    target = log_p if log_target else log_p.exp()
    exact, size = truth(log_q, target, log_target)
    for reduction, divisor in (("sum", 1), ("batchmean", 7), ("mean", 700)):
        got = kl_div(log_q.view(7, 100), target.view(7, 100), reduction=reduction, log_target=log_target)
        subnormal = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        allowed = HALF_ULP[dtype] * abs(exact / divisor) + 1e-15 * size / divisor + subnormal
        assert got.dtype == dtype
        assert abs(got.item() - exact / divisor) <= allowed


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("dtype", HALF_ULP)
def test_every_term_is_right(dtype, log_target):
    p = torch.tensor([1.0, 0.5, 1e-3, 6e-8, 0.25, 0.75, 1e-30, 1.0], dtype=dtype)
    log_q = torch.tensor([0.0, -0.7, -30.0, -60.0, -1.3863, -0.2877, -1e4, -6e4], dtype=dtype)
    target = p.log() if log_target else p
    got = kl_div(log_q, target, reduction="none", log_target=log_target)
    for value, x, t in zip(got, log_q, target, strict=True):
        exact, size = truth(x, t, log_target)
        tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        assert abs(value.item() - exact) <= HALF_ULP[dtype] * abs(exact) + 4e-16 * size + tiny


def test_the_sum_at_a_vocabulary_keeps_what_half_precision_loses():
    torch.manual_seed(0)
    teacher = 3 * torch.randn(128_000)
    log_q = torch.log_softmax(teacher + 0.1 * torch.randn(128_000), -1).half()
    p = torch.softmax(teacher, -1).half()
    exact = torch.special.xlogy(p.double(), p.double()).sub(p.double() * log_q.double()).sum().item()
    assert abs(kl_div(log_q, p, reduction="sum").item() / exact - 1) <= 2**-11
    assert abs(torchs_kl_div(log_q, p, reduction="sum").item() / exact - 1) > 0.1


@pytest.mark.parametrize(
    ("log_q", "p", "expected"),
    [
        ([-INF, 0.0], [0.0, 1.0], [0.0, 0.0]),
        ([-1.0, 0.0], [0.0, 1.0], [0.0, 0.0]),
        ([-INF, -1.0], [0.5, 0.0], [INF, 0.0]),
        ([-1.0, -1.0], [-0.0, 1.0], [0.0, 1.0]),
        ([-1.0, -1.0], [-0.5, 1.0], [NAN, 1.0]),
        ([NAN, -1.0], [0.0, NAN], [NAN, NAN]),
        ([-1e308, -1.0], [5e-324, 1.0], [5e-16, 1.0]),
    ],
)
def test_edges_of_a_probability_target(log_q, p, expected):
    log_q, p = torch.tensor(log_q, dtype=torch.float64), torch.tensor(p, dtype=torch.float64)
    expected = torch.tensor(expected, dtype=torch.float64)
    check = {"equal_nan": True, "rtol": 0.02, "atol": 0}
    torch.testing.assert_close(kl_div(log_q, p, reduction="none"), expected, **check)
    torch.testing.assert_close(kl_div(log_q, p, reduction="sum"), expected.sum(), **check)
    reference = pointwise.reference(log_q, p, False, None, torch.float64)
    torch.testing.assert_close(reference, expected, **check)


@pytest.mark.parametrize(
    ("log_q", "log_p", "expected"),
    [
        ([-INF, 0.0], [-INF, 0.0], [0.0, 0.0]),
        ([-3.0, 0.0], [-INF, 0.0], [0.0, 0.0]),
        ([-INF, -1.0], [-1.0, -INF], [INF, 0.0]),
        ([-INF, -1.0], [-800.0, 0.0], [INF, 1.0]),
        ([NAN, -1.0], [-INF, NAN], [NAN, NAN]),
        ([-1e4, -1.0], [-1e4, 0.0], [0.0, 1.0]),
    ],
)
def test_edges_of_a_log_target(log_q, log_p, expected):
    log_q, log_p = torch.tensor(log_q, dtype=torch.float64), torch.tensor(log_p, dtype=torch.float64)
    expected = torch.tensor(expected, dtype=torch.float64)
    options = {"reduction": "none", "log_target": True}
    torch.testing.assert_close(kl_div(log_q, log_p, **options), expected, equal_nan=True, rtol=0, atol=0)
    total = kl_div(log_q, log_p, reduction="sum", log_target=True)
    torch.testing.assert_close(total, expected.sum(), equal_nan=True, rtol=0, atol=0)
    reference = pointwise.reference(log_q, log_p, True, None, torch.float64)
    torch.testing.assert_close(reference, expected, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("log_target", [False, True])
def test_shared_masks_cost_nothing(log_target):
    log_p = torch.log_softmax(torch.tensor([[1.0, 2.0, -INF]]), -1)
    target = log_p if log_target else log_p.exp()
    assert abs(kl_div(log_p, target, reduction="batchmean", log_target=log_target)) < 1e-7


def test_sparse_tensors_are_taken_as_their_dense_selves():
    log_q, p = torch.tensor([[-1.0, -2.0]], requires_grad=True), torch.tensor([[0.0, 0.5]])
    loss = kl_div(log_q.to_sparse(), p.to_sparse(), reduction="sum")
    torch.testing.assert_close(loss, kl_div(log_q, p, reduction="sum"))
    torch.testing.assert_close(torch.autograd.grad(loss, log_q)[0], -p)


def test_half_precision_does_not_overflow_in_the_sum():
    ones = torch.ones(70_000, 1, dtype=torch.float16)
    assert kl_div(-ones, ones, reduction="batchmean") == 1
    assert kl_div(-ones, ones, reduction="sum") == INF  # 70,000 is beyond float16
    assert kl_div(-ones, ones, reduction="batchmean").dtype == torch.float16


@pytest.mark.parametrize("left", HALF_ULP)
@pytest.mark.parametrize("right", HALF_ULP)
def test_dtypes_promote_as_torchs_do(left, right):
    log_q, p = torch.rand(2, 3).log().to(left), torch.rand(2, 3).to(right)
    for reduction in REDUCTIONS:
        expected = torchs_kl_div(log_q, p, reduction=reduction).dtype
        assert kl_div(log_q, p, reduction=reduction).dtype == expected
    assert kl_div(log_q, p[0, 0], reduction="sum").dtype == torchs_kl_div(log_q, p[0, 0], reduction="sum").dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_autocast_as_torch(dtype):
    log_q, p = torch.rand(2, 3).log().to(dtype), torch.rand(2, 3).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = torchs_kl_div(log_q, p, reduction="sum").dtype
        assert kl_div(log_q, p, reduction="sum").dtype == expected
        torch._dynamo.reset()
        compiled = torch.compile(lambda a, b: kl_div(a, b, reduction="sum"), backend="eager", fullgraph=True)
        assert compiled(log_q, p).dtype == expected


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0), (2, 0, 4)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nothing_sums_and_averages_to_zero(shape, reduction):
    log_q = torch.zeros(shape, requires_grad=True)
    loss = kl_div(log_q, torch.zeros(shape), reduction=reduction)
    assert loss.shape == (shape if reduction == "none" else ())
    assert loss.sum() == 0
    loss.sum().backward()
    assert log_q.grad.shape == shape


def test_blocks_cover_strided_tensors_of_any_shape(monkeypatch):
    monkeypatch.setattr(pointwise, "_BLOCK_PER_THREAD", 5)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    torch.manual_seed(0)
    for shape in ((), (3,), (23,), (4, 7), (7, 4), (2, 3, 11), (1, 1, 40), (3, 1, 2, 5), (6, 1)):
        full = torch.rand([*shape, 2], dtype=torch.float64)
        log_q = full[..., 0].log().requires_grad_()
        p = torch.rand(shape[::-1], dtype=torch.float64).permute(list(range(len(shape)))[::-1]).requires_grad_()
        for reduction in REDUCTIONS:
            ours, torchs = kl_div(log_q, p, reduction=reduction), torchs_kl_div(log_q, p, reduction=reduction)
            torch.testing.assert_close(ours, torchs)
            weight = torch.rand_like(ours)
            for got, expected in zip(
                torch.autograd.grad(ours, (log_q, p), weight),
                torch.autograd.grad(torchs, (log_q, p), weight),
                strict=True,
            ):
                torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    "target", [torch.tensor([0, 2]), torch.tensor([True, False]), torch.zeros(2, dtype=torch.cfloat)]
)
def test_targets_that_are_not_floating_point(target):
    with pytest.raises(InputTypeError, match="`target` is not floating point"):
        kl_div(torch.zeros(2, 2), target)


def test_class_indices_are_told_what_to_write():
    with pytest.raises(InputTypeError, match=r"class indices\?[\s\S]*cross_entropy\(logits, target\)"):
        kl_div(torch.zeros(3, 5), torch.tensor([0, 2, 4]))


def test_other_impossible_arguments():
    with pytest.raises(InputTypeError, match="`input` is not a tensor"):
        kl_div([0.0], torch.ones(1))
    with pytest.raises(InputTypeError, match="`input` is not floating point"):
        kl_div(torch.zeros(2, dtype=torch.long), torch.ones(2))
    with pytest.raises(ShapeError, match=r"input \(3, 5\), target \(3,\)"):
        kl_div(torch.zeros(3, 5), torch.ones(3))
    with pytest.raises(InputValueError, match="batch_mean is not a valid value for reduction"):
        kl_div(torch.zeros(2), torch.ones(2), reduction="batch_mean")
    with pytest.raises(ValueError, match="None is not a valid value"):
        kl_div(torch.zeros(2), torch.ones(2), reduction=None)
