"""The battery every registered pair goes through. A test module lists its `CASES` and imports these tests:

    from tests.pairs.contract import *  # noqa: F403
    CASES = [Case(Normal, Normal)]

`conftest.py` runs each test for each case. The truth is the mpmath table `tests/golden/pairs/<P>_<Q>.json`.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.pairs import registry
from kullback.pairs.dispatch import kl_divergence, kl_method

GOLDEN = Path(__file__).parents[1] / "golden" / "pairs"

# Relative tolerances by precision, inside the range for which digits are promised.
VALUE = {"closed form": {torch.float64: 1e-10, torch.float32: 1e-6}}
VALUE["structure"] = VALUE["closed form"]
VALUE["integral"] = VALUE["series"] = {torch.float64: 1e-8, torch.float32: 1e-6}
GRADIENT = {torch.float64: 1e-8, torch.float32: 1e-4}
SMALLEST, LARGEST = 1e-6, 1e6  # parameters
LEAST_DIFFERENCE, LEAST_KL = 1e-6, 1e-7  # relative, within one family; between different ones


class Case(NamedTuple):
    """A registered pair and what the battery needs to know about it.

    Attributes:
        p: Class of p.
        q: Class of q.
        make_p: Builds p from named parameters; default: the class itself.
        make_q: Builds q.
        value_tolerance: Relative, float64; default by method.
        gradient_tolerance: Relative, float64; default 1e-8.
        gradient_floor: A component smaller than this fraction of the largest one is compared with the largest.
    """

    p: type[Distribution]
    q: type[Distribution]
    make_p: Callable[..., Distribution] | None = None
    make_q: Callable[..., Distribution] | None = None
    value_tolerance: float | None = None
    gradient_tolerance: float = GRADIENT[torch.float64]
    gradient_floor: float = 0.0

    def __str__(self) -> str:
        return f"{self.p.__name__}-{self.q.__name__}"

    def build(self, params_p: dict[str, Any], params_q: dict[str, Any]) -> tuple[Distribution, Distribution]:
        return (self.make_p or self.p)(**params_p), (self.make_q or self.q)(**params_q)

    def table(self) -> list[dict[str, Any]]:
        return read_table(self.p.__name__, self.q.__name__)

    def tolerance(self, dtype: torch.dtype) -> float:
        if dtype == torch.float64 and self.value_tolerance is not None:
            return self.value_tolerance
        rule = registry.find(self.p, self.q)
        return VALUE["integral" if rule is None or rule.method == "structure" else rule.method][dtype]


@functools.cache
def read_table(p: str, q: str) -> list[dict[str, Any]]:
    return json.loads((GOLDEN / f"{p}_{q}.json").read_text(encoding="utf-8"))


def tensors(params: dict[str, Any], dtype: torch.dtype, *, grad: bool = False) -> dict[str, Any]:
    """Float parameters as tensors, integers and the rest as they are."""
    return {k: torch.tensor(v, dtype=dtype, requires_grad=grad) if _is_float(v) else v for k, v in params.items()}


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, list) and all(_is_float(v) for v in value))


def rows(case: Case, dtype: torch.dtype) -> Iterator[dict[str, Any]]:
    """The rows for which digits are promised."""
    for row in case.table():
        if (dtype == torch.float64 or row["float32"]) and is_in_range(case, row):
            yield row


def is_in_range(case: Case, row: dict[str, Any]) -> bool:
    of_p, of_q = ([x for v in row[side].values() for x in _flat(v)] for side in "pq")
    if not all(x == 0 or SMALLEST <= abs(x) <= LARGEST for x in (*of_p, *of_q)):
        return False
    if case.p is not case.q:
        return float(row["kl"]) >= LEAST_KL
    pairs = list(zip(of_p, of_q, strict=False))
    return all(x == y or abs(x - y) >= LEAST_DIFFERENCE * max(abs(x), abs(y)) for x, y in pairs)


def _flat(value: Any) -> list[float]:
    if isinstance(value, list):
        return [x for v in value for x in _flat(v)]
    return [float(value)] if isinstance(value, int | float) else []


def close(got: float, want: float, relative: float, dtype: torch.dtype) -> bool:
    """Relative agreement; beyond the dtype's range the answer is inf, below it the nearest subnormal will do."""
    info = torch.finfo(dtype)
    if abs(want) > info.max:
        return got == math.copysign(math.inf, want)
    return abs(got - want) <= relative * abs(want) + info.smallest_normal * info.eps


