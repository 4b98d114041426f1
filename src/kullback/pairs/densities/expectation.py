"""Integrals over a law p of anything made of two densities: nodes, weights, log p and log q at the nodes.

A mixture is integrated piece by piece, each component in its own coordinate with its own weight. Panels are found
without derivatives: graded towards all marks first, then split where the rule says its error is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.integrate import (
    Integral,
    Nodes,
    Panels,
    graded_panels,
    integrate,
    ladder,
    place_nodes,
    split_panels,
    worth_keeping,
)
from kullback.pairs.densities.chart import Mark
from kullback.pairs.densities.describe import describe
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.nesting import as_mixture, flat
from kullback.pairs.densities.point import Point
from kullback.pairs.parameters import tensors_of
from kullback.pairs.visible import hidden, surely

# Panels at first and after each splitting; where values cannot be seen, one splitting of more panels for all seasons.
_PANELS, _FIXED_PANELS, _FIXED_TOTAL = 24, 48, 112
_ROUNDS, _SPLIT = 6, 6
_ENOUGH, _MOST = 1e-12, 600
_NARROWEST = 1e-280
# Numbers in a chunk: 256 kB of float64.
_CHUNK = 32768
# Log-weights below this are 0, whatever they are multiplied with.
NOWHERE = -1e13
# Where tails are looked at.
_OUT, _SWALLOWED = (15.0, 30.0, 60.0, 120.0), 1e12


class Sample(NamedTuple):
    """Both densities at the nodes of an integral over p.

    Attributes:
        log_weight: Logarithm of p·dx, or of a component's share of it.
        log_p: Logarithm of p's density.
        log_q: That of q's, with the part that may exceed the number range.
        point: The nodes themselves; None in a sum over counts.
    """

    log_weight: Tensor
    log_p: Tensor
    log_q: LogDensity
    point: Point | None = None


class Pieces(NamedTuple):
    """A pair of laws, ready to be integrated over the first.

    Attributes:
        p: The first law.
        q: The second.
        over: The law whose coordinate is used: p itself, or its components along a dimension before the nodes.
        log_share: Logarithm of the components' weights; None if p is no mixture.
        frozen: Whether no parameter asks for a derivative, so that the search for panels has the answer already.
    """

    p: Law
    q: Law
    over: Law
    log_share: Tensor | None
    frozen: bool = False


class Expectation(NamedTuple):
    """An integral over p, one per batch element.

    Attributes:
        value: The integral.
        size: That of its absolute value.
        error: An estimate of the error of the rule, and of the rounding of the sum.
        noise: E_p(|log p| + |log q|): what roundings of the log-densities are relative to.
    """

    value: Tensor
    size: Tensor
    error: Tensor
    noise: Tensor


def pieces_of(p: Distribution, q: Distribution) -> Pieces:
    """Describe both laws in shapes that fit together."""
    frozen = not any(tensor.requires_grad for side in (p, q) for tensor in tensors_of(side))
    mixture = as_mixture(p)
    if mixture is not None:
        deep, beside = _lift(2), _lift(1)
        shares, component, merge = flat(mixture)
        over = describe(component, lambda tensor: beside(merge(tensor)))
        return Pieces(describe(p, deep), describe(q, deep), over, shares.unsqueeze(-1), frozen)
    law = describe(p, _lift(1))
    return Pieces(law, describe(q, _lift(1)), law, None, frozen)


def _lift(dims: int) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor.reshape(*tensor.shape, *(1,) * dims)


def integral_over(
    pieces: Pieces,
    f: Callable[[Sample], Tensor],
    *,
    follow_q: bool = False,
    log_size: Callable[[Sample], Tensor] | None = None,
    breaks: Tensor | None = None,
    roughly: bool = False,
) -> Expectation:
    """∫ f over p, where f is given both densities and returns the integrand times the weight of a node.

    Args:
        pieces: The two laws.
        f: The integrand.
        follow_q: Whether f is of the size of q, too, not only of p·(1 + |log p/q|).
        log_size: The logarithm of |f| itself, where that says better how far f reaches.
        breaks: Nodes' coordinates at which f has kinks of its own, in the last dimension.
        roughly: Whether the first panels will do.
    """
    plan = _Plan(f, follow_q, log_size or functools.partial(_log_size, follow_q=follow_q), breaks, roughly)
    edges, found, noise = _search(pieces, plan)
    if found is None or noise is None or (torch.is_grad_enabled() and not pieces.frozen):
        found, noise = _integrated(pieces, f, place_nodes(_with_kinks(pieces, edges, breaks)))
    parts = (found.value, found.size, found.error, noise + found.size)
    return Expectation(*(part if pieces.log_share is None else part.sum(-1) for part in parts))


def _integrated(pieces: Pieces, f: Callable[[Sample], Tensor], nodes: Nodes) -> tuple[Integral, Tensor]:
    """The integral on these nodes and E_p(|log p| + |level of log q|)."""
    terms, noises = [], []
    for at, log_weight in _chunks(*nodes):
        sample = evaluate(pieces, at, log_weight)
        terms.append(f(sample))
        heights = sample.log_p.detach().abs() + sample.log_q.level.detach().abs()
        noises.append((torch.exp(sample.log_weight.detach()) * heights).sum(-1))
    return integrate(terms[0] if len(terms) == 1 else torch.cat(terms, -1)), sum(noises[1:], noises[0])


def _chunks(at: Tensor, log_weight: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
    """Nodes a few at a time, so that what is computed of them stays in the cache."""
    count = at.shape[-1]
    size = count if hidden() else max(_CHUNK * count // max(at.numel(), 1), 16)
    if size >= count:
        return [(at, log_weight)]
    return zip(torch.split(at, size, dim=-1), torch.split(log_weight, size, dim=-1), strict=True)


def first_nodes(pieces: Pieces, log_size: Callable[[Sample], Tensor]) -> Tensor:
    """Coordinates of nodes, ascending in the last dimension, that see all that an integrand of this size has."""
    with torch.no_grad():
        rungs, first, last = _range(pieces, _Plan(log_size, True, log_size, None, True))
        return place_nodes(_with_kinks(pieces, graded_panels(rungs, first, last, _FIXED_PANELS), None)).at


class _Plan(NamedTuple):
    """An integrand and what is known of it; see `integral_over`."""

    f: Callable[[Sample], Tensor]
    follow_q: bool
    log_size: Callable[[Sample], Tensor]
    breaks: Tensor | None
    roughly: bool


_Found = tuple[Tensor, Integral | None, Tensor | None]


def _search(pieces: Pieces, plan: _Plan) -> _Found:
    """Edges of panels that hold the integral to full accuracy, and the integral if it needs no derivative."""
    with torch.no_grad():
        rungs, first, last = _range(pieces, plan)
        unseen = hidden()
        edges = graded_panels(rungs, first, last, _FIXED_PANELS if unseen else _PANELS)
        before = math.inf
        for _ in range(1 if unseen else _ROUNDS):
            edges = _with_kinks(pieces, edges, plan.breaks)
            found, noise = _integrated(pieces, plan.f, place_nodes(edges))
            whole = found.value.abs() if pieces.log_share is None else found.value.sum(-1, keepdim=True).abs()
            bad = found.panel_error > (_ENOUGH * torch.maximum(whole, 1e-2 * found.size)).unsqueeze(-1)
            parts = torch.where(bad, _SPLIT, 1)
            if unseen:
                return split_panels(edges, parts, _FIXED_TOTAL), None, None
            # Splitting that does not help meets rounding, not the rule.
            worst = float((found.error / whole.clamp_min(_NARROWEST)).nan_to_num().amax()) if found.error.numel() else 0
            total = int(parts.sum(-1).max()) if parts.numel() else 0
            if plan.roughly or surely(~bad) or worst > before / 3 or total > _MOST:
                return edges, found, noise
            before = worst
            edges = split_panels(edges, parts, total)
    return edges, None, None


def _range(pieces: Pieces, plan: _Plan) -> tuple[Panels, Tensor, Tensor]:
    """A ladder over all marks and the part of it that matters."""
    p, q = pieces.p, pieces.q
    rungs = ladder(*_located(pieces, [*p.marks, *p.bulk, *q.marks, *(q.bulk if plan.follow_q else ())]))
    sizes = [plan.log_size(evaluate(pieces, *part)) for part in _chunks(rungs.at, rungs.at * 0)]
    log_size = torch.cat(sizes, -1)
    # q may have more batch elements than the marks have.
    return Panels(*(part.expand_as(log_size) for part in rungs)), *worth_keeping(log_size)


def _log_size(sample: Sample, *, follow_q: bool) -> Tensor:
    """How large an integrand may be, as a logarithm."""
    level, drop, log_drop = sample.log_q
    log_size = torch.log1p((sample.log_p - level).abs())
    if drop is not None and log_drop is not None:
        log_size = torch.maximum(log_size, torch.where(log_drop > 1, log_drop, torch.log1p(drop)))
    log_size = sample.log_weight + log_size
    if follow_q:
        log_size = torch.maximum(log_size, sample.log_weight - sample.log_p + sample.log_q.total())
    return torch.where(sample.log_weight > NOWHERE, log_size, -math.inf)


def does_not_fall(pieces: Pieces) -> Tensor:
    """Whether p·(1 + |log p/q|) stays up far out in p's coordinate, whose tails are exponential or lighter.

    For laws whose tails are not known by parameters: from one place to another twice as far an integrable tail falls by
    more than e. Places where the slope of a map has swallowed the density say nothing.
    """
    with torch.no_grad():
        like = pieces.over.chart.locate((*pieces.over.bulk, *pieces.over.marks)[0])[0] * 0
        found = torch.zeros_like(like, dtype=torch.bool)
        for sign in (-1.0, 1.0):
            places = sign * torch.tensor(_OUT, dtype=like.dtype, device=like.device) + like
            sample = evaluate(pieces, places, torch.zeros_like(places))
            size = _log_size(sample, follow_q=False)
            known = (sample.log_p.abs() < _SWALLOWED) & (size > -math.inf)
            stays = torch.zeros_like(size[..., :1], dtype=torch.bool)
            for near in range(len(_OUT) - 1):
                far = near + 1
                kept = size[..., far : far + 1] > size[..., near:far] - 1
                stays = torch.where(known[..., far : far + 1], kept, stays)
            found = found | stays
        return found


def _located(pieces: Pieces, marks: Sequence[Mark]) -> tuple[Tensor, Tensor]:
    """Places and widths of marks in the coordinate of the nodes, stacked in the last dimension."""
    found = [pieces.over.chart.locate(mark) for mark in marks]
    parts = torch.broadcast_tensors(*(part for pair in found for part in pair))  # type: ignore[no-untyped-call]
    return torch.cat(parts[::2], dim=-1), torch.cat(parts[1::2], dim=-1).clamp_min(_NARROWEST)


def _with_kinks(pieces: Pieces, edges: Tensor, breaks: Tensor | None) -> Tensor:
    """Panel edges with the kinks among them; an edge at a kink moves with it, which second derivatives need."""
    kinks = [pieces.over.chart.coordinate(kink) for kink in (*pieces.p.kinks, *pieces.q.kinks)]
    kinks += [] if breaks is None else torch.split(breaks, 1, dim=-1)
    if not kinks:
        return edges
    low, high = edges[..., :1], edges[..., -1:]
    at = torch.broadcast_tensors(*kinks, low)[:-1]  # type: ignore[no-untyped-call]
    inside = [torch.where((y > low) & (y < high), y, low) for y in at]
    edges = edges.expand(*inside[0].shape[:-1], -1)
    for y in inside:
        edges = torch.where(edges == y.detach(), y, edges)
    return torch.cat([edges, *inside], dim=-1).sort(dim=-1).values


def evaluate(pieces: Pieces, y: Tensor, log_weight: Tensor) -> Sample:
    """Both densities at nodes."""
    point = pieces.over.chart.point(y)
    log_p = pieces.p.log_density(point).total()
    mass = _log_mass(pieces.over, point, log_p if pieces.log_share is None else None)
    own = mass if pieces.log_share is None else mass + pieces.log_share
    return Sample(own + log_weight, log_p, pieces.q.log_density(point), point)


def _log_mass(law: Law, point: Point, log_density: Tensor | None) -> Tensor:
    """log(p·dx/dy): of a mapped law in the coordinate before the map, whose slope takes no part in it."""
    if law.inner is not None and point.origin is not None:
        return _log_mass(law.inner, point.origin[1], None)
    return (law.log_density(point).total() if log_density is None else log_density) + point.log_jacobian
