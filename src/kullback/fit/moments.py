"""Maximum likelihood (the M-projection) where moments or one-dimensional equations give it. Called by `forward.py`.

Every function takes points x (n, B, …) with weights w (n, B) that sum to 1 over n, and returns parameters of batch
shape (B, …). Iterations are Newton's, on all B data sets at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.distributions import StickBreakingTransform

from kullback.fit.equations import (
    cauchy_equations,
    dirichlet_equations,
    gamma_concentration,
    half_cauchy_scale,
    inverse_digamma,
    negative_binomial_count,
    von_mises_concentration,
    weibull_of_logs,
)
from kullback.fit.families import Family
from kullback.fit.weighted import covariance_of, mean_of, variance_of, weighted_median

Parameters = dict[str, Tensor]
_TINY = 1e-300
_MIN_LOG_GAP = 0.01  # log(mean) − mean(log) above it has at least 14 digits
_MAX_CHUNK = 1 << 16  # entries of several data sets that are fitted together: they stay in the cache


def closed_form(family: Family, x: Tensor, w: Tensor) -> Parameters | None:
    """The parameters of largest weighted likelihood, or None if the family has no formula here."""
    if family.components > 1:
        return None
    rule = _RULES.get(family.name) if family.is_torch_family() else None
    if rule is None or not set(family.fixed) <= _FIXED_ALLOWED.get(family.name, frozenset()):
        return None
    columns = max(_MAX_CHUNK // len(x), 1)
    if x.dim() != 2 or x.shape[1] <= columns or family.name == "Categorical" or family.fixed:
        return rule(family, x, w)
    parts = [rule(family, part, weight) for part, weight in _chunks(x, w, columns)]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _chunks(x: Tensor, w: Tensor, columns: int) -> Iterator[tuple[Tensor, Tensor]]:
    for start in range(0, x.shape[1], columns):
        part = slice(start, start + columns)
        yield x[:, part], w if w.shape[1] == 1 else w[:, part]


def is_iterated(family: Family) -> bool:
    """Whether `closed_form` solves an equation; backpropagation through its steps would be wrong or wasteful."""
    return family.name in _ITERATED


def _normal(_: Family, x: Tensor, w: Tensor) -> Parameters:
    return {"loc": mean_of(x, w), "scale": variance_of(x, w).sqrt()}


def _log_normal(family: Family, x: Tensor, w: Tensor) -> Parameters:
    return _normal(family, x.log(), w)


def _multivariate_normal(_: Family, x: Tensor, w: Tensor) -> Parameters:
    return {"loc": mean_of(x, w), "scale_tril": torch.linalg.cholesky_ex(covariance_of(x, w)).L}


def _logistic_normal(family: Family, x: Tensor, w: Tensor) -> Parameters:
    return _normal(family, StickBreakingTransform().inv(x), w)


def _laplace(_: Family, x: Tensor, w: Tensor) -> Parameters:
    loc = weighted_median(x, w)
    return {"loc": loc, "scale": mean_of((x - loc).abs(), w)}


def _exponential(_: Family, x: Tensor, w: Tensor) -> Parameters:
    return {"rate": 1 / mean_of(x, w)}


def _poisson(_: Family, x: Tensor, w: Tensor) -> Parameters:
    return {"rate": mean_of(x, w)}


def _probability(_: Family, x: Tensor, w: Tensor) -> Parameters:
    return {"probs": mean_of(x, w)}


def _geometric(_: Family, x: Tensor, w: Tensor) -> Parameters:
    return {"probs": 1 / (1 + mean_of(x, w))}


def _binomial(family: Family, x: Tensor, w: Tensor) -> Parameters:
    count = torch.as_tensor(family.fixed.get("total_count", x.amax()), dtype=x.dtype)
    count = count.expand(x.shape[1])
    return {"total_count": count, "probs": mean_of(x, w) / count.clamp(min=1)}


def _multinomial(family: Family, x: Tensor, w: Tensor) -> Parameters:
    count = torch.as_tensor(family.fixed.get("total_count", x[0, 0].sum()), dtype=x.dtype).expand(x.shape[1])
    return {"total_count": count, "probs": mean_of(x, w) / count[:, None]}


def _categorical(_: Family, x: Tensor, w: Tensor) -> Parameters:
    classes = int(x.max().item()) + 1
    probs = x.new_zeros(classes, x.shape[1]).scatter_add(0, x.long(), w.expand_as(x))
    return {"probs": probs.mT}


def _half_normal(_: Family, x: Tensor, w: Tensor) -> Parameters:
    return {"scale": mean_of(x.square(), w).sqrt()}


def _uniform(family: Family, x: Tensor, w: Tensor) -> Parameters:
    if {"low", "high"} <= set(family.fixed):
        return {name: torch.as_tensor(family.fixed[name], dtype=x.dtype).expand(x.shape[1]) for name in ("low", "high")}
    inside = w.expand_as(x) > 0
    low = torch.where(inside, x, torch.inf).amin(0)
    high = torch.where(inside, x, -torch.inf).amax(0)
    # The support of torch's Uniform ends before `high`: the largest sample must still be inside.
    return {"low": low, "high": torch.nextafter(high, torch.full_like(high, torch.inf))}


def _pareto(family: Family, x: Tensor, w: Tensor) -> Parameters:
    given = family.fixed.get("scale")
    low = torch.where(w.expand_as(x) > 0, x, torch.inf).amin(0)
    scale = low if given is None else torch.as_tensor(given, dtype=x.dtype).expand_as(low)
    return {"scale": scale, "alpha": 1 / mean_of((x / scale).log(), w)}


def _gamma(_: Family, x: Tensor, w: Tensor) -> Parameters:
    mean = mean_of(x, w)
    gap = mean.log() - mean_of(x.log(), w)
    if not bool((gap > _MIN_LOG_GAP * (1 + mean.log().abs())).all()):
        # For narrow data the difference cancels; x/mean − 1 has mean 0, and nothing cancels in its logarithm.
        relative = (x - mean) / mean
        logs = torch.where(relative > -0.5, torch.log1p(relative.clamp(min=-0.5)), x.log() - mean.log())
        gap = mean_of(relative - logs, w).clamp(min=_TINY)
    concentration = gamma_concentration(gap)
    return {"concentration": concentration, "rate": concentration / mean}


def _inverse_gamma(family: Family, x: Tensor, w: Tensor) -> Parameters:
    return _gamma(family, 1 / x, w)


def _chi2(_: Family, x: Tensor, w: Tensor) -> Parameters:
    target = mean_of(x.log(), w) - torch.log(x.new_tensor(2.0))
    return {"df": 2 * inverse_digamma(target)}


def _dirichlet(_: Family, x: Tensor, w: Tensor) -> Parameters:
    mean, second = mean_of(x, w), mean_of(x.square(), w)
    total = ((mean - second) / (second - mean.square()).clamp(min=_TINY)).clamp(1e-3, 1e8)
    start = (mean * total.median(-1, keepdim=True).values).clamp(min=1e-3)
    return {"concentration": dirichlet_equations(mean_of(x.log(), w), start)}


def _beta(_: Family, x: Tensor, w: Tensor) -> Parameters:
    mean, variance = mean_of(x, w), variance_of(x, w)
    total = (mean * (1 - mean) / variance.clamp(min=_TINY) - 1).clamp(1e-3, 1e8)
    logs = torch.stack([mean_of(x.log(), w), mean_of(torch.log1p(-x), w)], dim=-1)
    start = torch.stack([mean * total, (1 - mean) * total], dim=-1).clamp(min=1e-3)
    both = dirichlet_equations(logs, start)
    return {"concentration1": both[..., 0], "concentration0": both[..., 1]}


def _weibull(_: Family, x: Tensor, w: Tensor) -> Parameters:
    shape, log_scale = weibull_of_logs(x.log(), w)
    return {"scale": log_scale.exp(), "concentration": shape}


def _gumbel(_: Family, x: Tensor, w: Tensor) -> Parameters:
    shape, log_scale = weibull_of_logs(-x, w)  # exp(−x) has a Weibull distribution
    return {"loc": -log_scale, "scale": 1 / shape}


def _von_mises(_family: Family, x: Tensor, w: Tensor) -> Parameters:
    sine, cosine = mean_of(x.sin(), w), mean_of(x.cos(), w)
    length = (sine.square() + cosine.square()).sqrt().clamp(max=1 - 1e-15)
    return {"loc": torch.atan2(sine, cosine), "concentration": von_mises_concentration(length)}


def _cauchy(_: Family, x: Tensor, w: Tensor) -> Parameters:
    loc, scale = cauchy_equations(x, w)
    return {"loc": loc, "scale": scale}


def _half_cauchy(_: Family, x: Tensor, w: Tensor) -> Parameters:
    return {"scale": half_cauchy_scale(x, w)}


def _negative_binomial(family: Family, x: Tensor, w: Tensor) -> Parameters:
    mean, given = mean_of(x, w), family.fixed.get("total_count")
    count = negative_binomial_count(x, w) if given is None else torch.as_tensor(given, dtype=x.dtype).expand_as(mean)
    return {"total_count": count, "probs": mean / (mean + count)}


_RULES: dict[str, Callable[[Family, Tensor, Tensor], Parameters]] = {
    "Bernoulli": _probability,
    "Beta": _beta,
    "Binomial": _binomial,
    "Categorical": _categorical,
    "Cauchy": _cauchy,
    "Chi2": _chi2,
    "DiagonalNormal": _normal,
    "Dirichlet": _dirichlet,
    "Exponential": _exponential,
    "Gamma": _gamma,
    "Geometric": _geometric,
    "Gumbel": _gumbel,
    "HalfCauchy": _half_cauchy,
    "HalfNormal": _half_normal,
    "InverseGamma": _inverse_gamma,
    "Laplace": _laplace,
    "LogNormal": _log_normal,
    "LogisticNormal": _logistic_normal,
    "Multinomial": _multinomial,
    "MultivariateNormal": _multivariate_normal,
    "NegativeBinomial": _negative_binomial,
    "Normal": _normal,
    "OneHotCategorical": _probability,
    "OneHotCategoricalStraightThrough": _probability,
    "Pareto": _pareto,
    "Poisson": _poisson,
    "Uniform": _uniform,
    "VonMises": _von_mises,
    "Weibull": _weibull,
}
_FIXED_ALLOWED = {
    "Binomial": frozenset({"total_count"}),
    "Multinomial": frozenset({"total_count"}),
    "NegativeBinomial": frozenset({"total_count"}),
    "Pareto": frozenset({"scale"}),
    "Uniform": frozenset({"low", "high"}),
}
_ITERATED = frozenset(
    {"Beta", "Cauchy", "Chi2", "Dirichlet", "Gamma", "Gumbel", "HalfCauchy", "InverseGamma", "NegativeBinomial"}
    | {"VonMises", "Weibull"}
)
