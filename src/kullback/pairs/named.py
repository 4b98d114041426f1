"""Mapped laws that have a name: 1 + 2·Normal is a Normal, exp of a Normal a LogNormal, and their formulas are closed.

`TransformedDistribution` keeps its base and its maps, which only an integral can answer; the parameters of the law they
amount to are a few operations on those given, made in working precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution, Independent, MultivariateNormal, TransformedDistribution
from torch.distributions.transforms import AffineTransform, ExpTransform, IndependentTransform, Transform

from kullback.densities.canonical_transforms import flat_transforms as flat
from kullback.pairs.gaussian.relative_factor import lower_factor
from kullback.pairs.parameters import number, read
from kullback.pairs.registry import Reduced, Rule, answer_generally
from kullback.pairs.visible import surely


def named(law: Distribution) -> Distribution:
    """The law by its name, or itself if it has none but that of its maps."""
    if type(law) is not TransformedDistribution:
        return law
    maps = flat(law.transforms)
    if isinstance(law.base_dist, Independent):
        return _of_independent(law.base_dist, maps) or law
    found: Distribution | None = named(law.base_dist)
    for transform in maps:
        found = None if found is None else _mapped(found, transform)
    return law if found is None else found


def _of_independent(law: Independent[Distribution], maps: list[Transform]) -> Distribution | None:
    """Independent coordinates, each mapped by itself, are independent mapped ones."""
    each = [_of_coordinates(transform) for transform in maps]
    if law.base_dist.event_shape or not all(each):
        return None
    mapped = TransformedDistribution(law.base_dist, [t for t in each if t is not None], validate_args=False)
    return Independent(named(mapped), law.reinterpreted_batch_ndims, validate_args=False)


def _of_coordinates(transform: Transform) -> Transform | None:
    """The map of one coordinate where a map of vectors is made of such, None where it is not."""
    if isinstance(transform, IndependentTransform):
        return _of_coordinates(transform.base_transform)
    if isinstance(transform, AffineTransform) and transform.event_dim:
        return AffineTransform(transform.loc, transform.scale)
    return None if transform.domain.event_dim or transform.codomain.event_dim else transform


def _mapped(law: Distribution, transform: Transform) -> Distribution | None:
    """The image of a law, None if it has no name here."""
    if transform == ExpTransform():
        exponential = _EXPONENTIALS.get(type(law))
        return None if exponential is None else exponential(law)
    if transform == ExpTransform().inv:
        return _law(d.Normal, law, "loc", "scale") if type(law) is d.LogNormal else None
    if not isinstance(transform, AffineTransform) or transform.event_dim > len(law.event_shape):
        return None
    shift, factor = (number(part) for part in (transform.loc, transform.scale))
    moved, stretched = _MOVED.get(type(law)), _STRETCHED.get(type(law))
    if moved is not None:
        return moved(law, shift, factor)
    return stretched(law, factor) if stretched is not None and surely((shift == 0) & (factor > 0)) else None


def _law(kind: Callable[..., Distribution], law: Distribution, *names: str, **changed: Tensor) -> Distribution:
    """One with the named parameters of another, and those that changed."""
    kept = dict(zip(names, read(law, *names), strict=True))
    return kind(**kept, **changed, validate_args=False)


def _with_location(law: Distribution, shift: Tensor, factor: Tensor) -> Distribution:
    """A symmetric law: turning it round changes neither location nor scale."""
    loc, scale = read(law, "loc", "scale")
    others = [name for name in law.arg_constraints if name not in {"loc", "scale"}]
    return _law(type(law), law, *others, loc=shift + factor * loc, scale=factor.abs() * scale)


def _uniform(law: Distribution, shift: Tensor, factor: Tensor) -> Distribution:
    low, high = (shift + factor * end for end in read(law, "low", "high"))
    return _law(d.Uniform, law, low=torch.minimum(low, high), high=torch.maximum(low, high))


def _gaussian(law: Distribution, shift: Tensor, factor: Tensor) -> Distribution:
    """A Gaussian over vectors; D·L of the diagonal matrix D has the signs of D on its diagonal, D·L·sign(D) has not."""
    loc = read(law, "loc")[0]
    factor = factor.expand(loc.shape[-1:]) if factor.dim() == 0 else factor
    turned = factor.sign().unsqueeze(-2)
    lower = factor.unsqueeze(-1) * lower_factor(cast("MultivariateNormal", law)) * turned
    return d.MultivariateNormal(shift + factor * loc, scale_tril=lower, validate_args=False)


def _low_rank(law: Distribution, shift: Tensor, factor: Tensor) -> Distribution:
    loc, columns, diagonal = read(law, "loc", "_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag")
    factor = factor.expand(loc.shape[-1:]) if factor.dim() == 0 else factor
    return d.LowRankMultivariateNormal(
        shift + factor * loc, factor.unsqueeze(-1) * columns, factor.square() * diagonal, validate_args=False
    )


def _by_rate(law: Distribution, factor: Tensor) -> Distribution:
    """A Gamma law; a Chi2 loses its name."""
    return _law(d.Gamma, law, "concentration", rate=read(law, "rate")[0] / factor)


def _by_scale(law: Distribution, factor: Tensor) -> Distribution:
    """A law whose scale grows with it."""
    others = [name for name in law.arg_constraints if name != "scale"]
    return _law(type(law), law, *others, scale=factor * read(law, "scale")[0])


_MOVED: dict[type[Distribution], Callable[[Distribution, Tensor, Tensor], Distribution]] = {
    **dict.fromkeys((d.Cauchy, d.Laplace, d.Normal, d.StudentT), _with_location),
    d.LowRankMultivariateNormal: _low_rank,
    d.MultivariateNormal: _gaussian,
    d.Uniform: _uniform,
}
_STRETCHED: dict[type[Distribution], Callable[[Distribution, Tensor], Distribution]] = {
    **dict.fromkeys((d.HalfCauchy, d.HalfNormal, d.Pareto, d.Weibull), _by_scale),
    **dict.fromkeys((d.Chi2, d.Gamma), _by_rate),
    d.Exponential: lambda law, factor: _law(d.Exponential, law, rate=read(law, "rate")[0] / factor),
    d.InverseGamma: lambda law, factor: _law(d.InverseGamma, law, "concentration", rate=factor * read(law, "rate")[0]),
}
_EXPONENTIALS: dict[type[Distribution], Callable[[Distribution], Distribution]] = {
    d.Exponential: lambda law: _law(d.Pareto, law, scale=torch.ones_like(law.mean), alpha=read(law, "rate")[0]),
    d.Normal: lambda law: _law(d.LogNormal, law, "loc", "scale"),
}


def kl_named(p: Distribution, q: Distribution) -> Reduced:
    """The divergence of the same laws by their names."""
    return Reduced(named(p), named(q))


def rule_for(p: Distribution, q: Distribution) -> Rule | None:
    """The rule of a pair in which a mapped law has a name."""
    inner = kl_named(p, q)
    if inner.p is p and inner.q is q:
        return None
    return Rule(type(p), type(q), kl_named, "structure", "KL of the laws that the maps amount to", decides_support=True)


answer_generally(rule_for, first=True)  # a name may lead to a closed form
