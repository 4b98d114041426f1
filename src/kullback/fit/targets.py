"""What is fitted to: reads and checks distributions, samples, tensor views, log-densities. Called by `project.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback._core.shapes import written_shape
from kullback.fit.families import Family
from kullback.fit.nodes import is_discrete, log_weighted_points, pilot_samples
from kullback.tensors.views import Counts, Logits, LogProbs, Samples, View

_DRAWS = 1 << 14  # of a distribution over vectors that has neither moments nor nodes
LogDensity = Callable[[Tensor], Tensor]


@dataclass
class Points:
    """Weighted points of B targets.

    Attributes:
        x: (n, B, …).
        w: (n, B), or (n, 1) if all targets have the same weights; with sum 1 over n.
        batch_shape: What B is in the user's shapes.
        size: How many observations each target rests on; None if the points are a distribution.
        robust: Whether standard errors must allow for weights that are not frequencies.
        approximate: Whether the points are draws from a distribution that has no other route.
        ends: (2, …), the smallest and the largest entry of every column of samples that all have weight.
    """

    x: Tensor
    w: Tensor
    batch_shape: torch.Size
    size: Tensor | None = None
    robust: bool = False
    approximate: bool = False
    ends: Tensor | None = None


@dataclass
class Target:
    """A target of one of four kinds, with what belongs to it.

    Attributes:
        kind: "distribution", "samples", "classes" (tensor views) or "log-density".
        dtype: Of the fitted parameters.
        words: What to call it in a message.
    """

    kind: Literal["distribution", "samples", "classes", "log-density"]
    dtype: torch.dtype
    words: str
    distribution: Distribution | None = None
    points: Points | None = None
    log_density: LogDensity | None = None


def read_target(target: object, weights: Tensor | None) -> Target:
    """The target, checked except for what depends on the family."""
    if weights is not None and not isinstance(target, Samples):
        raise InputTypeError(
            explain_problem(
                "Only Samples take weights.", got=type(target).__name__, instead="Counts(tensor) for counts"
            )
        )
    if isinstance(target, Distribution):
        return _read_distribution(target)
    if isinstance(target, Samples):
        return _read_samples(target.tensor, weights)
    if isinstance(target, View):
        return _read_view(target)
    if isinstance(target, Tensor):
        raise InputTypeError(
            explain_problem(
                "project() cannot tell samples from probabilities.",
                got=f"a bare tensor {written_shape(target)}",
                expected="Samples, Counts, Probs, Logits or LogProbs around it",
                instead="project(Samples(x), family)",
            )
        )
    if callable(target):
        return Target("log-density", torch.float64, "log-density", log_density=target)
    raise InputTypeError(
        explain_problem(
            "project() takes a distribution, samples, a tensor view or a log-density.",
            got=type(target).__name__,
            expected="a torch Distribution, Samples(x), Counts(c), Probs(p) or a function x -> log f(x)",
            instead="project(Samples(torch.as_tensor(x)), family)" if hasattr(target, "__len__") else "",
        )
    )


def _read_distribution(p: Distribution) -> Target:
    dtypes = []
    for value in _tensors_of(p):
        dtypes.append(value.dtype)
        if bool(value.isnan().any()):
            raise InputValueError(
                explain_problem("The target has a NaN parameter.", got=repr(p), expected="finite parameters")
            )
    dtype = torch.float64 if torch.float64 in dtypes else torch.float32
    return Target("distribution", dtype, type(p).__name__, distribution=p)


def _tensors_of(p: Distribution) -> list[Tensor]:
    """The parameters of a distribution and of those inside it."""
    found = []
    for value in vars(p).values():
        if isinstance(value, Tensor) and value.is_floating_point():
            found.append(value)
        elif isinstance(value, Distribution):
            found += _tensors_of(value)
    return found


def _read_samples(x: Tensor, weights: Tensor | None) -> Target:
    if x.numel() == 0 or x.shape[0] == 0:
        raise InputValueError(
            explain_problem("There are no samples to fit.", got=f"shape {tuple(x.shape)}", expected="at least one row")
        )
    if x.is_complex():
        raise InputTypeError(
            explain_problem("Samples are real numbers.", got=str(x.dtype), instead="Samples(x.to(torch.float64))")
        )
    dtype = x.dtype if x.is_floating_point() else torch.float64
    dtype = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    x = x.to(torch.float64)
    low, high = x.detach().aminmax(dim=0)  # NaN where a column holds one
    if not (low.amin().item() > -torch.inf and high.amax().item() < torch.inf):
        bad = (~x.isfinite()).nonzero()
        at = tuple(bad[0].tolist())
        raise InputValueError(
            explain_problem(
                f"{len(bad)} of the samples are not finite.",
                got=f"{x[at].item()} at index {at if len(at) > 1 else at[0]}",
                instead="Samples(x[x.isfinite()])" if x.dim() == 1 else "Samples(x[x.isfinite().all(-1)])",
            )
        )
    n = x.shape[0]
    if weights is None:
        w, size = x.new_full((n,), 1 / n), x.new_tensor(float(n))
    else:
        w = _read_weights(weights, n)
        size = 1 / w.square().sum()
    ends = torch.stack([low, high]) if weights is None else None
    points = Points(x, w[:, None], torch.Size(), size, robust=weights is not None, ends=ends)
    return Target("samples", dtype, "samples", points=points)


def _read_weights(weights: object, n: int) -> Tensor:
    if not isinstance(weights, Tensor):
        raise InputTypeError(
            explain_problem("weights is a tensor.", got=type(weights).__name__, expected=f"shape ({n},)")
        )
    if weights.shape != (n,):
        raise ShapeError(
            explain_problem(
                "One weight per sample.", got=f"weights of shape {tuple(weights.shape)}", expected=f"({n},)"
            )
        )
    w = weights.to(torch.float64)
    bad = (~(w.isfinite() & (w >= 0))).nonzero()
    if len(bad):
        raise InputValueError(
            explain_problem(
                "Weights are finite and not negative.", got=f"{w[bad[0, 0]].item()} at index {bad[0, 0].item()}"
            )
        )
    if not bool(w.sum() > 0):
        raise InputValueError(explain_problem("All weights are zero.", expected="a positive sum"))
    return w / w.sum()


def _read_view(view: View) -> Target:
    rows = view.tensor.movedim(view.dim, -1) if view.tensor.dim() else view.tensor
    if rows.dim() == 0 or rows.numel() == 0:
        raise InputValueError(
            explain_problem(f"{view.kind} has no classes.", got=f"shape {tuple(rows.shape)}", expected="at least one")
        )
    dtype = rows.dtype if rows.dtype == torch.float64 else torch.float32
    values = rows.to(torch.float64)
    logarithms = isinstance(view, Logits | LogProbs)
    bad = (values.isnan() | (values == torch.inf) | ((values < 0) & (not logarithms))).nonzero()
    if len(bad):
        at = tuple(bad[0].tolist())
        raise InputValueError(
            explain_problem(
                f"{view.kind} holds an impossible number.",
                got=f"{values[at].item()} at index {at if len(at) > 1 else at[0]}",
                expected="finite logarithms or -inf" if logarithms else "finite numbers >= 0",
            )
        )
    size = None
    if logarithms:
        p = values.softmax(-1)
        sums = values.exp().sum(-1) if isinstance(view, LogProbs) else None
    elif isinstance(view, Counts):
        size = values.sum(-1).flatten()
        values = values + view.smoothing
        p, sums = values / values.sum(-1, keepdim=True), None
    else:
        sums = values.sum(-1)
        p = values / sums[..., None]
    if bool(p.isnan().any()):
        raise InputValueError(explain_problem(f"A row of {view.kind} has no mass.", expected="a positive sum"))
    tolerance = 8 * rows.shape[-1] * torch.finfo(rows.dtype).eps
    if sums is not None and bool(((sums - 1).abs() > max(tolerance, 1e-5)).any()):
        raise InputValueError(
            explain_problem(
                f"{view.kind} sums to 1 in every row.",
                got=f"{sums.flatten()[0].item():.6g}",
                instead="Counts(x) or Logits(x)",
            )
        )
    w = p.reshape(-1, rows.shape[-1]).mT
    x = torch.arange(rows.shape[-1], dtype=torch.float64)[:, None].expand_as(w)
    return Target("classes", dtype, view.kind, points=Points(x, w, rows.shape[:-1], size))


def as_distribution(target: Target) -> Target:
    """Probabilities of classes as a Categorical, whose every value is known; other targets as they are."""
    points = target.points
    if target.kind != "classes" or points is None or points.size is not None:
        return target
    probs = points.w.mT.reshape(*points.batch_shape, -1)
    return replace(target, kind="distribution", distribution=Categorical(probs), points=None)


def points_for(target: Target, family: Family, seed: int) -> Points:
    """The target as weighted points in the shape that the family's events have."""
    if target.kind == "samples":
        assert target.points is not None
        return _shape_samples(target.points, family)
    if target.kind == "classes":
        assert target.points is not None
        return _shape_classes(target.points, family)
    assert target.distribution is not None
    return _points_of_distribution(target.distribution, family, seed)


