"""`read(distribution, shape)`: the density of any univariate distribution that has one; `divergences` calls it."""

from __future__ import annotations

import torch
from torch.distributions import Distribution, MixtureSameFamily, TransformedDistribution

from kullback.densities import counts, families
from kullback.densities.mixed import Mixture
from kullback.densities.mixture import read_mixture
from kullback.densities.registry import Reading, read_family
from kullback.densities.transforms import read_transformed
from kullback.densities.user import read_user

__all__ = ["counts", "families", "read"]


def read(distribution: Distribution, shape: torch.Size) -> Reading | None:
    """The parameters of an object for a batch shape and how to make a density of them; None if it has none."""
    if distribution.event_shape:
        return None
    shape = torch.Size(shape)  # a class of others may hold a plain tuple
    found = read_family(distribution, shape)
    if found is None and (type(distribution) is MixtureSameFamily or isinstance(distribution, Mixture)):
        return read_mixture(distribution, shape, read)
    if found is None and isinstance(distribution, TransformedDistribution) and _has_torch_density(distribution):
        found = read_transformed(distribution, shape, read)
        return read_user(distribution, shape) if found is None and _is_bijective(distribution) else found
    if found is None and not is_torch_class(type(distribution)):
        return read_user(distribution, shape)
    return found


def is_torch_class(cls: type[Distribution]) -> bool:
    """Whether a class is one of torch's own."""
    return cls.__module__.startswith("torch.distributions.")


def _has_torch_density(distribution: TransformedDistribution) -> bool:
    return type(distribution).log_prob is TransformedDistribution.log_prob


def _is_bijective(distribution: TransformedDistribution) -> bool:
    """Whether every map is one to one between intervals, so that `log_prob` is the density of what is sampled."""
    return all(transform.bijective and not transform.domain.event_dim for transform in distribution.transforms)
