"""What a target distribution knows: moments, ends of its support; and what it lacks. Called by `forward.py`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import (
    Categorical,
    Distribution,
    Independent,
    LowRankMultivariateNormal,
    MixtureSameFamily,
    MultivariateNormal,
    constraints,
)

from kullback._core.errors import InputValueError, explain_problem
from kullback.fit.data_checks import outside_support
from kullback.fit.families import Family
from kullback.fit.moments import Parameters
from kullback.fit.targets import Points

# The M-projection onto these needs the mean and the variance only.
_BY_MEAN = ("Exponential", "Poisson", "Geometric")
_BY_VARIANCE = ("Normal", "HalfNormal", "MultivariateNormal", "DiagonalNormal")


def refuse_missing_moments(p: Distribution, family: Family) -> None:
    """Raise if the target lacks a moment that the family needs."""
    if family.components > 1 or family.name not in (*_BY_MEAN, *_BY_VARIANCE) or isinstance(p, Categorical):
        return  # torch calls the mean of a Categorical NaN, because its classes need not be numbers
    needed = ("mean", "variance") if family.name in _BY_VARIANCE else ("mean",)
    for which in needed:
        try:
            value = getattr(p, which)
        except (NotImplementedError, AttributeError):
            continue
        if not bool(value.isfinite().all()):
            raise InputValueError(
                explain_problem(
                    f"The target has no finite {which}: KL(target ‖ q) is infinite for every {family.name} q.",
                    got=f"{p} with {which} {value.flatten()[0].item():g}",
                    expected=f"a target with finite {' and '.join(needed)}",
                    instead='direction="reverse", or a family with heavy tails such as StudentT or Cauchy',
                )
            )


def from_known_moments(p: Distribution, family: Family, batch_shape: torch.Size) -> Parameters | None:
    """Parameters from the mean and the variance that the target itself knows."""
    if family.components > 1 or family.fixed or family.name not in (*_BY_MEAN, *_BY_VARIANCE):
        return None
    if not family.is_torch_family() or _support_excludes(p, family) or isinstance(p, Categorical):
        return None
    size = batch_shape.numel()
    try:
        mean = p.mean.to(torch.float64).reshape(size, *p.event_shape)
        if family.name in _BY_MEAN:
            return (
                {"rate": 1 / mean}
                if family.name == "Exponential"
                else ({"rate": mean} if family.name == "Poisson" else {"probs": 1 / (1 + mean)})
            )
        if family.name == "MultivariateNormal":
            covariance = _covariance(p)
            if covariance is None:
                return None
            covariance = covariance.to(torch.float64).reshape(size, *p.event_shape, *p.event_shape)
            return {"loc": mean, "scale_tril": torch.linalg.cholesky(covariance)}
        variance = p.variance.to(torch.float64).reshape(size, *p.event_shape)
    except (NotImplementedError, AttributeError):
        return None
    if family.name == "HalfNormal":
        return {"scale": (variance + mean.square()).sqrt()}
    return {"loc": mean, "scale": variance.sqrt()}


def _covariance(p: Distribution) -> Tensor | None:
    """The covariance matrix of a distribution over vectors, where it is known."""
    if isinstance(p, MultivariateNormal | LowRankMultivariateNormal):
        return p.covariance_matrix
    if isinstance(p, Independent) and p.base_dist.event_shape == ():
        return torch.diag_embed(p.variance)
    if isinstance(p, MixtureSameFamily):
        inner = _covariance(p.component_distribution)
        if inner is None:
            return None
        probs = p.mixture_distribution.probs
        means = p.component_distribution.mean - p.mean.unsqueeze(-2)
        return torch.einsum("...k,...kij->...ij", probs, inner + means[..., :, None] * means[..., None, :])
    return None


def _support_excludes(p: Distribution, family: Family) -> bool:
    """Whether the family lives on a part of the numbers that may not contain the target's support."""
    if family.name in ("Normal", "MultivariateNormal", "DiagonalNormal"):
        return False
    own = getattr(p, "support", None)
    return own is None or own is constraints.real


