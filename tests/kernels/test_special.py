"""The native special functions against mpmath truth, their references, and every layout and thread count."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from kullback.kernels import native, special
from kullback.kernels.elementwise import kernel

pytestmark = [
    pytest.mark.skipif(native.library() is None, reason=native.status().reason),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Please use `torch.vmap` instead:FutureWarning"),  # gradcheck of torch 2.6
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

GOLDEN = Path(__file__).parents[1] / "golden"
GROUPS = {
    "exp_log": ["expm1mx", "log1pmx", "log1mexp", "logdiffexp", "rel_entr", "kl_div"],
    "gamma": ["digamma", "trigamma", "lgamma_bregman"],
    "normal": ["log_ndtr"],
}
NAMES = [name for names in GROUPS.values() for name in names]
TABLES = {
    name: json.loads((GOLDEN / f"special_{group}.json").read_text())[name]
    for group, names in GROUPS.items()
    for name in names
}
BINARY = {"logdiffexp", "rel_entr", "kl_div", "lgamma_bregman"}
# d/dp of p log(p/q) is log(p/q) + 1, which vanishes at p/q = 1/e: there the error is absolute, relative to 1.
SLOPE_FLOOR = {"rel_entr": 1.0}
# log(e^a - e^b) vanishes on a curve; there too the error is that of its two terms.
VALUE_FLOOR = {"logdiffexp": 1.0}


def ulp(value: float, dtype: torch.dtype) -> float:
    info = torch.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    if value == 0 or math.isinf(value):
        return smallest
    return max(math.ldexp(info.eps, math.frexp(value)[1] - 1), smallest)


def worst(got: Tensor, want: list[float], floor: float = 0.0) -> float:
    """Largest error in ulp of the dtype of `got`; infinite for a NaN or a wrong infinity."""
    largest = 0.0
    limit = torch.finfo(got.dtype).max
    for g, w in zip(got.tolist(), want, strict=True):
        if math.isnan(w):
            error = 0.0 if math.isnan(g) else math.inf
        elif abs(w) > limit or not math.isfinite(g):
            error = 0.0 if g == w or (abs(w) > limit and g == math.copysign(math.inf, w)) else math.inf
        else:
            error = abs(g - w) / ulp(max(abs(w), floor), got.dtype)
        largest = max(largest, error)
    return largest


def columns(name: str) -> list[Tensor]:
    return [torch.tensor(c, dtype=torch.float64) for c in zip(*(row[0] for row in TABLES[name]), strict=True)]


def gradient_kernels(name: str) -> list[str]:
    if name not in BINARY:
        return [f"{name}_grad"]
    return [f"{name}_grad_{a}" for a in ("pq" if name in {"rel_entr", "kl_div"} else "ab")]


def sample(name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    x, y = (torch.rand(shape, generator=generator, dtype=torch.float64) * 3 + 0.05 for _ in range(2))
    if name == "log1mexp":
        x = -x
    if name == "logdiffexp":
        x = x + 4
    return [t.to(dtype) for t in ((x, y) if name in BINARY else (x,))]


@pytest.mark.parametrize("name", NAMES)
def test_float64_is_within_4_ulp_of_the_truth(name):
    """Measured: 2 ulp everywhere except first derivatives of log_ndtr (4) and trigamma (3)."""
    arguments = columns(name)
    assert worst(kernel(name)(*arguments), [row[1] for row in TABLES[name]]) <= 4
    ones = torch.ones_like(arguments[0])
    for i, gradient in enumerate(gradient_kernels(name)):
        got = kernel(gradient)(ones, *arguments)
        assert worst(got, [row[2][i] for row in TABLES[name]], SLOPE_FLOOR.get(name, 0.0)) <= 4, gradient


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_narrow_dtypes_are_within_2_ulp_of_the_float64_answer(name, dtype):
    narrow = [torch.cat([t.to(dtype), *sample(name, (4000,), dtype)[i : i + 1]]) for i, t in enumerate(columns(name))]
    wide = [t.double() for t in narrow]
    floor = VALUE_FLOOR.get(name, 0.0)
    assert worst(kernel(name)(*narrow), kernel(name)(*wide).tolist(), floor) <= 2
    ones, wide_ones = torch.ones_like(narrow[0]), torch.ones_like(wide[0])
    for gradient in gradient_kernels(name):
        want = kernel(gradient)(wide_ones, *wide).tolist()
        got = kernel(gradient)(ones, *narrow)
        assert worst(got, want, SLOPE_FLOOR.get(name, 0.0)) <= 2, gradient


EDGES = [0.0, -0.0, 5e-324, 1e-310, 1e-300, 0.25, 1.0, -1.0, -0.5, 2.0, -3.0, 1e300, 1.7e308]
EDGES += [math.inf, -math.inf, math.nan, 700.0, -700.0, 709.5, 710.0, -745.0, -750.0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_edges_agree_with_the_reference(name, dtype):
    points = torch.tensor(EDGES, dtype=torch.float64).to(dtype)
    arguments = torch.cartesian_prod(points, points).unbind(-1) if name in BINARY else (points,)
    got, want = kernel(name)(*arguments), getattr(special, name).reference(*arguments)
    assert worst(got, want.tolist(), VALUE_FLOOR.get(name, 0.0)) <= 6


def test_limits_at_infinity():
    inf = math.inf
    one = torch.tensor([inf, -inf], dtype=torch.float64)
    assert kernel("expm1mx")(one).tolist() == [inf, inf]
    assert kernel("log_ndtr")(one).tolist() == [0.0, -inf]
    assert kernel("log1pmx")(one[:1]).tolist() == [-inf]
    p, q = torch.tensor([[0.25, inf], [inf, 0.25], [inf, inf], [0.0, inf]], dtype=torch.float64).unbind(-1)
    assert kernel("kl_div")(p, q).tolist() == [inf, inf, inf, inf]
    assert kernel("rel_entr")(p, q).tolist()[:2] == [-inf, inf]


EVALUATE = """
import json, sys, torch
from kullback import kernels
from kullback.kernels.elementwise import kernel
results = {}
for name, dtype, columns in json.loads(sys.stdin.read()):
    arguments = [torch.tensor(c, dtype=torch.float64).to(getattr(torch, dtype)) for c in columns]
    results[f"{name} {dtype}"] = kernel(name)(*arguments).tolist()