def without_weightless(points: Points) -> Points:
    """The points without those that no target gives any weight to, whose logarithms may not exist."""
    if points.ends is not None or points.w.shape[1] != 1:
        return points
    used = points.w[:, 0] > 0
    return points if bool(used.all()) else replace(points, x=points.x[used], w=points.w[used])


def _shape_samples(points: Points, family: Family) -> Points:
    x, w, size = points.x, points.w, points.size
    assert size is not None
    if family.event_dim == 0:
        batch = x.shape[1:]
        x = x.reshape(len(x), -1)
        size = size.expand(x.shape[1])
    elif family.event_dim == 1 and x.dim() == 2:
        batch = torch.Size()
        x, size = x[:, None], size.expand(1)
    else:
        raise ShapeError(
            explain_problem(
                f"{family.name} is a family over {'vectors' if family.event_dim == 1 else 'matrices'}.",
                got=f"samples of shape {tuple(x.shape)}",
                expected="shape (n, d)" if family.event_dim == 1 else "a Distribution as target",
                instead="Samples(x[:, None]) for vectors of length 1" if family.event_dim == 1 else "",
            )
        )
    return Points(x, w, batch, size, points.robust, ends=points.ends)


def _shape_classes(points: Points, family: Family) -> Points:
    if family.event_dim == 1 and family.name.startswith("OneHotCategorical"):
        classes, rows = points.w.shape
        x = torch.eye(classes, dtype=torch.float64)[:, None].expand(classes, rows, classes)
        return Points(x, points.w, points.batch_shape, points.size)
    if family.event_dim:
        raise ShapeError(
            explain_problem(
                f"{family.name} is a family over vectors; a tensor view is a distribution of the numbers 0, 1, 2, ….",
                expected="Categorical, OneHotCategorical, Poisson, Binomial, Geometric, …",
                instead="Samples(x) if the rows are samples",
            )
        )
    return points


