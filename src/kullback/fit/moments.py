"""Maximum likelihood (the M-projection) where moments or one-dimensional equations give it. Called by `forward.py`.

Every function takes points x (n, B, …) with weights w (n, B) that sum to 1 over n, and returns parameters of batch
shape (B, …). Iterations are Newton's, on all B data sets at once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import StickBreakingTransform

from kullback.fit.families import Family

Parameters = dict[str, Tensor]
_MAX_STEPS = 60
_TINY = 1e-300


def closed_form(family: Family, x: Tensor, w: Tensor) -> Parameters | None:
    """The parameters of largest weighted likelihood, or None if the family has no formula here."""
    if family.components > 1:
        return None
    rule = _RULES.get(family.name) if family.is_torch_family() else None
    if rule is None or not set(family.fixed) <= _FIXED_ALLOWED.get(family.name, frozenset()):
        return None
    return rule(family, x, w)


def is_iterated(family: Family) -> bool:
    """Whether `closed_form` solves an equation; backpropagation through its steps would be wrong or wasteful."""
    return family.name in ("Beta", "Chi2", "Dirichlet", "Gamma", "Gumbel", "InverseGamma", "VonMises", "Weibull")


def mean_of(x: Tensor, w: Tensor) -> Tensor:
    """The weighted mean over the first dimension."""
    return (w.reshape(*w.shape, *([1] * (x.dim() - w.dim()))) * x).sum(0)


def variance_of(x: Tensor, w: Tensor) -> Tensor:
    """The weighted variance (divided by n, as maximum likelihood has it)."""
    return mean_of((x - mean_of(x, w)).square(), w)


def covariance_of(x: Tensor, w: Tensor) -> Tensor:
    """The weighted covariance (B, d, d) of x (n, B, d)."""
    centred = (x - mean_of(x, w)) * w[..., None].sqrt()
    return torch.einsum("nbi,nbj->bij", centred, centred)


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


def weighted_median(x: Tensor, w: Tensor) -> Tensor:
    """The middle of the interval of medians of every column."""
    ordered, order = x.sort(dim=0)
    mass = w.expand_as(x).gather(0, order).cumsum(0)
    total = mass[-1]
    lower = (mass < 0.5 * total * (1 - 1e-12)).sum(0, keepdim=True).clamp(max=len(x) - 1)
    upper = (mass <= 0.5 * total * (1 + 1e-12)).sum(0, keepdim=True).clamp(max=len(x) - 1)
    return ((ordered.gather(0, lower) + ordered.gather(0, upper)) / 2)[0]


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
    # log(mean) − mean(log) from x/mean − 1, whose own mean is 0: nothing cancels for narrow data.
    relative = (x - mean) / mean
    logs = torch.where(relative > -0.5, torch.log1p(relative.clamp(min=-0.5)), x.log() - mean.log())
    gap = mean_of(relative - logs, w).clamp(min=_TINY)
    concentration = _gamma_concentration(gap)
    return {"concentration": concentration, "rate": concentration / mean}


def _gamma_concentration(gap: Tensor) -> Tensor:
    """K with log k − ψ(k) = gap, by Newton steps in 1/k (Minka 2002)."""
    k = (3 - gap + ((gap - 3).square() + 24 * gap).sqrt()) / (12 * gap)
    for _ in range(_MAX_STEPS):
        # log k − ψ(k) cancels for large k: then 1/(2k) + 1/(12k²) − 1/(120k⁴).
        far = k > 1e3
        near_value = k.log() - torch.digamma(k)
        value = torch.where(far, 0.5 / k + 1 / (12 * k.square()), near_value) - gap
        slope = torch.where(far, -0.5 - 1 / (6 * k), k - k.square() * torch.polygamma(1, k))  # k² d(value)/dk
        inverse = 1 / k + value / slope
        new = torch.where(inverse > 0, 1 / inverse.clamp(min=_TINY), 2 * k)
        done = bool(((new - k).abs() <= 1e-14 * k).all())
        k = new
        if done:
            break
    return k


def _inverse_gamma(family: Family, x: Tensor, w: Tensor) -> Parameters:
    return _gamma(family, 1 / x, w)


def _chi2(_: Family, x: Tensor, w: Tensor) -> Parameters:
    target = mean_of(x.log(), w) - torch.log(x.new_tensor(2.0))
    return {"df": 2 * inverse_digamma(target)}


def inverse_digamma(y: Tensor) -> Tensor:
    """K with ψ(k) = y."""
    k = torch.where(y >= -2.22, y.exp() + 0.5, -1 / (y + 0.5772156649015329))
    for _ in range(_MAX_STEPS):
        new = (k - (torch.digamma(k) - y) / torch.polygamma(1, k)).clamp(min=_TINY)
        done = bool(((new - k).abs() <= 1e-14 * k).all())
        k = new
        if done:
            break
    return k


def _dirichlet_equations(mean_logs: Tensor, start: Tensor) -> Tensor:
    """α (B, K) with ψ(α_k) − ψ(Σα) = mean log x_k: Newton with the diagonal-plus-rank-one Hessian (Minka 2000)."""
    alpha = start
    for _ in range(_MAX_STEPS):
        total = alpha.sum(-1, keepdim=True)
        gradient = torch.digamma(total) - torch.digamma(alpha) + mean_logs
        diagonal, common = -torch.polygamma(1, alpha), torch.polygamma(1, total)
        shift = (gradient / diagonal).sum(-1, keepdim=True) / (1 / common + (1 / diagonal).sum(-1, keepdim=True))
        new = alpha - (gradient - shift) / diagonal
        new = torch.where(new > alpha / 4, new, alpha / 4)
        done = bool(((new - alpha).abs() <= 1e-13 * alpha).all())
        alpha = new
        if done:
            break
    return alpha


def _dirichlet(_: Family, x: Tensor, w: Tensor) -> Parameters:
    mean, second = mean_of(x, w), mean_of(x.square(), w)
    total = ((mean - second) / (second - mean.square()).clamp(min=_TINY)).clamp(1e-3, 1e8)
    start = (mean * total.median(-1, keepdim=True).values).clamp(min=1e-3)
    return {"concentration": _dirichlet_equations(mean_of(x.log(), w), start)}


def _beta(_: Family, x: Tensor, w: Tensor) -> Parameters:
    mean, variance = mean_of(x, w), variance_of(x, w)
    total = (mean * (1 - mean) / variance.clamp(min=_TINY) - 1).clamp(1e-3, 1e8)
    logs = torch.stack([mean_of(x.log(), w), mean_of(torch.log1p(-x), w)], dim=-1)
    start = torch.stack([mean * total, (1 - mean) * total], dim=-1).clamp(min=1e-3)
    both = _dirichlet_equations(logs, start)
    return {"concentration1": both[..., 0], "concentration0": both[..., 1]}


def _weibull(_: Family, x: Tensor, w: Tensor) -> Parameters:
    shape, log_scale = _weibull_of_logs(x.log(), w)
    return {"scale": log_scale.exp(), "concentration": shape}


def _gumbel(_: Family, x: Tensor, w: Tensor) -> Parameters:
    shape, log_scale = _weibull_of_logs(-x, w)  # exp(−x) has a Weibull distribution
    return {"loc": -log_scale, "scale": 1 / shape}


def _weibull_of_logs(logs: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Shape k and log scale for y = log x: Newton on 1/k + mean(y) − Σ w e^{ky} y / Σ w e^{ky} = 0.

    The left side decreases in k.
    """
    mean = mean_of(logs, w)
    y = logs - mean
    k = 1.2825498 / variance_of(y, w).sqrt().clamp(min=_TINY)  # π/√6
    log_w = w.log()
    for _ in range(_MAX_STEPS):
        tilted = (log_w + k * y).softmax(0)
        first, second = mean_of(y, tilted), mean_of(y.square(), tilted)
        value = 1 / k - first
        slope = -1 / k.square() - (second - first.square())
        new = k - value / slope
        new = torch.where(new > 0, new, k / 2)
        done = bool(((new - k).abs() <= 1e-14 * k).all())
        k = new
        if done:
            break
    return k, mean + (log_w + k * y).logsumexp(0) / k


