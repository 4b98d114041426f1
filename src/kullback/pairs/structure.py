"""Rules for distributions that hold others, Independent and TransformedDistribution: which inner pair answers.

A bijection changes no divergence, so KL of two transformed distributions is that before their common last transforms.
Those must be equal *and* injective: |N(1, 1)| and |N(−1, 1)| are the same distribution although their bases are two
nats apart; for such a pair there is no route here. `registry` finds these rules.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, TransformedDistribution
from torch.distributions.transforms import Transform

from kullback._core.numbers import as_tensor
from kullback.densities.canonical_transforms import canonical_transforms, flat_transforms, num_nonlinear
from kullback.kernels.levels import known_true
from kullback.pairs.registry import Reduced, register


def unwrapped(d: Distribution) -> tuple[Distribution, int]:
    """The innermost distribution and how many of its batch dimensions belong to the event."""
    dims = 0
    while isinstance(d, Independent):
        dims += d.reinterpreted_batch_ndims
        d = d.base_dist
    return d, dims


def _wrapped(d: Distribution, dims: int) -> Distribution:
    return Independent(d, dims) if dims else d


@register(Independent, Independent, method="structure", source="Σ KL(pᵢ ‖ qᵢ) over independent dimensions")
def kl_independent_independent(p: Independent[Distribution], q: Independent[Distribution]) -> Reduced | None:
    """Dimensions reinterpreted on both sides are summed over; what one side has more of is left to the inner pair."""
    base_p, dims_p = unwrapped(p)
    base_q, dims_q = unwrapped(q)
    shared = min(dims_p, dims_q)
    inner_p, inner_q = _wrapped(base_p, dims_p - shared), _wrapped(base_q, dims_q - shared)
    return Reduced(inner_p, inner_q, shared)


@register(Independent, Distribution, method="structure", source="Independent(p, 0) is p")
def kl_independent_distribution(p: Independent[Distribution], q: Distribution) -> Reduced | None:
    """Only a wrapper that reinterprets nothing can be taken off alone."""
    base, dims = unwrapped(p)
    return None if dims else Reduced(base, q)


@register(Distribution, Independent, method="structure", source="Independent(q, 0) is q")
def kl_distribution_independent(p: Distribution, q: Independent[Distribution]) -> Reduced | None:
    """Only a wrapper that reinterprets nothing can be taken off alone."""
    base, dims = unwrapped(q)
    return None if dims else Reduced(p, base)


@register(
    TransformedDistribution,
    TransformedDistribution,
    method="structure",
    source="KL before the last maps: equal injective ones cancel",
)
def kl_transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Reduced | None:
    """The pair before the last maps that both have in common; None if they have none.

    Where the same map is written differently, `canonical_transforms` finds what is common. A distribution with a name
    is not taken to pieces: a Kumaraswamy is better known than the 1 − u^(1/b) of which it is a power.
    """
    maps = flat_transforms(p.transforms), flat_transforms(q.transforms)
    left = _left(*maps)
    fewer = len(left[0]) < len(maps[0])
    plain = type(p) is type(q) is TransformedDistribution
    if plain and any(left):
        canonical = _left(canonical_transforms(maps[0]), canonical_transforms(maps[1]))
        # Canonical maps are joined with roundings of their own, and taken only where more drops out.
        if sum(map(num_nonlinear, canonical)) < sum(map(num_nonlinear, left)):
            left, fewer = canonical, True
    if not fewer or not (plain or not any(left)):
        return None
    return Reduced(_before(p, left[0]), _before(q, left[1]))


def _left(own: list[Transform], other: list[Transform]) -> tuple[list[Transform], list[Transform]]:
    """The maps before the last ones that are the same bijections."""
    common = 0
    for last_p, last_q in zip(reversed(own), reversed(other), strict=False):
        if not (_equal(last_p, last_q) and last_p.bijective):
            break
        common += 1
    return own[: len(own) - common], other[: len(other) - common]


def _before(p: TransformedDistribution, maps: list[Transform]) -> Distribution:
    return TransformedDistribution(p.base_dist, maps, validate_args=False) if maps else p.base_dist


def _equal(a: Transform, b: Transform) -> bool:
    """The same map: the same class with the same state, tensors compared by value."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    state_a, state_b = _state(a), _state(b)
    return state_a.keys() == state_b.keys() and all(_same(state_a[k], state_b[k]) for k in state_a)


def _state(transform: Transform) -> dict[str, object]:
    """What defines a transform; its cache and the back-reference to its inverse do not."""
    return {k: v for k, v in vars(transform).items() if not k.startswith("_") or k == "_event_dim"}


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Transform) and isinstance(b, Transform):
        return _equal(a, b)
    if isinstance(a, Distribution) and isinstance(b, Distribution):  # of which a map is the distribution function
        own, other = ([getattr(side, name) for name in side.arg_constraints] for side in (a, b))
        return a is b or (type(a) is type(b) and _same(own, other))
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b or _equal_constants(as_tensor(a), as_tensor(b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _equal_constants(a: Tensor, b: Tensor) -> bool:
    """Equal in value and slope: what is moved on one side alone does not cancel, wherever it starts."""
    moved = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    return not moved and known_true(a == b)
