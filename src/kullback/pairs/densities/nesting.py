"""Mixtures of mixtures and maps of mixtures, as mixtures of what is innermost.

A mixture of mixtures has the products of the weights; a map of a mixture is the mixture of the mapped components.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily, TransformedDistribution, transforms

from kullback.pairs.densities.shares import log_shares


class Flat(NamedTuple):
    """A mixture, however deep.

    Attributes:
        log_share: Logarithms of the weights, all components in the last dimension.
        component: What is innermost; one batch dimension for each level of mixing.
        merge: Makes one dimension of those in a tensor of the component's batch shape.
    """

    log_share: Tensor
    component: Distribution
    merge: Callable[[Tensor], Tensor]


def as_mixture(distribution: Distribution) -> MixtureSameFamily | None:
    """The distribution as a mixture, if it is one, or a map of one."""
    if isinstance(distribution, MixtureSameFamily):
        return distribution
    if not isinstance(distribution, TransformedDistribution) or distribution.event_shape:
        return None
    base = as_mixture(distribution.base_dist)
    maps = None if base is None else [_beside_components(t) for t in distribution.transforms]
    if base is None or maps is None or any(t is None for t in maps):
        return None
    inner = TransformedDistribution(base.component_distribution, maps, validate_args=False)  # type: ignore[arg-type]
    return MixtureSameFamily(base.mixture_distribution, inner, validate_args=False)


def flat(mixture: MixtureSameFamily) -> Flat:
    """All levels as one."""
    log_share, component, depth = log_shares(mixture), mixture.component_distribution, 0
    inner = as_mixture(component)
    while inner is not None:
        log_share = log_share.unsqueeze(-1) + log_shares(inner)
        component, depth = inner.component_distribution, depth + 1
        inner = as_mixture(component)
    merge = functools.partial(_merge, depth=depth)
    return Flat(merge(log_share), component, merge)


def _merge(tensor: Tensor, *, depth: int) -> Tensor:
    return tensor.flatten(-1 - depth) if depth else tensor


def _beside_components(transform: transforms.Transform) -> transforms.Transform | None:
    """The map with a dimension for components behind its own; None for a map that holds tensors of unknown meaning."""
    if isinstance(transform, transforms.ComposeTransform):
        parts = [_beside_components(part) for part in transform.parts]
        return None if any(part is None for part in parts) else transforms.ComposeTransform(parts)  # type: ignore[arg-type]
    if isinstance(transform, transforms._InverseTransform):
        inner = _beside_components(transform.inv)
        return None if inner is None else inner.inv
    if isinstance(transform, transforms.AffineTransform):
        return transforms.AffineTransform(_column(transform.loc), _column(transform.scale))
    if isinstance(transform, transforms.PowerTransform):
        return transforms.PowerTransform(_column(transform.exponent))  # type: ignore[arg-type]
    tensors = [value for value in vars(transform).values() if isinstance(value, Tensor | Distribution)]
    return None if tensors else transform


def _column(value: Tensor | float) -> Tensor | float:
    return value.unsqueeze(-1) if isinstance(value, Tensor) and value.ndim else value
