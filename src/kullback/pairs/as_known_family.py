"""Transformed distributions that are a known family: exp of a Normal is a LogNormal; `registry` and `divergences` ask.

Of `TransformedDistribution` only an integral knows the divergence; a known family has closed forms. `registry` asks for
the rule, `divergences` and `entropy` for the family. Parameters are computed in working precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution, Independent, MultivariateNormal, TransformedDistribution
from torch.distributions.transforms import AffineTransform, ExpTransform, IndependentTransform, Transform

from kullback.densities.canonical_transforms import flat_transforms
from kullback.densities.parameters import number, read
from kullback.kernels.levels import known_true
from kullback.pairs.gaussian.relative_factor import lower_factor
from kullback.pairs.registry import Reduced, Rule


def as_known_family(distribution: Distribution) -> Distribution:
    """The distribution by its name, or itself if it has none but that of its transforms."""
    if type(distribution) is not TransformedDistribution:
        return distribution
    transforms = flat_transforms(distribution.transforms)
    if isinstance(distribution.base_dist, Independent):
        return _of_independent(distribution.base_dist, transforms) or distribution
    found: Distribution | None = as_known_family(distribution.base_dist)
    for transform in transforms:
        found = None if found is None else _image(found, transform)
    return distribution if found is None else found


def _of_independent(distribution: Independent[Distribution], transforms: list[Transform]) -> Distribution | None:
    """Independent coordinates, each mapped by itself, are independent mapped ones."""
    each = [_of_coordinates(transform) for transform in transforms]
    if distribution.base_dist.event_shape or not all(each):
        return None
    mapped = TransformedDistribution(distribution.base_dist, [t for t in each if t is not None], validate_args=False)
    return Independent(as_known_family(mapped), distribution.reinterpreted_batch_ndims, validate_args=False)


def _of_coordinates(transform: Transform) -> Transform | None:
    """The map of one coordinate where a map of vectors is made of such, None where it is not."""
    if isinstance(transform, IndependentTransform):
        return _of_coordinates(transform.base_transform)
    if isinstance(transform, AffineTransform) and transform.event_dim:
        return AffineTransform(transform.loc, transform.scale)
    return None if transform.domain.event_dim or transform.codomain.event_dim else transform


def _image(distribution: Distribution, transform: Transform) -> Distribution | None:
    """The image of a distribution, None if it has no name here."""
    if transform == ExpTransform():
        exponential = _EXPONENTIALS.get(type(distribution))
        return None if exponential is None else exponential(distribution)
    if transform == ExpTransform().inv:
        return _with(d.Normal, distribution, "loc", "scale") if type(distribution) is d.LogNormal else None
    if not isinstance(transform, AffineTransform) or transform.event_dim > len(distribution.event_shape):
        return None
    shift, factor = (number(part) for part in (transform.loc, transform.scale))
    moved, stretched = _MOVED.get(type(distribution)), _STRETCHED.get(type(distribution))
    if moved is not None:
        return moved(distribution, shift, factor)
    return (
        stretched(distribution, factor) if stretched is not None and known_true((shift == 0) & (factor > 0)) else None
    )


def _with(kind: Callable[..., Distribution], source: Distribution, *names: str, **changed: Tensor) -> Distribution:
    """One with the named parameters of another, and those that changed."""
    kept = dict(zip(names, read(source, *names), strict=True))
    return kind(**kept, **changed, validate_args=False)


def _with_location(distribution: Distribution, shift: Tensor, factor: Tensor) -> Distribution:
    """A symmetric distribution: turning it round changes neither location nor scale."""
    loc, scale = read(distribution, "loc", "scale")
    others = [name for name in distribution.arg_constraints if name not in {"loc", "scale"}]
    return _with(type(distribution), distribution, *others, loc=shift + factor * loc, scale=factor.abs() * scale)


def _uniform(distribution: Distribution, shift: Tensor, factor: Tensor) -> Distribution:
    low, high = (shift + factor * end for end in read(distribution, "low", "high"))
    return _with(d.Uniform, distribution, low=torch.minimum(low, high), high=torch.maximum(low, high))


def _gaussian(distribution: Distribution, shift: Tensor, factor: Tensor) -> Distribution:
    """A Gaussian over vectors; D·L of the diagonal matrix D has the signs of D on its diagonal, D·L·sign(D) has not."""
    loc = read(distribution, "loc")[0]
    factor = factor.expand(loc.shape[-1:]) if factor.dim() == 0 else factor
    turned = factor.sign().unsqueeze(-2)
    lower = factor.unsqueeze(-1) * lower_factor(cast("MultivariateNormal", distribution)) * turned
    return d.MultivariateNormal(shift + factor * loc, scale_tril=lower, validate_args=False)


def _low_rank(distribution: Distribution, shift: Tensor, factor: Tensor) -> Distribution:
    loc, columns, diagonal = read(distribution, "loc", "_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag")
    factor = factor.expand(loc.shape[-1:]) if factor.dim() == 0 else factor
    return d.LowRankMultivariateNormal(
        shift + factor * loc, factor.unsqueeze(-1) * columns, factor.square() * diagonal, validate_args=False
    )


def _by_rate(distribution: Distribution, factor: Tensor) -> Distribution:
    """A Gamma distribution; a Chi2 loses its name."""
    return _with(d.Gamma, distribution, "concentration", rate=read(distribution, "rate")[0] / factor)


def _by_scale(distribution: Distribution, factor: Tensor) -> Distribution:
    """A distribution whose scale grows with it."""
    others = [name for name in distribution.arg_constraints if name != "scale"]
    return _with(type(distribution), distribution, *others, scale=factor * read(distribution, "scale")[0])


_MOVED: dict[type[Distribution], Callable[[Distribution, Tensor, Tensor], Distribution]] = {
    **dict.fromkeys((d.Cauchy, d.Laplace, d.Normal, d.StudentT), _with_location),
    d.LowRankMultivariateNormal: _low_rank,
    d.MultivariateNormal: _gaussian,
    d.Uniform: _uniform,
}
_STRETCHED: dict[type[Distribution], Callable[[Distribution, Tensor], Distribution]] = {
    **dict.fromkeys((d.HalfCauchy, d.HalfNormal, d.Pareto, d.Weibull), _by_scale),
    **dict.fromkeys((d.Chi2, d.Gamma), _by_rate),
    d.Exponential: lambda p, factor: _with(d.Exponential, p, rate=read(p, "rate")[0] / factor),
    d.InverseGamma: lambda p, factor: _with(d.InverseGamma, p, "concentration", rate=factor * read(p, "rate")[0]),
}
_EXPONENTIALS: dict[type[Distribution], Callable[[Distribution], Distribution]] = {
    d.Exponential: lambda p: _with(d.Pareto, p, scale=torch.ones_like(p.mean), alpha=read(p, "rate")[0]),
    d.Normal: lambda p: _with(d.LogNormal, p, "loc", "scale"),
}


def kl_as_known_families(p: Distribution, q: Distribution) -> Reduced:
    """The divergence of the same distributions by their names."""
    return Reduced(as_known_family(p), as_known_family(q))


def rule_for(p: Distribution, q: Distribution) -> Rule | None:
    """The rule of a pair in which a mapped distribution has a name."""
    inner = kl_as_known_families(p, q)
    if inner.p is p and inner.q is q:
        return None
    return Rule(
        type(p),
        type(q),
        kl_as_known_families,
        "structure",
        "KL of the distributions that the transforms amount to",
    )
