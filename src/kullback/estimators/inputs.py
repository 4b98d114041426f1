"""Reads what `estimate_kl` and `estimate_mutual_information` were given; refuses what no estimator can use."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback.tensors.views import Samples

MIN_DRAWS = 2


class Draws(NamedTuple):
    """Draws of both sides in float64 on the CPU, with the columns that carry no information left out.

    Attributes:
        x: (n, d), draws of p.
        y: (m, d), draws of q.
        warnings: What was changed.
    """

    x: Tensor
    y: Tensor
    warnings: list[str]


def seeded(generator: torch.Generator | None) -> np.random.Generator:
    """NumPy's generator, seeded from torch's; without one the seed is 0, so that the same call answers the same."""
    if generator is None:
        return np.random.default_rng(0)
    if not isinstance(generator, torch.Generator):
        raise InputTypeError(
            explain_problem(
                "generator is torch's.",
                got=type(generator).__name__,
                expected="a torch.Generator",
                instead="generator=torch.Generator().manual_seed(0)",
            )
        )
    seed = torch.randint(2**62, (1,), generator=generator, device=generator.device)
    return np.random.default_rng(int(seed))


def matrix(samples: Samples, name: str) -> Tensor:
    """The draws as (n, d) in float64; refuses NaN, infinities and fewer than two."""
    tensor = samples.tensor.detach()
    if tensor.is_meta:
        raise InputTypeError(
            explain_problem(f"{name} has no data to estimate from.", got="a tensor on meta", expected="draws")
        )
    if tensor.is_complex():
        raise InputTypeError(explain_problem(f"{name} has complex draws.", got=repr(samples), expected="real numbers"))
    tensor = tensor.to(device="cpu", dtype=torch.float64)
    tensor = tensor.reshape(tensor.shape[0], -1) if tensor.numel() else tensor.reshape(tensor.shape[0], 0)
    if tensor.shape[0] < MIN_DRAWS or tensor.shape[1] == 0:
        raise ShapeError(
            explain_problem(
                f"{name} has too few draws for an estimate with an error bar.",
                got=repr(samples),
                expected=f"at least {MIN_DRAWS} draws of at least one number",
            )
        )
    bad = ~tensor.isfinite().all(1)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        shown = ", ".join(f"{entry:.5g}" for entry in tensor[row, :4].tolist())
        raise InputValueError(
            explain_problem(
                f"{name} has {int(bad.sum())} of {len(bad)} draws with NaN or infinity.",
                got=f"row {row}: [{shown}{', …' if tensor.shape[1] > 4 else ''}]",
                expected="finite numbers",
                instead="Samples(x[x.isfinite().all(-1)]) if they may be left out (KL of the rest is another question)",
            )
        )
    return tensor


def two_sides(p: Samples, q: Samples) -> Draws:
    """Both sides, with the same coordinates; equal constant columns are left out."""
    x, y = matrix(p, "p"), matrix(q, "q")
    if x.shape[1] != y.shape[1]:
        raise ShapeError(
            explain_problem(
                "The draws of p and q have different dimensions.",
                got=f"{x.shape[1]} and {y.shape[1]} columns",
                expected="the same coordinates in the same order",
            )
        )
    warnings = []
    keep = [column for column in range(x.shape[1]) if _informative(x[:, column], y[:, column], column)]
    if len(keep) < x.shape[1]:
        warnings.append(f"{x.shape[1] - len(keep)} columns are the same constant on both sides; they add nothing.")
    return Draws(x[:, keep], y[:, keep], warnings)


def _informative(a: Tensor, b: Tensor, column: int) -> bool:
    """Whether a column varies; refuses a constant that the other side does not have, where KL is infinite."""
    constant_a, constant_b = bool((a == a[0]).all()), bool((b == b[0]).all())
    if constant_a and constant_b and a[0] == b[0]:
        return False
    shown = {"p": constant_a, "q": constant_b}
    if not any(shown.values()) or (constant_a and int((b == a[0]).sum()) > 1):
        return True
    side = "p" if constant_a else "q"
    other = "q is constant too, elsewhere" if constant_a and constant_b else f"{'q' if constant_a else 'p'} varies"
    raise InputValueError(
        explain_problem(
            f"Column {column} of {side} is constant and {other}: KL(p || q) of such a pair is infinite.",
            got=f"{side}[:, {column}] = {float(a[0] if constant_a else b[0]):.6g} in every draw",
            expected="columns that vary on both sides",
            instead="leave the column out, or add the noise that the measurement has",
        )
    )


def inside_support(distribution: Distribution, x: Tensor) -> Tensor:
    """Which draws lie in the support; all of them if the distribution does not say."""
    try:
        support: Any = distribution.support
    except NotImplementedError:
        support = None
    return torch.ones((), dtype=torch.bool) if support is None else torch.as_tensor(support.check(x))


def log_density(q: Distribution, p: Samples, x: Tensor) -> Tensor:
    """Log q at the draws in float64; refuses shapes that do not fit."""
    shapes = f"batch shape {tuple(q.batch_shape)}, event shape {tuple(q.event_shape)}"
    if q.batch_shape != torch.Size() or len(q.event_shape) > 1 or x.shape[1] != max(math.prod(q.event_shape), 1):
        raise ShapeError(
            explain_problem(
                "The draws do not fit the distribution.",
                got=f"{p!r}; {type(q).__name__} of {shapes}",
                expected="draws (n,) for an event shape (), (n, d) for (d,), and no batch",
                instead="Independent(q, 1) if the batch is the coordinates of a draw",
            )
        )
    points = x if q.event_shape else x[:, 0]
    inside = inside_support(q, points)
    if not bool(inside.all()):
        row = int((~inside).nonzero()[0, 0])
        raise InputValueError(
            explain_problem(
                f"{int((~inside).sum())} draws of p lie outside the support of q: KL(p || q) is infinite.",
                got=f"row {row}: {x[row, :4].tolist()}",
                expected=f"draws inside {q.support}",
            )
        )
    with torch.no_grad():
        return q.log_prob(points).to(torch.float64).reshape(-1)


def scaled(draws: Draws) -> tuple[Tensor, Tensor]:
    """Columns in units of their pooled spread, the middle half or else the standard deviation: KL does not change."""
    pooled = torch.cat([draws.x, draws.y])
    ordered = pooled.sort(0).values
    spread = ordered[3 * len(pooled) // 4] - ordered[len(pooled) // 4]
    spread = torch.where(spread > 0, spread, pooled.std(0))
    center = ordered[len(pooled) // 2]
    return (draws.x - center) / spread, (draws.y - center) / spread


def note_ceiling(value: float, n: int, diagnostics: dict[str, object], warnings: list[str]) -> None:
    """No method shows a divergence far above log n from n draws (McAllester and Stratos, 2020)."""
    diagnostics["log_n"] = math.log(n)
    if value > math.log(n) - 2:
        warnings.append(
            f"The estimate is near log n = {math.log(n):.2g}, the largest divergence that {n} draws can show; "
            "the truth may be much larger."
        )
