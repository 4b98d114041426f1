"""Draws beside draws or beside a distribution: KL by `estimate_kl`, where they are, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputTypeError, KullbackError, ShapeError, explain_problem
from kullback.diagnose.curves import is_discrete
from kullback.diagnose.explanation import PQ, QP, Direction, Explanation
from kullback.diagnose.formula import swap_names
from kullback.diagnose.tensor_findings import one_sided
from kullback.diagnose.written import write_distribution
from kullback.estimators import estimate_kl
from kullback.report.page import Figure, Finding, Series
from kullback.tensors.views import Samples

_MAX_DIMENSIONS = 8
_MAX_DRAWN = 400
_DRAWS = 10_000


def explain_samples(p: Any, q: Any, *, base: float | None) -> Explanation:
    """Estimates of KL in both directions with their errors, and a summary of both sides."""
    drawn_p, drawn_q = _draws(p, "p"), _draws(q, "q")
    if any(_discrete(side) for side in (p, q)):  # draws of counts are counted, on both sides
        drawn_p, drawn_q = (Samples(_whole(drawn.tensor)) for drawn in (drawn_p, drawn_q))
        first, second = drawn_p, drawn_q
    else:
        first, second = p, q
    x, y = _matrix(drawn_p, "p"), _matrix(drawn_q, "q")
    if x.shape[1] != y.shape[1]:
        raise ShapeError(
            explain_problem(
                "The draws have different dimensions.",
                got=f"{x.shape[1]} in p, {y.shape[1]} in q",
                expected="the same coordinates on both sides",
            )
        )
    findings = [
        *(_findings(x, "p", counted=_counted(drawn_p)) if isinstance(p, Samples) else ()),
        *(_findings(y, "q", counted=_counted(drawn_q)) if isinstance(q, Samples) else ()),
    ]
    broken = any(finding.severity == "error" for finding in findings)
    (forward, doubts), (backward, more) = (
        _estimated(*pair, broken=broken) for pair in ((PQ, drawn_p, second), (QP, drawn_q, first))
    )
    findings += [*doubts, *(finding for finding in more if finding.message not in {d.message for d in doubts})]
    if not broken:
        findings += _compared(forward, backward)
    findings.sort(key=lambda finding: ("error", "warning", "info").index(finding.severity))
    return Explanation(
        p=_written(p),
        q=_written(q),
        directions=[forward, backward],
        samples=_summary(x, y),
        figures=_figures(x, y),
        findings=findings,
        base=base,
    )


def _estimated(label: str, p: Any, q: Any, *, broken: bool) -> tuple[Direction, list[Finding]]:
    """KL of the first to the second, and the estimator's own doubts."""
    if broken:
        return Direction(label, None, reasons=["The draws cannot be used; see the findings."]), []
    try:
        found = estimate_kl(p, q)
    except KullbackError as error:
        return Direction(label, None, reasons=[_named(str(error).partition("\n")[0], label)]), []
    value = torch.as_tensor(found.value, dtype=torch.float64).detach()
    interval = float(found.low), float(found.high)
    direction = Direction(
        label, value, found.method, error=float(found.stderr), interval=interval, confidence=found.confidence
    )
    return direction, [
        Finding("estimate-warning", "warning", f"{label}: {_named(text, label)}") for text in found.warnings
    ]


def _named(text: str, label: str) -> str:
    """Words about the first and second argument, with the names they have here."""
    return swap_names(text) if label == QP else text


def _discrete(side: Any) -> bool:
    return isinstance(side, Distribution) and not side.event_shape and is_discrete(side)


def _whole(tensor: Tensor) -> Tensor:
    return tensor.long() if bool((tensor == tensor.round()).all()) else tensor


def _counted(samples: Samples) -> bool:
    return not samples.tensor.is_floating_point()


def _compared(forward: Direction, backward: Direction) -> Iterator[Finding]:
    if forward.interval is None:
        return
    low, high = forward.interval
    if low <= 0 <= high:
        yield Finding(
            "no-difference-seen",
            "info",
            f"The interval [{low:.3g}, {high:.3g}] of KL(p ‖ q) contains 0: these draws do not tell p and q apart.",
            evidence={"low": low, "high": high},
        )
    elif backward.interval is not None and backward.interval[0] > 0 and low > 0 and forward.value is not None:
        assert backward.value is not None
        yield from one_sided(float(forward.value), float(backward.value))


def _written(side: Any) -> str:
    return write_distribution(side) if isinstance(side, Distribution) else repr(side)


def _draws(side: Any, name: str) -> Samples:
    """The draws themselves; of a distribution, a number of them."""
    if isinstance(side, Samples):
        return side
    if not isinstance(side, Distribution):
        raise InputTypeError(
            explain_problem(
                f"{name} cannot be compared with samples.",
                got=f"a {type(side).__name__}",
                expected="Samples or a distribution",
                instead="Samples(x)",
            )
        )
    if side.batch_shape:
        raise ShapeError(
            explain_problem(
                f"{name} is a batch of distributions beside one set of draws.",
                got=f"batch shape {tuple(side.batch_shape)}",
                expected="one distribution",
            )
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = side.sample(torch.Size([_DRAWS]))
    return Samples(drawn.reshape(_DRAWS, -1) if side.event_shape else drawn)


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


def _findings(x: Tensor, name: str, *, counted: bool) -> Iterator[Finding]:
    bad = int((~x.isfinite()).any(1).sum())
    if bad:
        yield Finding(
            "not-finite",
            "error",
            f"{name} has {bad} of {len(x)} draws that are NaN or infinite.",
            "leave them out: x[x.isfinite()]",
            {"draws": bad},
        )
    if counted:  # whole numbers repeat
        return
    distinct = torch.unique(x, dim=0).shape[0]
    if distinct == 1 and x.shape[0] > 1:
        yield Finding("constant", "error", f"All {x.shape[0]} draws of {name} are equal.")
    elif distinct < 0.9 * x.shape[0]:
        message = f"{name} has repeated draws: {distinct} distinct values among {x.shape[0]}."
        remedy = "Samples(x.long()) counts them, if these are class numbers"
        yield Finding("repeated-draws", "warning", message, remedy, {"distinct": distinct, "draws": x.shape[0]})
