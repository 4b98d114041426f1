"""KL(TransformedDistribution ‖ q): a bijection changes nothing, so it is the divergence of the bases.

That needs equal *and* injective transforms. |N(1, 1)| and |N(−1, 1)| are the same law although their bases are two nats
apart; for such a pair there is no route here.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import TransformedDistribution
from torch.distributions.transforms import ComposeTransform, Transform

from kullback.pairs.registry import Reduced, register


@register(
    TransformedDistribution,
    TransformedDistribution,
    method="structure",
    source="KL of the bases: equal injective transforms cancel",
)
def kl_transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Reduced | None:
    """None unless both apply the same injective transforms in the same order."""
    transforms_p, transforms_q = _flat(p.transforms), _flat(q.transforms)
    same = len(transforms_p) == len(transforms_q) and all(map(_equal, transforms_p, transforms_q))
    if not same or not all(t.bijective for t in transforms_p):
        return None
    return Reduced(p.base_dist, q.base_dist)


def _flat(transforms: list[Transform]) -> list[Transform]:
    """A composition written as one transform or as a list is the same map."""
    parts = [_flat(t.parts) if isinstance(t, ComposeTransform) else [t] for t in transforms]
    return [t for part in parts for t in part]


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


def _same(a: object, b: object) -> bool:
    if isinstance(a, Transform) and isinstance(b, Transform):
        return _equal(a, b)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return bool((torch.as_tensor(a) == torch.as_tensor(b)).all())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)
