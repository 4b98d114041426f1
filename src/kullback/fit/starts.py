"""Starting values of a fit from weighted points, for one member or a mixture. Called by `forward.py`, `reverse.py`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import constraints

from kullback.fit.families import Family
from kullback.fit.moments import Parameters, closed_form
from kullback.fit.weighted import covariance_of, mean_of, middle_and_spread, variance_of

_SMALL = 1e-6


def start_values(family: Family, x: Tensor, w: Tensor) -> Parameters:
    """Parameters of batch shape (B,) that are a fair guess for points x (n, B, …) with weights w (n, B)."""
    single = Family(family.base, family.fixed, 1, family.rank)
    exact = closed_form(Family(family.base, {}, 1, family.rank), x, w)
    found = exact if exact is not None else _rough(single, x, w)
    found = {name: value for name, value in found.items() if name not in family.fixed}
    return {name: _away_from_edges(value, family.kinds().get(name, "")) for name, value in found.items()}


def mixture_starts(family: Family, x: Tensor, w: Tensor, restarts: int, generator: torch.Generator) -> Parameters:
    """Parameters of batch shape (restarts,) of mixtures for the points x (n, 1, …) of one data set.

    Each start draws one centre per component, far from the earlier ones with higher probability, and fits one member to
    the points that are nearest to each centre.
    """
    components = family.components
    n = x.shape[0]
    flat = x.reshape(n, -1)
    scale = variance_of(flat[:, None], w).sqrt().clamp(min=1e-300)[0]
    place = flat / scale
    weight = w[:, 0].detach()
    collected: list[Parameters] = []
    for _ in range(restarts):
        centres = [place[int(torch.multinomial(weight, 1, generator=generator))]]
        for _ in range(components - 1):
            nearest = torch.stack([(place - c).square().sum(-1) for c in centres]).amin(0)
            chance = weight * nearest
            if not bool(chance.sum() > 0):
                chance = weight
            centres.append(place[int(torch.multinomial(chance, 1, generator=generator))])
        owner = torch.stack([(place - c).square().sum(-1) for c in centres]).argmin(0)
        # One sixth of every component comes from all points: none starts empty or with a scale of zero.
        shares = torch.stack([torch.where(owner == k, 1.0, 0.0) * weight for k in range(components)], dim=-1)
        mass = shares.sum(0)
        shares = 5 / 6 * shares / mass.clamp(min=1e-12) + 1 / 6 * weight[:, None]
        each = start_values(
            Family(family.base, family.fixed, 1, family.rank),
            x.expand(n, components, *x.shape[2:]),
            shares / shares.sum(0),
        )
        each["mixture_probs"] = (mass.clamp(min=0.02) / mass.clamp(min=0.02).sum()).to(x)
        collected.append(each)
    return {name: torch.stack([start[name] for start in collected]) for name in collected[0]}


def _rough(family: Family, x: Tensor, w: Tensor) -> Parameters:
    name = family.name if family.is_torch_family() else ""
    if name in ("Cauchy", "StudentT"):
        middle, spread = middle_and_spread(x, w)
        found = {"loc": middle, "scale": spread}
        return {"df": torch.full_like(middle, 4.0), **found} if name == "StudentT" else found
    mean = mean_of(x, w)
    if name == "ContinuousBernoulli":
        return {"probs": mean}
    if name == "Kumaraswamy":
        return {"concentration1": torch.ones_like(mean), "concentration0": torch.ones_like(mean)}
    if name == "FisherSnedecor":
        df2 = torch.where(mean > 1.05, 2 * mean / (mean - 1).clamp(min=0.05), 20.0)
        return {"df1": torch.full_like(mean, 4.0), "df2": df2.clamp(1.0, 40.0)}
    if name == "GeneralizedPareto":
        low = torch.where(w.expand_as(x) > 0, x, torch.inf).amin(0)
        return {"loc": low, "scale": mean_of(x - low, w).clamp(min=1e-300), "concentration": torch.full_like(mean, 0.1)}
    if name == "RelaxedBernoulli":
        return {"temperature": torch.ones_like(mean), "probs": mean}
    if name == "RelaxedOneHotCategorical":
        return {"temperature": torch.ones_like(mean[..., 0]), "probs": mean / mean.sum(-1, keepdim=True)}
    if name == "LowRankMultivariateNormal":
        return _low_rank(mean, covariance_of(x, w), family.rank)
    if name == "LKJCholesky":
        return {"dim": x.new_full((x.shape[1],), x.shape[-1]), "concentration": torch.ones_like(mean[..., 0, 0])}
    if name == "Wishart":
        size = x.shape[-1]
        df = x.new_full((x.shape[1],), size + 2.0)
        return {"df": df, "scale_tril": torch.linalg.cholesky_ex(mean / df[:, None, None]).L}
    middle = middle_and_spread(x, w)[0] if x.dim() == 2 else mean
    return _by_name(family, middle, variance_of(x, w).sqrt())


def _low_rank(mean: Tensor, covariance: Tensor, rank: int) -> Parameters:
    """Principal factors: the largest eigenvectors, and what they leave of the diagonal."""
    values, vectors = torch.linalg.eigh(covariance)
    size = covariance.shape[-1]
    rank = min(rank, size)
    noise = values[..., : size - rank].mean(-1) if rank < size else values[..., 0] / 2
    factor = vectors[..., -rank:] * (values[..., -rank:] - noise[..., None]).clamp(min=1e-12).sqrt()[..., None, :]
    diagonal = covariance.diagonal(dim1=-2, dim2=-1)
    rest = torch.maximum(diagonal - factor.square().sum(-1), 0.05 * diagonal)
    return {"loc": mean, "cov_factor": factor, "cov_diag": rest}


def _by_name(family: Family, middle: Tensor, spread: Tensor) -> Parameters:
    """A class of the user's: `loc` and `scale` by their names, everything else at the middle of its constraint."""
    found: Parameters = {}
    for name, kind in family.kinds().items():
        if kind == "real":
            found[name] = middle if name in ("loc", "mean", "mu") else torch.zeros_like(middle)
        elif kind == "positive":
            scale = spread.clamp(min=1e-300)
            found[name] = scale if name in ("scale", "std", "sigma") else torch.ones_like(middle)
        elif kind == "unit":
            found[name] = torch.full_like(middle, 0.5)
        else:
            found[name] = middle
    return found


def _away_from_edges(value: Tensor, kind: str) -> Tensor:
    """Coordinates at infinity cannot be moved; the exact answers at an edge never come here."""
    if kind == "unit":
        return value.clamp(_SMALL, 1 - _SMALL)
    if kind == "simplex":
        value = value.clamp(min=_SMALL)
        return value / value.sum(-1, keepdim=True)
    if kind in ("positive", "positive_vector"):
        return value.clamp(1e-200, 1e200)
    return value


def support_of(family: Family) -> constraints.Constraint | None:
    """The support of the family where it does not depend on parameters."""
    if isinstance(family.base, str):
        return constraints.real_vector
    support = getattr(family.base, "support", None)
    if not isinstance(support, constraints.Constraint):
        return None
    return None if constraints.is_dependent(support) else support  # type: ignore[no-untyped-call]
