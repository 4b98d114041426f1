"""Where the panels of an integral over p go: marks of both laws in p's coordinate, and the range that matters."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from kullback._core.shapes import joint_shape
from kullback.integrate import Span, falling, ladder
from kullback.pairs.densities.chart import Chart, Mark
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.point import Point
from kullback.pairs.visible import hidden

_NARROWEST = 1e-280
# Of the logarithm of a weight that matters, and of a slope.
_BULK, _STEEPEST = 8.0, 80.0
# Log-weights below this are 0, whatever they are multiplied with.
NOWHERE = -1e13
# In p's coordinate q's poles are close to the line below this.
_CLOSE = 1e-2


class Sample(NamedTuple):
    """Both densities at the nodes of an integral over p.

    Attributes:
        log_weight: Logarithm of p·dx, or of a component's share of it.
        log_p: Logarithm of p's density.
        log_q: That of q's, with the part that may exceed the number range.
        point: The nodes themselves; None in a sum over counts.
        log_ratio: log p − log q by another way, which may know more digits; no derivative.
    """

    log_weight: Tensor
    log_p: Tensor
    log_q: LogDensity
    point: Point | None = None
    log_ratio: Tensor | None = None


class Part(Protocol):
    """How to describe some elements of a batch."""

    def __call__(self, index: Tensor, component: Tensor | None = None, /) -> Pieces:
        """Both laws, for these elements and with these components of p."""


class Pieces(NamedTuple):
    """A pair of laws, ready to be integrated over the first.

    Attributes:
        p: The first law.
        q: The second.
        over: The law whose coordinate is used: p itself, or its components along a dimension before the nodes.
        log_share: Logarithm of the components' weights; None if p is no mixture.
        frozen: Whether no parameter asks for a derivative, so that the search for panels has the answer already.
        part: The same for some elements of the batch, by their index in it, and of p's components for one each, by
            theirs; None if that cannot be had.
        log_ratio: What a sample's log-ratio is made by, if anything.
    """

    p: Law
    q: Law
    over: Law
    log_share: Tensor | None
    frozen: bool = False
    part: Part | None = None
    log_ratio: Callable[[Point], Tensor] | None = None

    @property
    def in_chunks(self) -> bool:
        """Every operation goes through all nodes that it is given, so that few at a time stay in the cache."""
        return True

    def spanned(self, log_size: Callable[[Sample], Tensor], *, follow_q: bool) -> tuple[Span, Tensor]:
        """A ladder over all marks with the part of it that matters, and the log-size of the integrand at the rungs."""
        return span(self, log_size, follow_q=follow_q)

    def kinks(self) -> list[Tensor]:
        """Coordinates at which a density has no derivative."""
        found = [self.over.chart.coordinate(kink) for kink in (*self.p.kinks, *self.q.kinks)]
        drift = self.drift() if found else None
        return found if drift is None else [kink - drift for kink in found]

    def drift(self) -> Tensor | None:
        """0, with the derivatives of the place where q's poles are close to the line; None if they are not.

        Nodes that move with them leave an integral over the whole line what it is. Held, they would know their
        distances to a place that moves by a rounding of p's scale only, and a derivative is as large as its inverse.
        """
        pole = self.q.pole
        if pole is None:
            return None
        chart = self.over.chart
        at = chart.coordinate(pole.at)
        if not (hidden() or at.requires_grad):
            return None
        width = chart.locate(Mark(pole.at.detach(), pole.width.detach()))[1][..., :1].detach()
        return torch.where(width < _CLOSE, at - at.detach(), 0.0)

    def terms(self, f: Callable[[Sample], Tensor], at: Tensor, log_weight: Tensor) -> tuple[Tensor, Tensor]:
        """The integrand times the weight of its node, and the weight times |log p| + |level of log q|."""
        sample = evaluate(self, at, log_weight)
        value = f(sample)
        with torch.no_grad():
            heights = sample.log_p.abs() + sample.log_q.level.abs()
            return value, torch.exp(sample.log_weight) * heights


class Problem(Protocol):
    """What an integral over p needs to know, however it is computed; see `Pieces`."""

    @property
    def log_share(self) -> Tensor | None:
        """Logarithm of the weights of p's components; None if p is no mixture."""

    @property
    def frozen(self) -> bool:
        """Whether no parameter asks for a derivative."""

    @property
    def part(self) -> Callable[[Tensor, Tensor | None], Problem] | None:
        """The same for some elements."""

    @property
    def in_chunks(self) -> bool:
        """Whether nodes are better given a few at a time."""

    def spanned(self, log_size: Callable[[Sample], Tensor], *, follow_q: bool) -> tuple[Span, Tensor]:
        """The range that matters and the log-size of the integrand at the rungs."""

    def kinks(self) -> list[Tensor]:
        """Coordinates at which a density has no derivative."""

    def terms(self, f: Callable[[Sample], Tensor], at: Tensor, log_weight: Tensor) -> tuple[Tensor, Tensor]:
        """The integrand times the weight of its node, and what its roundings are relative to."""


def evaluate(pieces: Pieces, y: Tensor, log_weight: Tensor) -> Sample:
    """Both densities at nodes."""
    drift = pieces.drift()
    point = pieces.over.chart.point(y if drift is None else y + drift)
    log_p = pieces.p.log_density(point).total()
    mass = _log_mass(pieces.over, point, log_p if pieces.log_share is None else None)
    own = mass if pieces.log_share is None else mass + pieces.log_share
    log_ratio = None if pieces.log_ratio is None else pieces.log_ratio(point)
    return Sample(own + log_weight, log_p, pieces.q.log_density(point), point, log_ratio)