def _points_of_distribution(p: Distribution, family: Family, seed: int) -> Points:
    event = len(p.event_shape)
    if event != family.event_dim:
        raise ShapeError(
            explain_problem(
                f"The target's events have {event} dimensions and those of {family.name} have {family.event_dim}.",
                got=f"{type(p).__name__} with event_shape {tuple(p.event_shape)}",
                expected="a family over events of the same shape",
                instead="MultivariateNormal" if event == 1 else "",
            )
        )
    size = p.batch_shape.numel()
    if event == 0:
        flat = p.expand(torch.Size([size])) if p.batch_shape == () else p
        x, log_w = log_weighted_points(flat)
        x, w = x.reshape(len(x), size), log_w.exp().reshape(len(x), size)
        return Points(x.to(torch.float64), w / w.sum(0).detach(), p.batch_shape)
    if is_discrete(p) and p.has_enumerate_support:
        x = p.enumerate_support(expand=True).to(torch.float64)
        w = p.log_prob(x.to(x.dtype)).exp()
        return Points(x.reshape(len(x), size, -1), w.reshape(len(x), size).to(torch.float64), p.batch_shape)
    draws = pilot_samples(p, _DRAWS, seed).to(torch.float64)
    x = draws.reshape(_DRAWS, size, *p.event_shape)
    return Points(x, x.new_full((_DRAWS, size), 1 / _DRAWS), p.batch_shape, approximate=True)