print(json.dumps([kernels.status().instruction_set, results]))
"""


@pytest.mark.parametrize("wanted", ["baseline", "avx2", "avx512"])
@pytest.mark.sample(3)
def test_every_instruction_set_meets_the_bound(wanted):
    request, truths = [], {}
    for name in NAMES:
        points, gradients = columns(name), gradient_kernels(name)
        ones = torch.ones_like(points[0])
        for function, arguments in [(name, points), *((g, [ones, *points]) for g in gradients)]:
            part = [row[1] for row in TABLES[name]] if function == name else None
            truths[function] = part or [row[2][gradients.index(function)] for row in TABLES[name]]
            request.append([function, "float64", [c.tolist() for c in arguments]])
            narrow = [t.float().double() for t in arguments]
            request.append([function, "float32", [t.tolist() for t in narrow]])
            truths[f"{function} float32"] = kernel(function)(*narrow).tolist()
    environment = {**os.environ, "KULLBACK_ISA": wanted, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", EVALUATE],
        input=json.dumps(request),
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    )
    used, results = json.loads(done.stdout)
    if used != wanted:
        pytest.skip(f"this machine has no {wanted}: {used} ran")
    for function, truth in truths.items():
        name = next(n for n in sorted(NAMES, key=len, reverse=True) if function.startswith(n))
        floor = (SLOPE_FLOOR if "_grad" in function else VALUE_FLOOR).get(name, 0.0)
        if function.endswith("float32"):
            got, bound = torch.tensor(results[function], dtype=torch.float32), 2
        else:
            got, bound = torch.tensor(results[f"{function} float64"], dtype=torch.float64), 4
        assert worst(got, truth, floor) <= bound, function


@pytest.mark.parametrize("name", NAMES)
def test_layouts_and_broadcasting(name):
    function = kernel(name)
    whole = sample(name, (6, 5, 4))

    def check(*arguments: Tensor) -> None:
        plain = [t.clone(memory_format=torch.contiguous_format) for t in torch.broadcast_tensors(*arguments)]
        got = function(*arguments)
        assert got.is_contiguous()
        # In another position of a vector the compiler may fuse differently: equal to rounding, not to the bit.
        torch.testing.assert_close(got, function(*plain), rtol=1e-15, atol=0)

    check(*(t.transpose(0, 2) for t in whole))
    check(*(t[::2, 1:, ::3] for t in whole))
    check(*(t.permute(1, 2, 0)[..., 1] for t in whole))
    check(*(t.flatten()[3:] for t in whole))
    check(*(t[0, 0, 0] for t in whole))
    check(*(t[:0] for t in whole))
    check(*(t[:1, :, :1].expand(6, 5, 4) for t in whole))
    if len(whole) == 2:
        x, y = whole
        check(x, y[0, 0, 0])
        check(x[0, 0, 0], y)
        check(x, y[:, :, :1])
        check(x[:, :1], y[:1])
        check(x.transpose(0, 1), y.transpose(0, 1)[:1])
        check(x[:0], y[:1, :1, :1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["kl_div", "lgamma_bregman", "expm1mx"])
def test_results_do_not_depend_on_the_number_of_threads(name, dtype):
    arguments = sample(name, (100_003,), dtype)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 8):
            torch.set_num_threads(threads)
            results.append(kernel(name)(*arguments))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def _in_child(queue, arguments) -> None:
    # Nothing but the kernel: torch's own parallel operations hang in a forked child.
    value = kernel("kl_div")(*arguments)
    queue.put((value.numpy().tobytes(), native.status().parallel_runtime))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_runs_serially_and_agrees():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    arguments = sample("kl_div", (100_000,))
    here = kernel("kl_div")(*arguments)
    child = context.Process(target=_in_child, args=(queue, arguments), daemon=True)
    try:
        child.start()
        there, runtime = queue.get(timeout=20)
        child.join(timeout=20)
    finally:
        child.kill()
        torch.set_num_threads(before)
    assert there == here.numpy().tobytes()
    assert runtime == ""


@pytest.mark.parametrize("name", NAMES)
def test_gradients_twice_and_batched(name):
    leaves = tuple(t.requires_grad_() for t in sample(name, (3,)))
    function = getattr(special, name)
    assert torch.autograd.gradcheck(function, leaves, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(function, leaves)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sample(5)
def test_compiled_and_transformed_agree_with_eager(name):
    arguments = sample(name, (2, 3))
    function = getattr(special, name)
    torch.compiler.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*arguments), function(*arguments), rtol=1e-15, atol=0)
    torch.testing.assert_close(torch.vmap(function)(*arguments), function(*arguments), rtol=4e-15, atol=0)
    leaves = [t.clone().requires_grad_() for t in arguments]
    eager = torch.autograd.grad(function(*leaves).sum(), leaves[0])[0]
    transformed = torch.func.grad(lambda *args: function(*args).sum())(*arguments)
    torch.testing.assert_close(transformed, eager, rtol=4e-15, atol=0)
    torch.testing.assert_close(torch.autograd.grad(compiled(*leaves).sum(), leaves[0])[0], eager, rtol=4e-15, atol=0)


@pytest.mark.parametrize("name", ["expm1mx", "kl_div"])
def test_opcheck(name):
    arguments = sample(name, (2, 3))
    if name in BINARY:
        arguments[1] = arguments[1][:1, :1]
    leaves = tuple(t.clone().requires_grad_() for t in arguments)
    torch.library.opcheck(getattr(torch.ops.kullback, name).default, leaves)


def test_gradient_of_a_broadcast_argument_is_summed():
    p, q = sample("kl_div", (4, 3))
    q = q[:1, :1].clone().requires_grad_()
    (grad,) = torch.autograd.grad(special.kl_div(p, q).sum(), q)
    assert grad.shape == (1, 1)
    torch.testing.assert_close(grad, ((q.detach() - p) / q.detach()).sum().reshape(1, 1))


def test_a_zero_gradient_stays_zero_under_an_infinite_slope():
    x = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    value = special.log1mexp(x)
    (grad,) = torch.autograd.grad(value, x, torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert grad.tolist() == [0.0, -math.inf]


def test_negated_views_and_mixed_dtypes():
    imaginary = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128).conj().imag
    assert imaginary.is_neg()
    torch.testing.assert_close(special.expm1mx(imaginary), special.expm1mx(imaginary.resolve_neg().clone()))
    p, q = sample("kl_div", (5,))
    mixed = special.kl_div(p.float(), q)
    assert mixed.dtype is torch.float64
    torch.testing.assert_close(mixed, special.kl_div(p.float().double(), q))


def test_the_library_refuses_what_would_read_out_of_bounds():
    call = native.library().kullback_elementwise
    data = torch.ones(4, dtype=torch.float64)
    pointer = data.data_ptr()
    index = native.library().kullback_function_index(b"kl_div")
    assert native.library().kullback_function_index(b"no_such_function") == -1
    for function, dtype, count, x, y in [
        (-1, 0, 4, pointer, pointer),
        (10_000, 0, 4, pointer, pointer),
        (index, 7, 4, pointer, pointer),
        (index, 0, -1, pointer, pointer),
        (index, 0, 4, pointer, 0),
        (index, 0, 4, 0, pointer),
    ]:
        assert call(function, dtype, count, x, y, 0, pointer, 1, None) != 0
    assert call(index, 0, 0, 0, 0, 0, 0, 1, None) == 0
    with pytest.raises(ValueError, match="no function 'no_such_function'"):
        kernel("no_such_function")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", ["rel_entr", "kl_div"])
def test_exceptions_in_a_block_do_not_disturb_their_neighbours(name, dtype):
    """A block of positive normal numbers takes a shorter loop; one exception sends all of it through the longer one."""
    p, q = (t.to(dtype) for t in sample(name, (1000,)))
    whole = kernel(name)(p, q)
    tiny = torch.finfo(dtype).smallest_normal / 8
    for at, (x, y) in enumerate([(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.nan, 1.0), (math.inf, 2.0), (tiny, tiny)]):
        mixed_p, mixed_q = p.clone(), q.clone()
        mixed_p[300 + at], mixed_q[300 + at] = x, y
        found = kernel(name)(mixed_p, mixed_q)
        alone = kernel(name)(mixed_p[300 + at : 301 + at].clone(), mixed_q[300 + at : 301 + at].clone())
        torch.testing.assert_close(found[300 + at : 301 + at], alone, rtol=0, atol=0, equal_nan=True)
        others = torch.arange(1000) != 300 + at
        torch.testing.assert_close(found[others], whole[others], rtol=torch.finfo(dtype).eps, atol=0)


def test_slope_of_the_bessel_ratio():
    """Natively within 4 ulp: a mean of positive terms instead of a recurrence that cancels."""
    rows = json.loads((GOLDEN / "special_bessel.json").read_text())["bessel_ratio"]
    nu, x = (torch.tensor(column, dtype=torch.float64) for column in zip(*[row[0] for row in rows], strict=True))
    got = kernel("bessel_ratio_grad")(torch.ones_like(x), nu, x)
    assert worst(got, [row[2][0] for row in rows]) <= 4
