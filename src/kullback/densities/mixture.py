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
from kullback.densities.parameters import gives_logits
from kullback.densities.parameters import read as read_parameters
from kullback.densities.point import End, Point, same_end
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
        log_weights = list(_log_weights(mixture.mixture_distribution, shape, count))
    found = [part for part in parts if part is not None]
    return joined(log_weights, found, type(mixture)) if len(found) == len(parts) else None


def joined(log_weights: Sequence[Tensor], parts: Sequence[Reading], source: type[Distribution]) -> Reading:
    """The reading of a mixture; one of mixtures is that of all their components, with the products of the weights."""
    plain = [
        (log_weight + own, component)
        for log_weight, part in zip(log_weights, parts, strict=True)
        for own, component in _weighted_parts(part)
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


def _weighted_parts(reading: Reading) -> list[tuple[Tensor | float, Reading]]:
    return list(zip(reading.parameters, reading.parts(), strict=False)) if reading.components else [(0.0, reading)]


def _log_weights(chooser: torch.distributions.Categorical, shape: torch.Size, count: int) -> tuple[Tensor, ...]:
    """The logarithms of the weights, one tensor for each component; a weight of 0 is −inf."""
    if gives_logits(chooser):
        (logits,) = read_parameters(chooser, "logits")
        log_weights = logits.log_softmax(-1)
    else:
        (probs,) = read_parameters(chooser, "probs")
        log_weights = torch.log(probs / probs.sum(-1, keepdim=True))
    return tuple(flat(column, shape) for column in log_weights.expand(*shape, count).unbind(-1))


def mixture_density(log_weights: Sequence[Tensor], parts: Sequence[Density]) -> Density:
    """Σ wᵢ pᵢ; a component is 0 outside its own support, and one of weight 0 counts for nothing."""
    like = log_weights[0]
    used = [w.detach() > -torch.inf for w in log_weights]

    def log_prob(x: Point) -> Tensor:
        terms = [w + inside_log_prob(part, x) for w, part in zip(log_weights, parts, strict=True)]
        return log_sum_exp(torch.stack(torch.broadcast_tensors(*terms)))  # type: ignore[no-untyped-call]

    both = list(zip(used, parts, strict=True))
    lows = torch.stack([torch.where(u, _end(part.low, like), torch.inf) for u, part in both])
    highs = torch.stack([torch.where(u, _end(part.high, like), -torch.inf) for u, part in both])
    tails = _tails(parts, used, like)
    first = parts[0]
    one_low, one_high = _is_one_number([p.low for p in parts]), _is_one_number([p.high for p in parts])
    low = first.low if one_low else lows.amin(0)
    high = first.high if one_high else highs.amax(0)
    inner = [part.low for part in parts if not one_low] + [part.high for part in parts if not one_high]
    kinks = tuple(_end_point(_end(end, like), like) for end in inner if isinstance(end, Tensor) or math.isfinite(end))
    return Density(
        low,
        high,
        first.coordinate,
        log_prob,
        tuple(mark for part in parts for mark in part.marks),
        tails,
        lattice=first.lattice,
        integers_only=any(part.integers_only for part in parts),
        num_integers=0 if any(part.num_integers == 0 for part in parts) else max(part.num_integers for part in parts),
        kinks=() if first.lattice else kinks,
    )


def inside_log_prob(part: Density, x: Point) -> Tensor:
    """The log-density of a point, −inf outside the support."""
    value = part.log_prob(x)
    zero = torch.zeros_like(value)
    inside: Tensor | None = None
    if part.lattice:
        k = x.offset
        return torch.where((k > part.low - 0.5) & (k < part.high + 0.5), value, -torch.inf)
    for end, sign in ((part.low, 1.0), (part.high, -1.0)):
        if isinstance(end, float) and abs(end) == float("inf"):
            continue
        if any(same_end(known, end) for known, _ in x.known):  # the coordinate that made the point ends there, too
            continue
        within = sign * x.z(end, zero) >= 0
        inside = within if inside is None else inside & within
    return value if inside is None else torch.where(inside, value, -torch.inf)


def log_sum_exp(terms: Tensor) -> Tensor:
    """torch.logsumexp over the first dimension whose derivative is 0, not NaN, where all terms are −inf."""
    some = (terms.detach() > -torch.inf).any(0)
    return torch.where(some, torch.logsumexp(torch.where(some, terms, 0.0), 0), -torch.inf)


def _end(end: End, like: Tensor) -> Tensor:
    return torch.as_tensor(end, dtype=like.dtype, device=like.device).expand_as(like)


def _is_one_number(ends: Sequence[End]) -> bool:
    """Whether the ends of all components are one Python number."""
    return all(isinstance(end, float) and end == ends[0] for end in ends)


def _tails(parts: Sequence[Density], used: Sequence[Tensor], like: Tensor) -> tuple[Tail, Tail] | None:
    """The heaviest tail at each end, of the components with weight that reach it."""
    if any(part.tails is None for part in parts):
        return None
    known = [
        (part, [chosen(mask, tail, _NO_MASS) for tail in part.tails])
        for part, mask in zip(parts, used, strict=True)
        if part.tails is not None
    ]
    lower = [tails[0] for part, tails in known if _reaches(part.low, [p.low for p in parts], min)]
    upper = [tails[1] for part, tails in known if _reaches(part.high, [p.high for p in parts], max)]
    join = functools.partial(heavier, like=like)
    return functools.reduce(join, lower), functools.reduce(join, upper)


def _reaches(end: End, ends: Sequence[End], outermost: Callable[[Sequence[float]], float]) -> bool:
    """Whether a component may reach the end of the mixture; where ends are parameters, all of them may."""
    numbers = [other for other in ends if isinstance(other, float)]
    if not numbers or (len(numbers) < len(ends) and math.isfinite(outermost(numbers))):
        return True
    return isinstance(end, float) and end == outermost(numbers)


def _end_point(end: Tensor, like: Tensor) -> Point:
    """An end of a component's support as a place where the mixture has a kink."""
    zero = torch.zeros_like(like)
    return Point(torch.where(end.isfinite(), end, 0.0), zero, zero, torch.full_like(like, -torch.inf))
