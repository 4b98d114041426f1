"""KL(Independent ‖ q): a sum over the dimensions that both sides treat as independent."""

from __future__ import annotations

from torch.distributions import Distribution, Independent

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