def _log_mass(law: Law, point: Point, log_density: Tensor | None) -> Tensor:
    """log(p·dx/dy): of a mapped law in the coordinate before the map, whose slope takes no part in it."""
    if law.inner is not None and point.origin is not None:
        return _log_mass(law.inner, point.origin[1], None)
    return (law.log_density(point).total() if log_density is None else log_density) + point.log_jacobian


def span(pieces: Pieces, log_size: Callable[[Sample], Tensor], *, follow_q: bool) -> tuple[Span, Tensor]:
    """A ladder over all marks with the part of it that matters, and the log-size of the integrand at the rungs."""
    rungs = ladder(*without_idle(*located(pieces, follow_q=follow_q)))
    sample = evaluate(pieces, rungs.at, torch.zeros_like(rungs.at))
    found = log_size(sample)
    return falling(rungs, found, sample.log_p - sample.log_q.total() if follow_q else None), found


def sharpness(pieces: Pieces) -> Tensor:
    """The largest |x − anchor|·p(x): in these units a density feels the rounding of the point that it is asked at."""
    with torch.no_grad():
        rungs = ladder(*without_idle(*located(pieces, follow_q=False)))
        sample = evaluate(pieces, rungs.at, torch.zeros_like(rungs.at))
        assert sample.point is not None
        centre, ends = sample.point.centre, [end for end in (sample.point.above, sample.point.below) if end is not None]
        if centre is not None:
            log_distance = torch.log((centre.value * centre.scale).abs().clamp_min(_NARROWEST))
        else:
            log_distance = functools.reduce(torch.minimum, [end.log + torch.log(end.scale) for end in ends])
        here = sample.log_weight > sample.log_weight.amax(-1, keepdim=True) - _BULK
        found = torch.exp(torch.where(here, sample.log_p + log_distance, -math.inf).clamp_max(_STEEPEST)).amax(-1)
        return found if pieces.log_share is None else found.amax(-1)


def located(pieces: Pieces, *, follow_q: bool) -> tuple[Tensor, Tensor]:
    """Places and widths of marks in the coordinate of the nodes, stacked in the last dimension."""
    p, q, chart = pieces.p, pieces.q, pieces.over.chart
    marks = [*p.marks, *p.bulk, *q.marks, *(q.bulk if follow_q else ())]
    found = [part for kind in _KINDS for part in _located_together(chart, [m for m in marks if _kind(m) == kind])]
    batch = joint_shape(*(part.shape[:-1] for part in found))
    centres, widths = (torch.cat([part.expand(*batch, -1) for part in found[i::2]], -1) for i in (0, 1))
    widths = widths.clamp_min(_NARROWEST)
    return centres, widths


def without_idle(centres: Tensor, widths: Tensor) -> tuple[Tensor, Tensor]:
    """Only one of the marks that say nothing in this coordinate: those are found at 0 with the width 1."""
    if hidden() or centres.shape[-1] < 3 or not centres.numel():
        return centres, widths
    idle = ((centres == 0) & (widths == 1)).reshape(-1, centres.shape[-1]).all(0).tolist()
    keep = [at for at, says_nothing in enumerate(idle) if not (says_nothing and True in idle[:at])]
    return (centres, widths) if len(keep) == len(idle) else (centres[..., keep], widths[..., keep])


_KINDS = ((False, False), (True, False), (False, True))


def _kind(mark: Mark) -> tuple[bool, bool]:
    """Near which end a mark is."""
    return mark.lower is not None, mark.upper is not None


def _located_together(chart: Chart, marks: Sequence[Mark]) -> tuple[Tensor, ...]:
    """Places and widths of marks of one kind."""
    if not marks:
        return ()
    given = [part for mark in marks for part in mark if part is not None]
    parts = torch.broadcast_tensors(*given)  # type: ignore[no-untyped-call]
    kinds = len(parts) // len(marks)
    joined = [parts[i] if len(marks) == 1 else torch.cat(parts[i::kinds], -1) for i in range(kinds)]
    ends = {name: joined[2] for name in ("lower", "upper") if getattr(marks[0], name) is not None}
    centre, width = chart.locate(Mark(joined[0], joined[1], **ends))
    return centre, width.expand_as(centre)


def with_kinks(pieces: Problem, edges: Tensor, breaks: Tensor | None) -> Tensor:
    """Panel edges with the kinks among them; an edge at a kink moves with it, which second derivatives need."""
    kinks = pieces.kinks() + ([] if breaks is None else list(torch.split(breaks, 1, dim=-1)))
    if not kinks:
        return edges
    low, high = edges[..., :1], edges[..., -1:]
    at = torch.broadcast_tensors(*kinks, low)[:-1]  # type: ignore[no-untyped-call]
    inside = [torch.where((y > low) & (y < high), y, low) for y in at]
    edges = edges.expand(*inside[0].shape[:-1], -1)
    for y in inside:
        edges = torch.where(edges == y.detach(), y, edges)
    edges = torch.cat([edges, *inside], dim=-1).sort(dim=-1).values
    return _together(edges) if edges.requires_grad or hidden() else edges


def _together(edges: Tensor) -> Tensor:
    """Edges at one place move as the first of them: the slope of a panel of no width is lost, not its neighbours'."""
    still = edges.detach()
    index = torch.arange(still.shape[-1], device=still.device)
    starts = torch.cat([torch.ones_like(still[..., :1], dtype=torch.bool), still[..., 1:] != still[..., :-1]], dim=-1)
    return edges.gather(-1, torch.where(starts, index, 0).cummax(dim=-1).values)
