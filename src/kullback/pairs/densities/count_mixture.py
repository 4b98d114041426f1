"""From a torch object to its law of counts; mixtures of these."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution, MixtureSameFamily

from kullback.pairs.densities import counts
from kullback.pairs.densities.counts import CountLaw
from kullback.pairs.densities.joined import log_sum
from kullback.pairs.densities.nesting import flat
from kullback.pairs.densities.reading import Given, Lift, component_lift

_FAMILIES: dict[type[Distribution], Callable[[Given], CountLaw]] = {
    d.Bernoulli: counts.describe_bernoulli,
    d.Binomial: counts.describe_binomial,
    d.Categorical: counts.describe_categorical,
    d.Geometric: counts.describe_geometric,
    d.NegativeBinomial: counts.describe_negative_binomial,
    d.Poisson: counts.describe_poisson,
}


def countable(distribution: Distribution) -> bool:
    """Whether `describe_counts` knows the law."""
    if isinstance(distribution, MixtureSameFamily):
        return countable(distribution.component_distribution)
    return _family(distribution) is not None


def describe_counts(distribution: Distribution, lift: Lift) -> CountLaw:
    """The law of a distribution on the whole numbers from 0."""
    if isinstance(distribution, MixtureSameFamily):
        return _describe_mixture(distribution, lift)
    family = _family(distribution)
    assert family is not None
    return family(Given(distribution, lift))


def _family(distribution: Distribution) -> Callable[[Given], CountLaw] | None:
    return next((_FAMILIES[t] for t in type(distribution).__mro__ if t in _FAMILIES), None)


def _describe_mixture(mixture: MixtureSameFamily, lift: Lift) -> CountLaw:
    """Log Σ wᵢ fᵢ, components before the nodes."""
    inner = component_lift(lift)
    shares, component, merge = flat(mixture)
    part = describe_counts(component, lambda tensor: inner(merge(tensor)))
    log_share = inner(shares)

    def log_pmf(k: Tensor, lost: Tensor | None = None) -> Tensor:
        terms = log_share + part.log_pmf(k.unsqueeze(-2), None if lost is None else lost.unsqueeze(-2))
        # Where no component has a probability the sum is replaced, since the slope of log 0 is not a number.
        none = (terms == -math.inf).all(-2)
        return torch.where(none, -math.inf, torch.logsumexp(torch.where(none.unsqueeze(-2), 0.0, terms), -2))

    upper = torch.where(log_share == -math.inf, 0.0, part.upper).amax(-2)
    marks = [pair for mean, deviation in part.marks for pair in zip(mean.unbind(-2), deviation.unbind(-2), strict=True)]
    return CountLaw(log_pmf, upper, marks, part.size)


def joined_counts(parts: Sequence[CountLaw], log_shares: Sequence[Tensor]) -> CountLaw:
    """The law of a mixture whose components are given one by one, by operations on numbers only; see `joined`."""

    def log_pmf(k: Tensor, lost: Tensor | None = None) -> Tensor:
        return log_sum([share + part.log_pmf(k, lost) for share, part in zip(log_shares, parts, strict=True)])

    ends = [torch.where(share == -math.inf, 0.0, part.upper) for share, part in zip(log_shares, parts, strict=True)]
    return CountLaw(log_pmf, functools.reduce(torch.maximum, ends), [mark for part in parts for mark in part.marks])