def _von_mises(_family: Family, x: Tensor, w: Tensor) -> Parameters:
    sine, cosine = mean_of(x.sin(), w), mean_of(x.cos(), w)
    length = (sine.square() + cosine.square()).sqrt().clamp(max=1 - 1e-15)
    kappa = length * (2 - length.square()) / (1 - length.square())
    for _ in range(_MAX_STEPS):
        ratio = torch.special.i1e(kappa) / torch.special.i0e(kappa)
        slope = 1 - ratio.square() - torch.where(kappa > 1e-8, ratio / kappa.clamp(min=1e-8), 0.5)
        new = kappa - (ratio - length) / slope
        new = torch.where(new > 0, new, kappa / 2)
        done = bool(((new - kappa).abs() <= 1e-13 * kappa).all())
        kappa = new
        if done:
            break
    return {"loc": torch.atan2(sine, cosine), "concentration": kappa}


_RULES: dict[str, Callable[[Family, Tensor, Tensor], Parameters]] = {
    "Bernoulli": _probability,
    "Beta": _beta,
    "Binomial": _binomial,
    "Categorical": _categorical,
    "Chi2": _chi2,
    "DiagonalNormal": _normal,
    "Dirichlet": _dirichlet,
    "Exponential": _exponential,
    "Gamma": _gamma,
    "Geometric": _geometric,
    "Gumbel": _gumbel,
    "HalfNormal": _half_normal,
    "InverseGamma": _inverse_gamma,
    "Laplace": _laplace,
    "LogNormal": _log_normal,
    "LogisticNormal": _logistic_normal,
    "Multinomial": _multinomial,
    "MultivariateNormal": _multivariate_normal,
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
    "Pareto": frozenset({"scale"}),
    "Uniform": frozenset({"low", "high"}),
}
