"""Two sets of draws side by side: how many, where and how wide, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from kullback._core.errors import ShapeError, explain_problem
from kullback.diagnose.explanation import Explanation
from kullback.report.page import Figure, Finding, Series
from kullback.tensors.views import Samples

_MAX_DIMENSIONS = 8
_MAX_DRAWN = 400


def explain_samples(p: Samples, q: Samples, *, base: float | None) -> Explanation:
    """A summary of both; their KL is not known from samples alone, only estimates of it."""
    x, y = _matrix(p, "p"), _matrix(q, "q")
    if x.shape[1] != y.shape[1]:
        raise ShapeError(
            explain_problem(
                "The draws have different dimensions.",
                got=f"{x.shape[1]} in p, {y.shape[1]} in q",
                expected="the same coordinates on both sides",
            )
        )
    findings = [*_findings(x, "p"), *_findings(y, "q")]
    return Explanation(
        p=repr(p), q=repr(q), samples=_summary(x, y), figures=_figures(x, y), findings=findings, base=base
    )


def _matrix(samples: Samples, name: str) -> Tensor:
    tensor = samples.tensor.detach().to(device="cpu", dtype=torch.float64)
    if tensor.shape[0] == 0 or tensor.numel() == 0:
        raise ShapeError(explain_problem(f"{name} has no draws.", got=repr(samples), expected="at least one draw"))
    return tensor.reshape(tensor.shape[0], -1)


def _summary(x: Tensor, y: Tensor) -> list[list[str | float]]:
    rows: list[list[str | float]] = [["draws", float(x.shape[0]), float(y.shape[0])]]
    for at in range(min(x.shape[1], _MAX_DIMENSIONS)):
        name = "" if x.shape[1] == 1 else f" of x[{at}]"
        a, b = x[:, at], y[:, at]
        rows.append([f"mean{name}", float(a.mean()), float(b.mean())])
        rows.append([f"standard deviation{name}", float(a.std(correction=0)), float(b.std(correction=0))])
        shares = (0.05, 0.5, 0.95) if x.shape[1] == 1 else ()
        rows += [[f"{share:.0%} quantile", _quantile(a, share), _quantile(b, share)] for share in shares]
    if x.shape[1] > _MAX_DIMENSIONS:
        rows.append([f"and {x.shape[1] - _MAX_DIMENSIONS} more dimensions", "", ""])
    return rows


def _quantile(values: Tensor, share: float) -> float:
    ordered = values.sort().values
    return float(ordered[min(int(share * len(ordered)), len(ordered) - 1)])


def _figures(x: Tensor, y: Tensor) -> list[Figure]:
    """The fraction of draws up to each x, of the first dimension: no bins that could be chosen wrongly."""
    series = [_cumulative(x[:, 0], "p", 0), _cumulative(y[:, 0], "q", 1)]
    name = "x" if x.shape[1] == 1 else "x[0]"
    return [Figure(f"Fraction of draws up to {name}", series, x_label=name)]


def _cumulative(values: Tensor, name: str, color: int) -> Series:
    ordered = values[values.isfinite()].sort().values
    step = max(len(ordered) // _MAX_DRAWN, 1)
    shown = ordered[::step].tolist()
    return Series(name, shown, [at * step / len(ordered) for at in range(len(shown))], color=color, dashed=color == 1)


def _findings(x: Tensor, name: str) -> Iterator[Finding]:
    bad = int((~x.isfinite()).any(1).sum())
    if bad:
        yield Finding(
            "not-finite",
            "error",
            f"{name} has {bad} draws that are NaN or infinite.",
            "Leave them out.",
            {"draws": bad},
        )
    distinct = torch.unique(x, dim=0).shape[0]
    if distinct == 1 and x.shape[0] > 1:
        yield Finding("constant", "error", f"All {x.shape[0]} draws of {name} are equal.")
    elif distinct < 0.9 * x.shape[0]:
        message = f"{name} has repeated draws: {distinct} distinct values among {x.shape[0]}."
        remedy = "Counts(torch.bincount(x)) if these are class numbers."
        yield Finding("repeated-draws", "warning", message, remedy, {"distinct": distinct, "draws": x.shape[0]})
