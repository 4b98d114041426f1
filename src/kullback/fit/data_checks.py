"""Refuses data that no member of a family can produce or fit best. Called by `forward.py` before a fit."""

from __future__ import annotations

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback.fit.families import Family
from kullback.fit.targets import Points

_NEEDS_POSITIVE = ("Chi2", "FisherSnedecor", "Gamma", "InverseGamma", "LogNormal", "Pareto", "Weibull")
_NEEDS_INSIDE = ("Beta", "Dirichlet", "Kumaraswamy", "LogisticNormal", "RelaxedBernoulli", "RelaxedOneHotCategorical")
_WHOLE = ("Binomial", "Categorical", "Geometric", "NegativeBinomial", "Poisson")
_TWO_VALUES = ("Bernoulli",)
_ONE_HOT = ("OneHotCategorical", "OneHotCategoricalStraightThrough")
_SUM_TO_ONE = ("Dirichlet", "LogisticNormal", "RelaxedOneHotCategorical", *_ONE_HOT)
_SUM_TOLERANCE = 1e-5  # of rows that came from float32
_AT_LEAST_ZERO = ("Exponential", "HalfCauchy", "HalfNormal")
_FIXED_ENDS = {"Uniform": ("low", "high"), "Pareto": ("scale", ""), "GeneralizedPareto": ("loc", "")}
_HAS_SUPPORT = (*_NEEDS_POSITIVE, *_NEEDS_INSIDE, *_AT_LEAST_ZERO, *_FIXED_ENDS, "ContinuousBernoulli")
_SAME_VALUE = 1e-14  # relative
# One value repeated has no most likely member: a scale goes to zero or a concentration to infinity.
_NEEDS_SPREAD = frozenset(
    {"Beta", "Cauchy", "Dirichlet", "DiagonalNormal", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Gumbel"}
    | {"InverseGamma", "Kumaraswamy", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal"}
    | {"MultivariateNormal", "Normal", "Pareto", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT"}
    | {"Uniform", "VonMises", "Weibull"}
)


def check_points(points: Points, family: Family, words: str) -> None:
    """Raise if a sample is outside the family's support, or if no member of the family is the most likely one."""
    if _ends_suffice(points, family):
        return
    x, used = points.x, points.w.expand(points.x.shape[:2]) > 0
    used = used.reshape(*used.shape, *([1] * (x.dim() - 2))).expand_as(x)
    wrong, expected = outside_support(family, x)
    wrong = (wrong & used).nonzero()
    if len(wrong):
        at = tuple(wrong[0].tolist())
        shown = at[0] if x.dim() == 2 and points.batch_shape == () else at if x.dim() == 2 else (at[0], *at[2:])
        count = len(wrong) if x.dim() == 2 else len(set(wrong[:, 0].tolist()))
        raise InputValueError(
            explain_problem(
                f"{count} of the {words} are outside the support of {family.name}.",
                got=f"{x[at].item():g} at index {shown}",
                expected=expected,
                instead=_other_families(x[at].item()) if family.event_dim == 0 else "",
            )
        )
    if points.size is not None and family.name in _NEEDS_SPREAD and not _scale_is_fixed(family):
        _check_spread(points, family, used)


def _ends_suffice(points: Points, family: Family) -> bool:
    """Whether the smallest and the largest sample show already that nothing is wrong, without a look at the others."""
    if points.ends is None or family.name in (*_WHOLE, *_TWO_VALUES, *_SUM_TO_ONE, "Multinomial", "MultivariateNormal"):
        return False
    if family.name in _HAS_SUPPORT and bool(outside_support(family, points.ends)[0].any()):
        return False
    if family.name not in _NEEDS_SPREAD or _scale_is_fixed(family):
        return True
    low, high = points.ends
    if low.numel() == 1:
        least, most = float(low), float(high)
        return most - least > _SAME_VALUE * max(abs(most), abs(least))
    return not bool(_is_constant(low, high).any())


def _is_constant(low: Tensor, high: Tensor) -> Tensor:
    return high - low <= _SAME_VALUE * torch.maximum(high.abs(), low.abs())


def outside_support(family: Family, x: Tensor) -> tuple[Tensor, str]:
    """Which entries of x no member of the family can produce, and what is expected of them."""
    name = family.name
    if not family.is_torch_family():
        return torch.zeros_like(x, dtype=torch.bool), ""
    low, high = (family.fixed.get(each) for each in _FIXED_ENDS.get(name, ("", "")))
    if low is not None and bool((x < torch.as_tensor(low)).any()):
        return x < torch.as_tensor(low), f"numbers from {_FIXED_ENDS[name][0]} = {low}"
    if high is not None and bool((x >= torch.as_tensor(high)).any()):
        return x >= torch.as_tensor(high), f"numbers below {_FIXED_ENDS[name][1]} = {high}"
    if name in _NEEDS_POSITIVE:
        return ~(x > 0), "numbers > 0"
    if name in _NEEDS_INSIDE:
        inside = (x > 0) & (x < 1)
        if name in _SUM_TO_ONE and bool(inside.all()):
            return _wrong_sums(x), "rows that sum to 1"
        return ~inside, "numbers strictly between 0 and 1"
    if name in _ONE_HOT:
        return ((x != 0) & (x != 1)) | _wrong_sums(x), "rows with a single 1 and otherwise 0"
    if name == "Multinomial":
        total = x.sum(-1, keepdim=True)
        count = torch.as_tensor(family.fixed.get("total_count", total[0, 0])).to(x)
        return (x < 0) | (x != x.floor()) | (total != count), f"whole numbers >= 0 with the sum {count.item():g}"
    if name in _TWO_VALUES:
        return (x != 0) & (x != 1), "0 or 1"
    if name in _WHOLE:
        limit = torch.as_tensor(family.fixed.get("total_count", torch.inf) if name == "Binomial" else torch.inf)
        return (x < 0) | (x != x.floor()) | (x > limit.to(x)), "whole numbers >= 0" + (
            f" and <= {limit.item():g}" if limit.numel() == 1 and bool(limit.isfinite()) else ""
        )
    if name in _AT_LEAST_ZERO:
        return x < 0, "numbers >= 0"
    if name == "ContinuousBernoulli":
        return (x < 0) | (x > 1), "numbers from 0 to 1"
    return torch.zeros_like(x, dtype=torch.bool), ""


def _wrong_sums(x: Tensor) -> Tensor:
    return ((x.sum(-1, keepdim=True) - 1).abs() > _SUM_TOLERANCE).expand_as(x)


def _other_families(value: float) -> str:
    return (
        "Normal, Laplace or StudentT"
        if value < 0
        else "Normal, Exponential or HalfNormal"
        if value == 0
        else "Gamma or Normal"
    )


def _scale_is_fixed(family: Family) -> bool:
    return "scale" in family.fixed or "scale_tril" in family.fixed


def _check_spread(points: Points, family: Family, used: Tensor) -> None:
    x = points.x
    low = torch.where(used, x, torch.inf).amin(0)
    high = torch.where(used, x, -torch.inf).amax(0)
    flat = _is_constant(low, high).reshape(-1)
    if bool(flat.any()):
        column = int(flat.nonzero()[0])
        value = low.reshape(-1)[column].item()
        several = flat.numel() > 1
        what = f"Column {column} of the samples" if several else "The sample"
        raise InputValueError(
            explain_problem(
                f"{what} is constant, so no {family.name} is the most likely one: its likelihood has no upper bound.",
                got=f"{value:g} in all {int(used.reshape(len(x), -1)[:, column].sum())} rows",
                expected="at least two different values" + (" in every column" if several else ""),
                instead="Samples(x[:, x.std(0) > 0])" if several else "",
            )
        )
    if family.name in ("MultivariateNormal",):
        centred = ((x - (points.w[..., None] * x).sum(0)) * points.w[..., None].sqrt())[:, 0]
        values = torch.linalg.svdvals(centred / centred.norm(dim=0))
        if len(values) < x.shape[-1] or bool(values[-1] <= 1e-10 * values[0]):
            raise InputValueError(
                explain_problem(
                    "The samples lie in a subspace, so no MultivariateNormal is the most likely one.",
                    got=f"{len(x)} samples in {x.shape[-1]} dimensions, one column a linear combination of others",
                    expected="more samples than dimensions, and columns that do not determine each other",
                    instead='project(Samples(x), "DiagonalNormal")',
                )
            )
