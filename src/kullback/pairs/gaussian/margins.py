"""A Gaussian over vectors against independent distributions, and back: the divergence splits exactly.

    KL(N(μ, Σ) ‖ ∏ qᵢ) = KL(N(μ, Σ) ‖ N(μ, diag Σ)) + Σ KL(N(μᵢ, Σᵢᵢ) ‖ qᵢ)
    KL(∏ pᵢ ‖ N(μ, Σ)) = KL(N(m, diag v) ‖ N(μ, Σ)) + Σ KL(pᵢ ‖ N(mᵢ, vᵢ)),     m and v the moments of the pᵢ

In the first, log ∏ qᵢ is a sum of functions of one coordinate each, for which only the margins of p matter; in the
second, log N(μ, Σ) is quadratic and asks for nothing but m and v. No term is negative, and each pair of one dimension
has a route of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution, LowRankMultivariateNormal, MultivariateNormal, Normal

from kullback.pairs.gaussian.relative_factor import given
from kullback.pairs.moments import EULER
from kullback.pairs.parameters import read, working
from kullback.pairs.registry import Reduced
from kullback.pairs.structure import unwrapped

Moments = tuple[Tensor, Tensor]


def split_after_gaussian(p: MultivariateNormal | LowRankMultivariateNormal, q: Distribution) -> Reduced | None:
    """KL(Gaussian ‖ independent distributions); None where q is not one distribution per dimension."""
    inner = _one_per_dimension(q)
    if inner is None:
        return None
    margins = Normal(working(p.loc), _variance(p).sqrt(), validate_args=False)
    return Reduced(margins, inner, 1, plus=Reduced(p, _joint(margins)))


def split_before_gaussian(p: Distribution, q: MultivariateNormal | LowRankMultivariateNormal) -> Reduced | None:
    """KL(independent distributions ‖ Gaussian); None where the moments of p are not known here."""
    inner = _one_per_dimension(p)
    found = None if inner is None else _moments(inner)
    if inner is None or found is None:
        return None
    mean, variance = found
    # A distribution without a variance is infinitely far from any normal; from the standard one it is so without NaN.
    finite = mean.isfinite() & variance.isfinite()
    margins = Normal(torch.where(finite, mean, 0.0), torch.where(finite, variance, 1.0).sqrt(), validate_args=False)
    return Reduced(inner, margins, 1, plus=Reduced(_joint(margins), q))


def _one_per_dimension(p: Distribution) -> Distribution | None:
    inner, dims = unwrapped(p)
    return inner if dims == 1 and not inner.event_shape else None


def _joint(margins: Normal) -> MultivariateNormal:
    return MultivariateNormal(margins.loc, scale_tril=torch.diag_embed(margins.scale), validate_args=False)


def _variance(p: MultivariateNormal | LowRankMultivariateNormal) -> Tensor:
    """The diagonal of Σ, of the matrix that was given where that is Σ itself."""
    if isinstance(p, LowRankMultivariateNormal):
        return working(p._unbroadcasted_cov_diag) + working(p._unbroadcasted_cov_factor).square().sum(-1)
    if given(p) == "covariance_matrix":
        return working(p.covariance_matrix).diagonal(dim1=-2, dim2=-1)
    return working(p._unbroadcasted_scale_tril).square().sum(-1)


def _moments(p: Distribution) -> Moments | None:
    """Mean and variance in working precision; None for a distribution that is not in the table."""
    if isinstance(p, d.MixtureSameFamily):
        found = _moments(p.component_distribution)
        if found is None:
            return None
        share = working(p.mixture_distribution.probs)
        mean = (share * found[0]).sum(-1)
        return mean, (share * (found[1] + (found[0] - mean.unsqueeze(-1)).square())).sum(-1)
    formula = _MOMENTS.get(type(p))
    return None if formula is None else formula(p)


def _by(moments: Callable[..., Moments], *names: str) -> Callable[[Distribution], Moments]:
    """Mean and variance as a function of the named parameters."""
    return lambda p: moments(*read(p, *names))


def _by_location(shift: float, spread: float) -> Callable[[Distribution], Moments]:
    """Mean loc + shift·scale, variance spread·scale²."""
    return _by(lambda loc, scale: (loc + shift * scale, spread * scale * scale), "loc", "scale")


def _of_beta(a: Tensor, b: Tensor) -> Moments:
    n = a + b
    return a / n, (a / n) * (b / n) / (n + 1)


def _of_log_normal(loc: Tensor, scale: Tensor) -> Moments:
    mean = torch.exp(loc + scale * scale / 2)
    return mean, mean * mean * torch.expm1(scale * scale)


def _of_pareto(scale: Tensor, alpha: Tensor) -> Moments:
    heavy = alpha <= 2
    light = torch.where(heavy, 3.0, alpha)
    mean = scale * (light / (light - 1))
    return mean, torch.where(heavy, torch.inf, mean * mean / (light * (light - 2)))


def _of_student_t(df: Tensor, loc: Tensor, scale: Tensor) -> Moments:
    heavy = df <= 2
    return loc, torch.where(heavy, torch.inf, scale * scale * (df / torch.where(heavy, 1.0, df - 2)))


_of_gamma = _by(lambda a, rate: (a / rate, a / rate / rate), "concentration", "rate")
_MOMENTS: dict[type[Distribution], Callable[[Distribution], Moments]] = {
    d.Beta: _by(_of_beta, "concentration1", "concentration0"),
    d.Chi2: _of_gamma,
    d.Exponential: _by(lambda rate: (1 / rate, 1 / rate / rate), "rate"),
    d.Gamma: _of_gamma,
    d.Gumbel: _by_location(EULER, math.pi**2 / 6),
    d.HalfNormal: _by(lambda scale: (math.sqrt(2 / math.pi) * scale, (1 - 2 / math.pi) * scale * scale), "scale"),
    d.Laplace: _by_location(0.0, 2.0),
    d.LogNormal: _by(_of_log_normal, "loc", "scale"),
    d.Normal: _by_location(0.0, 1.0),
    d.Pareto: _by(_of_pareto, "scale", "alpha"),
    d.StudentT: _by(_of_student_t, "df", "loc", "scale"),
    d.Uniform: _by(lambda low, high: ((low + high) / 2, (high - low).square() / 12), "low", "high"),
}
