"""MixtureSameFamily of anything that has a density; `reading.read` calls it.

An expectation under a mixture is the weighted sum of the expectations under its components, each in its own
coordinate, so a mixture needs a log-density, marks and tails only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily

from kullback.densities.density import Density
from kullback.densities.parameters import gives_logits
from kullback.densities.parameters import read as read_parameters
from kullback.densities.point import End, Point, same_end
from kullback.densities.registry import Reading, flat
from kullback.densities.tails import Tail, heavier

Read = Callable[[Distribution, torch.Size], Reading | None]


def read_mixture(mixture: MixtureSameFamily, shape: torch.Size, read: Read) -> Reading | None:
    """Weights and components as one reading; None if the components have no density."""
    chooser, parts = mixture.mixture_distribution, mixture.component_distribution
    if parts.event_shape:
        return None
    inner = read(parts, torch.Size([*shape, parts.batch_shape[-1]]))
    if inner is None or inner.components:
        return None
    count = parts.batch_shape[-1]
    log_weights = flat_weights(chooser, shape, count)
    columns = [column for t in inner.parameters for column in t.reshape(-1, count).unbind(-1)]
    size = len(inner.parameters)
    make = inner.make

    def component(parameters: tuple[Tensor, ...], i: int) -> Reading:
        return inner._replace(parameters=parameters[count + i :: count][:size])

    def make_mixture(*parameters: Tensor) -> Density:
        densities = [make(*parameters[count + i :: count]) for i in range(count)]
        return mixture_density(parameters[:count], densities)

    return inner._replace(
        parameters=(*log_weights, *columns),
        make=make_mixture,
        components=count,
        component=component,
        source=type(mixture),
    )


def flat_weights(chooser: torch.distributions.Categorical, shape: torch.Size, count: int) -> tuple[Tensor, ...]:
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
    tails: tuple[Tail, Tail] | None = parts[0].tails
    for part in parts[1:]:
        if tails is not None:
            tails = None if part.tails is None else _joined(tails, part.tails, like)
    first = parts[0]
    low = first.low if all(isinstance(part.low, float) for part in parts) else lows.amin(0)
    high = first.high if all(isinstance(part.high, float) for part in parts) else highs.amax(0)
    kinks = tuple(_end_point(end, like) for part in parts for end in (part.low, part.high) if isinstance(end, Tensor))
    return Density(
        low,
        high,
        first.coordinate,
        log_prob,
        tuple(mark for part in parts for mark in part.marks),
        tails,
        lattice=first.lattice,
        integers_only=any(part.integers_only for part in parts),
        num_integers=first.num_integers,
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


def _joined(first: tuple[Tail, Tail], second: tuple[Tail, Tail], like: Tensor) -> tuple[Tail, Tail]:
    return heavier(first[0], second[0], like), heavier(first[1], second[1], like)


def _end_point(end: Tensor, like: Tensor) -> Point:
    """An end of a component's support as a place where the mixture has a kink."""
    zero = torch.zeros_like(like)
    return Point(torch.where(end.isfinite(), end, 0.0), zero, zero, torch.full_like(like, -torch.inf))
