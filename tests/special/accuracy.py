"""Measure a special function against its mpmath table, in units in the last place."""

import json
import math
from pathlib import Path

import torch

GOLDEN = Path(__file__).parents[1] / "golden"


def load(group):
    return json.loads((GOLDEN / f"special_{group}.json").read_text(encoding="utf-8"))


def ulp(x, dtype=torch.float64):
    """The spacing of `dtype` at |x|, its smallest subnormal at least."""
    info = torch.finfo(dtype)
    if x == 0 or not math.isfinite(x):
        return info.smallest_normal * info.eps
    return max(math.ldexp(info.eps, math.frexp(abs(x))[1] - 1), info.smallest_normal * info.eps)


def error_in_ulp(got, want, floor=0.0, dtype=torch.float64):
    """|got - want| in ulps of max(|want|, floor); infinite for a NaN, a wrong infinity or a wrong finite number."""
    if math.isinf(want) or not math.isfinite(got):
        return 0.0 if got == want else math.inf
    return abs(got - want) / ulp(max(abs(want), floor), dtype)


def derivatives(function, arguments):
    """Value, gradient and upper triangle of the Hessian of a pointwise function, by double backward."""
    arguments = [a.clone().requires_grad_() for a in arguments]
    value = function(*arguments)
    first = torch.autograd.grad(value.sum(), arguments, create_graph=True)
    second = []
    for i, slope in enumerate(first):
        row = torch.autograd.grad(slope.sum(), arguments, retain_graph=True)
        second += [row[j].detach() for j in range(i, len(arguments))]
    return value.detach(), [g.detach() for g in first], second


def errors(function, rows, floors=None):
    """Per row: arguments and the errors of value, first and second derivatives, worst entry each."""
    floors = floors or (lambda *args: (0.0, 0.0, 0.0))
    columns = [torch.tensor(column, dtype=torch.float64) for column in zip(*[row[0] for row in rows], strict=True)]
    value, first, second = derivatives(function, columns)
    report = []
    for i, (args, want, want_first, want_second) in enumerate(rows):
        floor = floors(*args)
        report.append(
            (
                args,
                error_in_ulp(value[i].item(), want, floor[0]),
                max(error_in_ulp(g[i].item(), w, floor[1]) for g, w in zip(first, want_first, strict=True)),
                max(error_in_ulp(g[i].item(), w, floor[2]) for g, w in zip(second, want_second, strict=True)),
            )
        )
    return report
