"""Entropy and cross-entropy of distributions: by a formula per family, else by the engine; `api` calls them.

Entropies of densities are differential ones. Formulas compute in working precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution, Independent

from kullback._core.errors import NoRouteError, explain_problem
from kullback.densities.parameters import gives_logits, log_outcomes, read, working
from kullback.densities.reading import read as read_density
from kullback.divergences import entropy as by_engine
from kullback.divergences.expectations import check_normalised
from kullback.kernels.entropy_rows import entropy_rows
from kullback.kernels.sides import Encoding
from kullback.pairs.as_known_family import as_known_family
from kullback.pairs.checks import check_pair
from kullback.pairs.closed.gamma import negentropy
from kullback.pairs.closed.gumbel import EULER
from kullback.pairs.dirichlet import dirichlet_kl
from kullback.pairs.dispatch import answer as kl_answer
from kullback.pairs.divergences import read_pair
from kullback.pairs.gaussian.relative_factor import lower_factor
from kullback.pairs.nan_guard import nan_where_parameters_are_nan
from kullback.pairs.parameters import in_working_precision, result_dtype
from kullback.special import digamma

_NORMAL = math.log(2 * math.pi * math.e) / 2

Entropy = Callable[[Any], Tensor]


def entropy(p: Distribution) -> Tensor:
    """−E_p log p, of densities or of probabilities."""
    return nan_where_parameters_are_nan(_entropy(p, "entropy"), p).to(result_dtype(p, p)).expand(p.batch_shape)


def cross_entropy(p: Distribution, q: Distribution) -> Tensor:
    """−E_p log q = H(p) + KL(p ‖ q), or one integral where neither is known by formula."""
    shape = check_pair(p, q)
    readings = read_pair(p, q) if _formula_of(as_known_family(p)) is None else None
    if readings is not None and readings[0].lattice == readings[1].lattice:
        value = by_engine.cross_entropy(*readings)[0].reshape(shape)
    else:
        own, divergence = _entropy(p, "cross_entropy"), kl_answer(p, q)[0]
        # An infinite element has no gradient, and the entropy of p would bring one.
        value = torch.where(divergence.isinf(), 0.0, own) + divergence
    return nan_where_parameters_are_nan(value, p, q).to(result_dtype(p, q)).expand(shape)


def _entropy(p: Distribution, name: str) -> Tensor:
    """In working precision."""
    p = as_known_family(p)
    if isinstance(p, Independent):
        dims = p.reinterpreted_batch_ndims
        inner = _entropy(p.base_dist, name).expand(p.base_dist.batch_shape)
        return inner.sum(tuple(range(-dims, 0))) if dims else inner
    formula = _formula_of(p)
    if formula is not None:
        return formula(p)
    reading = read_density(p, p.batch_shape)
    if reading is not None:
        check_normalised(reading)
        return by_engine.entropy(reading)[0].reshape(p.batch_shape)
    raise NoRouteError(
        explain_problem(
            f"{name}() has no closed form, integral or series for this distribution.",
            got=type(p).__name__,
            expected="a univariate distribution, a mixture of such, a Gaussian, a Dirichlet, independent ones",
            instead="an average of −log q(x) over samples of p: -q.log_prob(p.sample((n,))).mean(0)"
            if name == "cross_entropy"
            else "an average of −log p(x) over samples: -p.log_prob(p.sample((n,))).mean(0)",
        )
    )


def _formula_of(p: Distribution) -> Entropy | None:
    """The formula of p's family, if there is one."""
    return next((_FAMILIES[t] for t in type(p).__mro__ if t in _FAMILIES), None)


def _by(formula: Callable[..., Tensor], *names: str) -> Entropy:
    """The formula of the named parameters."""
    return lambda p: formula(*read(p, *names))


def _of_scale(constant: float) -> Entropy:
    """A family whose members are one distribution up to location and scale."""
    return _by(lambda scale: constant + torch.log(scale), "scale")


def _standard_gamma(shape: Tensor) -> Tensor:
    return _NORMAL + torch.log(shape) / 2 - negentropy(shape)