both_precisions = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


@both_precisions
def test_value(case: Case, dtype: torch.dtype) -> None:
    bad = []
    for row in rows(case, dtype):
        got = kl_divergence(*case.build(tensors(row["p"], dtype), tensors(row["q"], dtype)))
        assert got.dtype == dtype
        if not close(got.item(), float(row["kl"]), case.tolerance(dtype), dtype):
            bad.append((row["p"], row["q"], "got", got.item(), "want", row["kl"]))
    assert not bad


@both_precisions
def test_gradient(case: Case, dtype: torch.dtype) -> None:
    bad = []
    tolerance = case.gradient_tolerance if dtype == torch.float64 else GRADIENT[dtype]
    for row in rows(case, dtype):
        # A divergence beyond the dtype's range is infinite, and its slopes are infinite or masked.
        if "gradient" not in row or float(row["kl"]) > torch.finfo(dtype).max:
            continue
        params = {"p": tensors(row["p"], dtype, grad=True), "q": tensors(row["q"], dtype, grad=True)}
        kl_divergence(*case.build(params["p"], params["q"])).backward()
        wanted = {name: torch.tensor(_floats(text), dtype=torch.float64) for name, text in row["gradient"].items()}
        for name, want in wanted.items():
            side, _, parameter = name.partition(".")
            got = params[side][parameter].grad
            for g, w in zip(got.flatten().tolist(), want.flatten().tolist(), strict=True):
                floor = case.gradient_floor * want.abs().max().item()
                if not (
                    close(g, w, tolerance, dtype) or abs(g - w) <= tolerance * max(floor, _share(row, wanted, name))
                ):
                    bad.append((row["p"], row["q"], name, "got", g, "want", w))
    assert not bad


def _share(row: dict[str, Any], gradients: dict[str, Tensor], name: str) -> float:
    """The slope in this parameter that would change the divergence as much as the largest relative change does.

    A location of 0 is changed by 1: its slope is a sum of nodes, which cancel where the locations agree.
    """

    def size(parameter: str) -> float:
        side, _, key = parameter.partition(".")
        return max(map(abs, _flat(row[side][key])))

    largest = max(w.abs().max().item() * size(other) for other, w in gradients.items())
    own = size(name) or 1.0
    return 1e-2 * max(largest, abs(float(row["kl"]))) / own


def test_floor_outside_the_range(case: Case) -> None:
    """Not negative, not NaN, and gradients that are finite."""
    bad = []
    for row in case.table():
        params = [tensors(row[side], torch.float64, grad=True) for side in "pq"]
        value = kl_divergence(*case.build(*params))
        value.backward()
        gradients = [t.grad for side in params for t in side.values() if isinstance(t, Tensor) and t.grad is not None]
        if not value.item() >= 0 or any(bool(g.isnan().any()) for g in gradients):
            bad.append((row["p"], row["q"], value.item(), [g.tolist() for g in gradients]))
    assert not bad


def _floats(text: Any) -> Any:
    return [_floats(t) for t in text] if isinstance(text, list) else float(text)


def example(case: Case) -> dict[str, Any]:
    """The table's first finite row: its typical case."""
    return next(row for row in case.table() if math.isfinite(float(row["kl"])))


def function_of_tensors(case: Case, row: dict[str, Any]) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    """The divergence as a function of its float64 parameters, and those parameters."""
    split = {side: tensors(row[side], torch.float64) for side in "pq"}
    names = [(side, k) for side in "pq" for k, v in split[side].items() if isinstance(v, Tensor)]

    def function(*values: Tensor) -> Tensor:
        given = {side: dict(params) for side, params in split.items()}
        for (side, k), value in zip(names, values, strict=True):
            given[side][k] = value
        make_p, make_q = case.make_p or case.p, case.make_q or case.q
        return kl_divergence(
            _unchecked(make_p, given["p"]),
            _unchecked(make_q, given["q"]),
        )

    return function, tuple(split[side][k] for side, k in names)


