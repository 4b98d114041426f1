"""log p − log q at the nodes of an integral, also where p and q are two members of a family that nearly agree.

There the difference of the logarithms keeps few digits, and its value is replaced by one that is made of differences of
parameters (`close_families`). Of two mixtures it is, with ρᵢ the probability under q that a point is of component i,

    log p − log q = log(1 + Σ ρᵢ·(e^(log wᵢ/vᵢ + rᵢ) − 1)),

rᵢ being the log-ratio of the components and wᵢ, vᵢ their weights; components that are alike stand together, and where
one differs so much that the sum cancels, nothing is said. The derivatives are those of the difference of the
logarithms, which need no such care.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily

from kullback._core.shapes import joint_shape
from kullback.pairs.densities.close_families import formula_for
from kullback.pairs.densities.describe import describe
from kullback.pairs.densities.matching import order_of
from kullback.pairs.densities.mixture import outside_of
from kullback.pairs.densities.nesting import as_mixture, flat
from kullback.pairs.densities.placing import NOWHERE, Sample
from kullback.pairs.densities.point import Distance, Offset, Point
from kullback.pairs.densities.reading import Given, Lift, component_lift
from kullback.pairs.parameters import gives_logits, read
from kullback.pairs.ratios import log_ratio

PointRatio = Callable[[Point], Tensor]

# Beyond this log-ratio the difference of the logarithms is as good.
_CLOSE = 0.1
# Of an exponent, and of the logarithm of a term that is next to nothing.
_MOST, _NOTHING = 50.0, -45.0


def plain(sample: Sample) -> Tensor:
    """The difference of the logarithms; astronomic, not infinite, where q has no density, 0 where p has no weight."""
    here = sample.log_weight > NOWHERE
    return torch.where(here, sample.log_p, 0.0) - torch.where(here, sample.log_q.total(), 0.0)


def ratio_of(sample: Sample) -> Tensor:
    """The log-ratio with the digits that the sample knows."""
    difference = plain(sample)
    if sample.log_ratio is None:
        return difference
    here = (sample.log_weight > NOWHERE) & (difference.detach().abs() < _CLOSE) & sample.log_ratio.isfinite()
    return difference + torch.where(here, sample.log_ratio - difference.detach(), 0.0)


def closable(p: Distribution, q: Distribution) -> bool:
    """Whether `close_ratio` serves the pair."""
    mixtures = as_mixture(p), as_mixture(q)
    if mixtures[0] is None or mixtures[1] is None:
        return mixtures[0] is mixtures[1] and formula_for(p, q) is not None
    own, other = (_only_level(mixture) for mixture in mixtures)
    return own is not None and other is not None and own[1] == other[1] and formula_for(own[0], other[0]) is not None


def _only_level(mixture: MixtureSameFamily | None) -> tuple[Distribution, int] | None:
    """What a mixture that is not one of mixtures is made of, and how many of them."""
    if mixture is None or as_mixture(mixture.component_distribution) is not None:
        return None
    return mixture.component_distribution, mixture.mixture_distribution.param_shape[-1]


def close_ratio(p: Distribution, q: Distribution, lift: Lift) -> PointRatio:
    """The log-ratio of close members of one family, or of mixtures of such; without derivatives."""
    mixture_p, mixture_q = as_mixture(p), as_mixture(q)
    order = None if mixture_p is None or mixture_q is None else order_of(mixture_p, mixture_q)

    def log_ratio_at(point: Point) -> Tensor:
        with torch.no_grad():
            point = _still(point)
            if mixture_p is not None and mixture_q is not None:
                return _of_mixtures(mixture_p, mixture_q, order, point, component_lift(lift))
            formula = formula_for(p, q)
            assert formula is not None
            return formula(point, Given(p, lift), Given(q, lift)).detach()

    return log_ratio_at


def _of_mixtures(p: MixtureSameFamily, q: MixtureSameFamily, order: Tensor | None, point: Point, lift: Lift) -> Tensor:
    def ordered(tensor: Tensor) -> Tensor:
        return lift(_in_order(tensor, order))

    spread = point.spread()
    own, other = p.component_distribution, q.component_distribution
    formula = formula_for(own, other)
    assert formula is not None
    ratio = formula(spread, Given(own, lift), Given(other, ordered)) + lift(_change_of_weights(p, q, order))
    law_p, law_q = describe(own, lift), describe(other, ordered)
    log_density = law_q.log_density(spread).total()
    ends = outside_of(law_p, spread), outside_of(law_q, spread)
    if ends[0] is not None and ends[1] is not None:  # one law with other parameters: both have ends that move, or none
        log_density = torch.where(ends[1], -math.inf, log_density)
        ratio = torch.where(ends[0], torch.where(ends[1], 0.0, -math.inf), torch.where(ends[1], math.inf, ratio))
    log_member = torch.log_softmax(ordered(flat(q).log_share) + log_density, -2)
    terms = torch.exp(log_member) * torch.expm1(ratio.clamp_max(_MOST))
    # Between components that differ the terms cancel, or are cut off.
    apart = (terms.abs().sum(-2) > 1) | ((ratio > _MOST) & ~(log_member + ratio < _NOTHING)).any(-2)
    return torch.where(apart, math.nan, torch.log1p(terms.sum(-2))).detach()


def _in_order(tensor: Tensor, order: Tensor | None) -> Tensor:
    """Components in another order; there is one for each element of the batch."""
    if order is None:
        return tensor
    batch = joint_shape(tensor.shape, order.shape)
    return tensor.expand(batch).gather(-1, order.expand(batch))


def _change_of_weights(p: MixtureSameFamily, q: MixtureSameFamily, order: Tensor | None) -> Tensor:
    """The logarithms of wᵢ/vᵢ, both normalised."""
    first, second = p.mixture_distribution, q.mixture_distribution
    if gives_logits(first) and gives_logits(second):
        (own,), other = read(first, "logits"), _in_order(read(second, "logits")[0], order)
        change = own - other
        share = torch.softmax(other, -1)
    else:
        (own,), other = read(first, "probs"), _in_order(read(second, "probs")[0], order)
        change = log_ratio(own, other)
        share = other / other.sum(-1, keepdim=True)
    # The sum of v·e^change, which normalises w, less 1.
    grown = (share * torch.expm1(change.clamp_max(_MOST))).sum(-1, keepdim=True)
    change = change - torch.log1p(grown)
    return change.expand(*joint_shape(p.batch_shape, q.batch_shape), -1)


def _still(point: Point) -> Point:
    """The same nodes without derivatives."""
    return Point(*(_detached(part) for part in point[:4]))


def _detached(part: Offset | Distance | Tensor | None) -> Any:
    if part is None or isinstance(part, Tensor):
        return None if part is None else part.detach()
    return type(part)(*(_detached(inner) for inner in part))