def _dirichlet(p: d.Dirichlet) -> Tensor:
    """That of the flat distribution, on a simplex of volume 1/Γ(K), less the divergence from it."""
    concentration = working(p.concentration)
    return -dirichlet_kl(concentration, torch.ones_like(concentration)) - math.lgamma(concentration.shape[-1])


def _gaussian(p: d.MultivariateNormal | d.LowRankMultivariateNormal) -> Tensor:
    lower = lower_factor(p)
    return _NORMAL * lower.shape[-1] + torch.log(lower.diagonal(dim1=-2, dim2=-1)).sum(-1)


def _multinomial(p: d.Multinomial) -> Tensor:
    """−log n! + n·H + Σ E log xᵢ!, H the entropy of one trial and xᵢ a binomial count."""
    n, share = p.total_count, torch.softmax(working(p.logits), -1) if gives_logits(p) else working(p.probs)
    k = torch.arange(n + 1, dtype=share.dtype, device=share.device)
    inside = ((share > 0) & (share < 1)).unsqueeze(-1)
    chances = torch.where(inside, share.unsqueeze(-1), 0.5)
    log_factorial = torch.lgamma(k + 1)
    choices = log_factorial[-1] - log_factorial - log_factorial.flip(0)
    mass = torch.exp(choices + k * torch.log(chances) + (n - k) * torch.log1p(-chances))
    expected = torch.where(inside, mass * log_factorial, 0.0).sum(-1)
    expected = torch.where(share == 1, log_factorial[-1], expected)
    return n * _categorical(p._categorical) + expected.sum(-1) - log_factorial[-1]


def _categorical(p: d.Categorical) -> Tensor:
    logits = gives_logits(p)
    return entropy_rows((p.logits if logits else p.probs,), (Encoding(linear=not logits),))


def _bernoulli(p: d.Bernoulli | d.Geometric) -> Tensor:
    """−p₁·log p₁ − p₀·log p₀; 0, without gradient, where the outcome is certain."""
    terms = [torch.where(log.isinf(), 0.0, torch.exp(log) * log) for log in log_outcomes(p)]
    return -terms[0] - terms[1]


def _geometric(p: d.Geometric) -> Tensor:
    """1/p trials are expected, each with the entropy of one."""
    return _bernoulli(p) / torch.exp(log_outcomes(p)[0])


# The entropy of 1/x is that of x less 2·E log x.
_FAMILIES: dict[type[Distribution], Entropy] = {
    d.Bernoulli: _bernoulli,
    d.Beta: lambda p: _dirichlet(p._dirichlet),
    d.Categorical: _categorical,
    d.Cauchy: _of_scale(math.log(4 * math.pi)),
    d.Dirichlet: _dirichlet,
    d.Exponential: _by(lambda rate: 1 - torch.log(rate), "rate"),
    d.Gamma: _by(lambda a, rate: _standard_gamma(a) - torch.log(rate), "concentration", "rate"),
    d.Geometric: _geometric,
    d.Gumbel: _of_scale(1 + EULER),
    d.HalfCauchy: _of_scale(math.log(2 * math.pi)),
    d.HalfNormal: _of_scale(_NORMAL - math.log(2.0)),
    d.InverseGamma: _by(lambda a, rate: _standard_gamma(a) + torch.log(rate) - 2 * digamma(a), "concentration", "rate"),
    d.Laplace: _of_scale(1 + math.log(2.0)),
    d.LogNormal: _by(lambda loc, scale: _NORMAL + loc + torch.log(scale), "loc", "scale"),
    d.LowRankMultivariateNormal: _gaussian,
    d.MultivariateNormal: _gaussian,
    d.Multinomial: _multinomial,
    d.Normal: _of_scale(_NORMAL),
    d.OneHotCategorical: lambda p: _categorical(p._categorical),
    d.Pareto: _by(lambda scale, alpha: torch.log(scale) - torch.log(alpha) + 1 + 1 / alpha, "scale", "alpha"),
    d.Uniform: _by(lambda low, high: torch.log(high - low), "low", "high"),
    d.Weibull: _by(
        lambda scale, k: EULER * (1 - 1 / k) + torch.log(scale) - torch.log(k) + 1, "scale", "concentration"
    ),
    # Torch's own formula, in working precision.
    d.Wishart: lambda p: in_working_precision(p).entropy(),
}