def with_ends(p: Distribution | None, family: Family, points: Points) -> Family:
    """The family with the ends of its support fixed at those of the target, where members have ends."""
    names = {"Uniform": ("low", "high"), "Pareto": ("scale",), "GeneralizedPareto": ("loc",)}.get(family.name)
    if names is None or not family.is_torch_family() or (p is None and family.name != "GeneralizedPareto"):
        return family
    if p is None:
        ends = {"loc": torch.where(points.w > 0, points.x, torch.inf).amin(0)}
    else:
        size, support = points.batch_shape.numel(), p.support
        found = [getattr(support, "lower_bound", None), getattr(support, "upper_bound", None)][: len(names)]
        if any(end is None for end in found):
            which = "lower or upper end" if len(names) > 1 else "lower end"
            raise InputValueError(
                explain_problem(
                    f"The target has no {which}, so KL(target ‖ {family.name}) is infinite for every {family.name}.",
                    got=f"{p} with support {support}",
                    instead='direction="reverse", or a family over all numbers',
                )
            )
        ends = {
            name: torch.as_tensor(end, dtype=torch.float64).expand(points.batch_shape).reshape(size)
            for name, end in zip(names, found, strict=True)
        }
        if family.name == "Pareto" and not bool((ends["scale"] > 0).all()):
            raise InputValueError(
                explain_problem(
                    "The target reaches down to 0 or below, so KL(target ‖ Pareto) is infinite for every Pareto.",
                    got=f"{p} with support {support}",
                    expected="a target over numbers above some positive end",
                    instead="GeneralizedPareto, LogNormal or InverseGamma",
                )
            )
    return Family(family.base, {**ends, **family.fixed}, family.components, family.rank)


def refuse_support(p: Distribution, points: Points, family: Family, words: str) -> None:
    """Raise if the target has mass where the family has none."""
    refuse_flat_support(p, family)
    wrong, expected = outside_support(family, points.x)
    mass = torch.where(wrong.flatten(2).any(-1) if wrong.dim() > 2 else wrong, points.w.detach(), 0.0).sum(0)
    if bool((mass > 1e-12).any()):
        raise InputValueError(
            explain_problem(
                f"KL({words} ‖ {family.name}) is infinite for every {family.name}: the target has mass outside the "
                "family's support.",
                got=f"a probability of {mass.max().item():.3g} outside",
                expected=f"a target over {expected}",
                instead='direction="reverse", or a family over all numbers',
            )
        )


def refuse_flat_support(p: Distribution, family: Family) -> None:
    """Raise if the target lives on the simplex and the family on the whole space: one gives the other no mass."""
    if family.is_gaussian and getattr(p, "support", None) is constraints.simplex:
        raise InputValueError(
            explain_problem(
                f"{type(p).__name__} lives on vectors that sum to 1, to which every {family.name} gives the mass 0: "
                "KL is infinite.",
                got=f"{p}",
                expected="a family over the simplex",
                instead="Dirichlet or LogisticNormal",
            )
        )


def check_finite(parameters: Parameters, family: Family, p: Distribution | None) -> None:
    """Raise if a formula had no finite answer."""
    for name, value in parameters.items():
        positive = name in ("rate", "scale", "alpha") and family.name != "Poisson"
        numbers = value.detach()
        least, lowest, highest = 0.0 if positive else -torch.inf, *(each.item() for each in numbers.aminmax())
        if least < lowest and highest < torch.inf:  # False for NaN
            continue
        bad = ~((numbers > least) & (numbers < torch.inf))
        if p is not None:
            raise InputValueError(
                explain_problem(
                    f"No {family.name} is nearest to the target: an expectation that the {name} needs is not finite.",
                    got=f"{p}",
                    expected="a target with finite moments",
                    instead='direction="reverse", or a family with heavier tails',
                )
            )
        raise InputValueError(
            explain_problem(
                f"No {family.name} is the most likely one: its {name} has no finite positive optimum.",
                got=f"{name} = {value[bad][0].item():g}",
                expected="a target that is not concentrated on an end of the family's support",
            )
        )
