"""Mixtures of anything that has a density; `reading.read` calls it.

An expectation under a mixture is the weighted sum of the expectations under its components, each in its own
coordinate, so a mixture needs a log-density, marks and tails only.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily

from kullback.densities.density import Density
from kullback.densities.mixed import Mixture
from kullback.densities.parameters import log_classes
from kullback.densities.point import End, Point, at, is_endless, same_end
from kullback.densities.registry import Reading, flat
from kullback.densities.tails import Tail, chosen, heavier

# Lighter than any tail.
_NO_MASS = Tail(9.0)

Read = Callable[[Distribution, torch.Size], Reading | None]


def read_mixture(mixture: MixtureSameFamily | Mixture, shape: torch.Size, read: Read) -> Reading | None:
    """Weights and components as one reading; None if a component has no density."""
    if isinstance(mixture, Mixture):
        parts = [read(part, shape) for part in mixture.parts]
        log_weights = [flat(weight.log(), shape) for weight in mixture.weights]
    else:
        components = mixture.component_distribution
        count = components.batch_shape[-1]
        inner = None if components.event_shape else read(components, torch.Size([*shape, count]))
        if inner is None:
            return None
        columns = [t.reshape(-1, count).unbind(-1) for t in inner.parameters]
        parts = [inner._replace(parameters=row) for row in zip(*columns, strict=True)]
        of_all = log_classes(mixture.mixture_distribution).expand(*shape, count)
        log_weights = [flat(column, shape) for column in of_all.unbind(-1)]
    found = [part for part in parts if part is not None]
    return joined(log_weights, found, type(mixture)) if len(found) == len(parts) else None


def joined(log_weights: Sequence[Tensor], parts: Sequence[Reading], source: type[Distribution]) -> Reading:
    """The reading of a mixture; one of mixtures is that of all their components, with the products of the weights."""
    plain = [
        (log_weight + part.parameters[i] if part.components else log_weight, component)
        for log_weight, part in zip(log_weights, parts, strict=True)
        for i, component in enumerate(part.parts())
    ]
    count = len(plain)
    stops = itertools.accumulate((len(part.parameters) for _, part in plain), initial=count)
    components = tuple(
        (part.make, slice(*ends)) for (_, part), ends in zip(plain, itertools.pairwise(stops), strict=True)
    )

    def make(*parameters: Tensor) -> Density:
        return mixture_density(parameters[:count], [make(*parameters[place]) for make, place in components])

    return parts[0]._replace(
        parameters=(*(w for w, _ in plain), *(t for _, part in plain for t in part.parameters)),
        make=make,
        components=components,
        source=source,
        searched=any(part.searched for part in parts),
    )


def mixture_density(log_weights: Sequence[Tensor], parts: Sequence[Density]) -> Density:
    """Σ wᵢ pᵢ; a component is 0 outside its own support, and one of weight 0 counts for nothing."""
    like, first = log_weights[0], parts[0]
    used = torch.stack([w.detach() > -math.inf for w in log_weights])
    of_parts = [p.low for p in parts], [p.high for p in parts]
    lows, highs = (torch.stack([_tensor(end, like) for end in ends]) for ends in of_parts)
    lows, highs = torch.where(used, lows, math.inf), torch.where(used, highs, -math.inf)
    low, high = lows.amin(0), highs.amax(0)
    differ = [any(isinstance(end, Tensor) or end != ends[0] for end in ends) for ends in of_parts]
    inner = [end for ends, several in zip(of_parts, differ, strict=True) if several for end in ends]
    kinks = [_tensor(end, like) for end in inner if not is_endless(end)]
    known = [part.tails for part in parts if part.tails is not None]
    tails = _heaviest([t[0] for t in known], lows == low, like), _heaviest([t[1] for t in known], highs == high, like)

    def log_prob(x: Point) -> Tensor:
        terms = [w + inside_log_prob(part, x) for w, part in zip(log_weights, parts, strict=True)]
        stacked = torch.stack(torch.broadcast_tensors(*terms))  # type: ignore[no-untyped-call]
        # Where all terms are −inf the derivative of logsumexp is NaN.
        some = (stacked.detach() > -math.inf).any(0)
        return torch.where(some, torch.logsumexp(torch.where(some, stacked, 0.0), 0), -math.inf)

    return Density(
        low if differ[0] else first.low,
        high if differ[1] else first.high,
        first.coordinate,
        log_prob,
        tuple(mark for part in parts for mark in part.marks),
        tails if len(known) == len(parts) else None,
        lattice=first.lattice,
        integers_only=any(part.integers_only for part in parts),
        num_integers=0 if any(part.num_integers == 0 for part in parts) else max(part.num_integers for part in parts),
        kinks=() if first.lattice else tuple(at(end.nan_to_num(0.0, 0.0, 0.0)) for end in kinks),
    )


def _heaviest(tails: Sequence[Tail], there: Tensor, like: Tensor) -> Tail:
    """The heaviest of the tails of components that reach an end."""
    reaching = [chosen(mask, tail, _NO_MASS) for mask, tail in zip(there, tails, strict=False)]
    return functools.reduce(functools.partial(heavier, like=like), reaching, _NO_MASS)


def inside_log_prob(part: Density, x: Point) -> Tensor:
    """The log-density of a point, −inf outside the support."""
    value = part.log_prob(x)
    zero = torch.zeros_like(value)
    inside: Tensor | None = None
    if part.lattice:
        k = x.offset
        return torch.where((k > part.low - 0.5) & (k < part.high + 0.5), value, -math.inf)
    for end, sign in ((part.low, 1.0), (part.high, -1.0)):
        # Where the coordinate that made the point ends there, too, the point is inside.
        if is_endless(end) or any(same_end(known, end) for known, _ in x.known):
            continue
        within = sign * x.z(end, zero) >= 0
        inside = within if inside is None else inside & within
    return value if inside is None else torch.where(inside, value, -math.inf)


def _tensor(end: End, like: Tensor) -> Tensor:
    return torch.as_tensor(end, dtype=like.dtype, device=like.device).expand_as(like)