def _unchecked(make: Callable[..., Distribution], params: dict[str, Any]) -> Distribution:
    """torch's own argument validation cannot be traced or mapped over; the divergence must not depend on it."""
    return make(**params, validate_args=False)


def test_zero_at_equality_with_zero_gradient(case: Case) -> None:
    if case.p is not case.q:
        pytest.skip("only a family against itself can be equal by parameters")
    for row in case.table():
        params = [tensors(row["p"], torch.float64, grad=True) for _ in range(2)]
        value = kl_divergence(*case.build(*params))
        assert value.item() == 0.0
        value.backward()
        gradients = [t.grad for side in params for t in side.values() if isinstance(t, Tensor)]
        assert all(bool((g == 0).all()) for g in gradients if g is not None)


def test_batches_broadcast(case: Case) -> None:
    row = example(case)
    single = kl_divergence(*case.build(tensors(row["p"], torch.float64), tensors(row["q"], torch.float64)))
    p, q = case.build(tensors(row["p"], torch.float64), tensors(row["q"], torch.float64))
    shapes = [([3], [], [3]), ([], [2], [2]), ([4, 1], [5], [4, 5]), ([0], [], [0]), ([2, 2], [2], [2, 2])]
    for left, right, shape in shapes:
        value = kl_divergence(p.expand(torch.Size(left)), q.expand(torch.Size(right)))
        assert value.shape == torch.Size(shape)
        torch.testing.assert_close(value, single.expand(shape), rtol=1e-14, atol=0)


def test_second_derivative(case: Case) -> None:
    function, values = function_of_tensors(case, example(case))
    leaves = tuple(v.clone().requires_grad_() for v in values)
    assert torch.autograd.gradgradcheck(function, leaves, rtol=1e-4, atol=1e-6)


def test_vmap_agrees_with_batching(case: Case) -> None:
    function, values = function_of_tensors(case, example(case))
    stacked = tuple(torch.stack([v, v * (1 + 1e-3)]) for v in values)
    mapped = torch.vmap(function)(*stacked)
    looped = torch.stack([function(*(v[i] for v in stacked)) for i in range(2)])
    torch.testing.assert_close(mapped, looped, rtol=1e-12, atol=0)


def test_forward_mode_agrees_with_backward(case: Case) -> None:
    function, values = function_of_tensors(case, example(case))
    tangents = tuple(torch.ones_like(v) for v in values)
    _, forward = torch.func.jvp(function, values, tangents)
    gradients = torch.func.grad(lambda *v: function(*v).sum(), argnums=tuple(range(len(values))))(*values)
    torch.testing.assert_close(forward.sum(), sum(g.sum() for g in gradients), rtol=1e-9, atol=1e-12)


def test_compiles_in_one_graph(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo captures value and gradient without a break; `conftest.py` marks most cases slow."""
    # torch.compile turns validation off, which it cannot trace, for the rest of a process; the test session turns it on
    # again, and the distributions inside of Multinomial and OneHotCategorical are not told otherwise.
    monkeypatch.setattr(Distribution, "_validate_args", False)
    torch.compiler.reset()
    function, values = function_of_tensors(case, example(case))
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    leaves = [v.clone().requires_grad_() for v in values]
    value = compiled(*leaves)
    torch.testing.assert_close(value, function(*values), rtol=1e-13, atol=0)
    value.sum().backward()
    assert all(bool(leaf.grad.isfinite().all()) for leaf in leaves if leaf.grad is not None)


def test_method_is_named(case: Case) -> None:
    row = example(case)
    p, q = case.build(tensors(row["p"], torch.float64), tensors(row["q"], torch.float64))
    rule = registry.find(case.p, case.q)
    if rule is None or rule.method == "structure":
        assert kl_method(p, q) in {"integral", "series"}
    else:
        assert kl_method(p, q) == rule.method
