"""Measure a special function against its mpmath table, in units in the last place."""

import json
import math
from functools import cache
from pathlib import Path

import torch

GOLDEN = Path(__file__).parents[1] / "golden"


@cache
def load(group):
    """{name: [[arguments, value, first derivatives, second derivatives], …]}."""
    return json.loads((GOLDEN / f"special_{group}.json").read_text(encoding="utf-8"))


def ulp(x, dtype=torch.float64):
    """The spacing of `dtype` at |x|, its smallest subnormal at least."""
    info = torch.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    if x == 0 or not math.isfinite(x):
        return smallest
    return max(math.ldexp(info.eps, math.frexp(abs(x))[1] - 1), smallest)


def error_in_ulp(got, want, floor=0.0, dtype=torch.float64):
    """|got - want| in ulps of max(|want|, floor); infinite for a NaN, a wrong infinity or a wrong finite number."""
    if math.isinf(want) or not math.isfinite(got):
        return 0.0 if got == want else math.inf
    return abs(got - want) / ulp(max(abs(want), floor), dtype)


def columns(rows, dtype=torch.float64):
    return [torch.tensor(column, dtype=dtype) for column in zip(*[row[0] for row in rows], strict=True)]


def derivatives(function, arguments, constants=0):
    """Value, gradient and upper triangle of the Hessian of a pointwise function, by double backward."""
    fixed, free = arguments[:constants], [a.clone().requires_grad_() for a in arguments[constants:]]
    value = function(*fixed, *free)
    first = torch.autograd.grad(value.sum(), free, create_graph=True)
    second = []
    for i, slope in enumerate(first):
        row = torch.autograd.grad(slope.sum(), free, retain_graph=True)
        second += [row[j].detach() for j in range(i, len(free))]
    return value.detach(), [g.detach() for g in first], second


def worst_errors(promise):
    """The largest error of the value, the first and the second derivatives, each with the arguments where it occurs."""
    rows = load(promise.group)[promise.name]
    value, first, second = derivatives(promise.function, columns(rows), promise.constants)
    worst = [(0.0, None)] * 3
    for i, (args, *wants) in enumerate(rows):
        wants[0] = [wants[0]]
        for part, (got, want) in enumerate(zip(([value], first, second), wants, strict=True)):
            floor = promise.floors(*args)[part]
            error = max(error_in_ulp(g[i].item(), w, floor) for g, w in zip(got, want, strict=True))
            worst[part] = max(worst[part], (error, args), key=lambda pair: pair[0])
    return worst
