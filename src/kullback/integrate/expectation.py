"""The engine: an expectation under one density of a function of the log-densities of two, with its error.

`divergences` calls `expectation`. A fixed layout of panels comes first; eagerly, panels whose rules disagree are then
halved until they agree. Nothing here knows a divergence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from kullback._core.errors import InputValueError, explain_problem
from kullback.densities.point import HUGE, End, Point
from kullback.integrate.crossings import find_crossings
from kullback.integrate.panels import Marks, Range, find_range, locate, place_edges
from kullback.integrate.peaks import Peaks, edges_of, find_peaks
from kullback.integrate.problem import Densities, Integrand, Problem, Sample
from kullback.integrate.remainder import find_limits, remainder
from kullback.integrate.rules import EDGE_WEIGHTS, NUM_NODES, Rule, lattice_rule, legendre
from kullback.kernels.levels import is_traced

# Elements at a time: few enough for their nodes to stay in the cache.
_CHUNK = 256
# A panel is halved while its error is larger than this part of the value, and than its rounding error.
_TOLERANCE = 1e-11
# What null rules say is multiplied by this; how much of a panel lies between its edge and the first node.
_SAFETY, _BLIND = 200.0, 0.0053
_MAX_ROUNDS, _MAX_PANELS = 40, 1000
# Weights in units of an integrand's largest value may be larger than any number.
_LARGEST_EXPONENT = 300.0
# Of a mass function that can only be asked at integers.
_MAX_INTEGERS = 2**22
# Up to this |log q/p| the second-order form of an integrand is the accurate one; in panels with next to no mass log q/p
# may be larger, as long as q has next to no mass there, too.
_CLOSE, _CLOSE_OUTSIDE, _NEGLIGIBLE_MASS = 0.5, 10.0, 1e-14
# The logarithm of a mass of q that counts for nothing, however large log q/p is there.
_NO_MASS = -70.0


class Expectation(NamedTuple):
    """A value for each element and an estimate of its error, in units of e^log_scale."""

    value: Tensor
    error: Tensor
    log_scale: Tensor


class _Panels(NamedTuple):
    """A flat list of panels: the element, the number of the panel in the layout, and the part of it."""

    element: Tensor
    slot: Tensor
    start: Tensor
    stop: Tensor

    def kept(self, mask: Tensor) -> _Panels:
        return _Panels(*(t[mask] for t in self))

    def halved(self) -> _Panels:
        middle = (self.start + self.stop) / 2
        element, slot = (torch.cat([t, t]) for t in self[:2])
        return _Panels(element, slot, torch.cat([self.start, middle]), torch.cat([middle, self.stop]))


def expectation(problem: Problem) -> Expectation:
    """The integral of the integrand over the coordinate, one for each element."""
    size = problem.over.parameters[0].shape[0]
    if size <= _CHUNK or is_traced():
        return _expectation(problem)
    attached = _is_attached(problem)
    found = []
    chunk = max(_CHUNK // problem.group, 1) * problem.group
    for start in range(0, size, chunk):
        part = problem.mapped(lambda t, start=start: t[start : start + chunk])  # type: ignore[misc]
        # A gradient keeps everything that was computed at the nodes: it is computed again instead.
        kept = part.parameters()
        found.append(
            Expectation(*checkpoint(_of_parameters, part, *kept, use_reentrant=False))
            if attached
            else _expectation(part)
        )
    return Expectation(*(torch.cat(column) for column in zip(*found, strict=True)))


def _is_attached(problem: Problem) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in problem.parameters())


def _of_parameters(problem: Problem, *parameters: Tensor) -> Expectation:
    del parameters
    return _expectation(problem)


def _expectation(problem: Problem) -> Expectation:
    peaks: Peaks | None = None
    if problem.scaled:
        with torch.no_grad():
            peaks = _find_peaks(problem)
        problem = problem._replace(log_scale=peaks.height.amax(-1))
    still = problem.mapped(torch.Tensor.detach)
    with torch.no_grad():
        fixed = still.densities()
        ends = _ends(fixed) if problem.ends else ()
        marks = _with_peaks(locate(fixed.over, fixed.others(), ends), peaks)
        limits = find_limits(fixed, marks.own[:, :1]) if problem.integrand.grows_as_log_q else None
        reach = _reach(fixed, marks, problem.integrand, limits)
    moving = fixed
    if is_traced() or _is_attached(problem):
        moving = problem.densities()
        ends = _ends(moving) if problem.ends else ()
        marks = _with_peaks(locate(moving.over, moving.others(), ends), peaks)
    num_integers = max(density.num_integers for density in moving[:3])
    edges = place_edges(moving.over, marks, reach, num_integers=num_integers)
    # Where panels cannot be refined, an integrand that turns at p = q needs edges there, too.
    integers_only = moving.over.lattice and any(density.integers_only for density in moving[:3])
    if (problem.crosses or (problem.ends and is_traced())) and not integers_only:
        crossings = find_crossings(
            edges.detach(),
            lambda v: fixed.sample(v).log_ratio,
            lambda v: moving.sample(v).log_ratio,
            rings=is_traced(),
        )
        edges = place_edges(moving.over, marks, reach, crossings, num_integers)
    panels = _all_panels(edges)
    if integers_only:
        panels = _one_by_one(edges, panels)
    first = _looked_at(problem, edges, panels, None)
    value, error = first.summed(edges.shape[0]) if is_traced() else _refined(problem, edges, panels, first)
    if limits is not None:
        rest = remainder(moving, problem.integrand, edges, limits, first.close)
        value, error = value + rest[0], error + rest[1]
    log_scale = torch.zeros_like(error) if problem.log_scale is None else problem.log_scale
    return Expectation(value, error + reach.beyond, log_scale)


def _find_peaks(problem: Problem) -> Peaks:
    """The largest values of an integrand that is known by its logarithm."""
    fixed = problem.mapped(torch.Tensor.detach).densities()
    marks = locate(fixed.over, fixed.others(), _ends(fixed) if problem.ends else ())

    def log_size(v: Tensor) -> Tensor:
        return problem.integrand.log_size(fixed.sample(v))

    peaks = find_peaks(edges_of(fixed, marks, log_size), log_size, lattice=fixed.over.lattice)
    return peaks._replace(height=peaks.height.nan_to_num(0.0, 0.0, 0.0))


def _with_peaks(marks: Marks, peaks: Peaks | None) -> Marks:
    if peaks is None:
        return marks
    other, width = torch.cat([marks.other, peaks.place], -1), torch.cat([marks.other_width, peaks.width], -1)
    return marks._replace(other=other, other_width=width, other_reach=torch.cat([marks.other_reach, peaks.reach], -1))


def _reach(fixed: Densities, marks: Marks, integrand: Integrand, limits: Tensor | None) -> Range:
    def log_size(v: Tensor) -> tuple[Tensor, Tensor]:
        sample = fixed.sample(v)
        size = integrand.log_size(sample)
        unseen = (sample.log_ratio < -1e290) | sample.log_p.isnan() | sample.log_q.isnan()
        return size.nan_to_num(-math.inf), unseen & (not fixed.over.lattice)

    return find_range(fixed.over, marks, log_size, limits)


def _ends(densities: Densities) -> tuple[Point, ...]:
    """The finite ends of the supports of the others, unless they are those of the first by name."""
    over = densities.over
    like = over.log_prob(over.marks[0])[..., 1:2]
    found = []
    for density in densities.others():
        for end, own in ((density.low, over.low), (density.high, over.high)):
            if isinstance(end, float) and (math.isinf(end) or (isinstance(own, float) and end == own)):
                continue
            found.append(_end_point(end, like))
    return tuple(found)


def _end_point(end: End, like: Tensor) -> Point:
    place = torch.as_tensor(end, dtype=like.dtype, device=like.device).expand_as(like)
    zero = torch.zeros_like(place)
    return Point(torch.where(place.isfinite(), place, HUGE), zero, zero, torch.full_like(zero, -math.inf))


def _all_panels(edges: Tensor) -> _Panels:
    """Every panel of the layout; eagerly, those that are not empty."""
    elements, count = edges.shape[0], edges.shape[1] - 1
    element = torch.arange(elements, device=edges.device).repeat_interleave(count)
    slot = torch.arange(count, device=edges.device).repeat(elements)
    start, stop = (torch.full_like(edges[:, 1:].detach(), t).reshape(-1) for t in (0.0, 1.0))
    panels = _Panels(element, slot, start, stop)
    return panels if is_traced() else panels.kept((edges[:, 1:] > edges[:, :-1]).reshape(-1))


def _one_by_one(edges: Tensor, panels: _Panels) -> _Panels:
    """Panels of at most 16 integers, for mass functions that can only be asked at integers."""
    if is_traced():  # the layout of such a density has short panels already
        return panels
    while len(panels.slot) < _MAX_INTEGERS // NUM_NODES:
        left, right = edges[panels.element, panels.slot], edges[panels.element, panels.slot + 1]
        long = ((right - left) * (panels.stop - panels.start)) > NUM_NODES - 1
        if not bool(long.any()):
            return panels
        halves = panels.kept(long).halved()
        panels = _Panels(*(torch.cat(pair) for pair in zip(panels.kept(~long), halves, strict=True)))
    raise InputValueError(
        explain_problem(
            "A mass function that is only known at integers has too many of them.",
            got=f"more than {_MAX_INTEGERS:,} integers with mass",
            expected="fewer, since they are summed one by one",
            instead="register_density with a description that can be asked between the integers, too",
        )
    )


class _Looked(NamedTuple):
    """What the rules say of panels."""

    element: Tensor
    value: Tensor
    error: Tensor
    floor: Tensor
    close: Tensor

    def kept(self, mask: Tensor) -> _Looked:
        return self._replace(
            element=self.element[mask], value=self.value[mask], error=self.error[mask], floor=self.floor[mask]
        )

    def summed(self, elements: int) -> tuple[Tensor, Tensor]:
        return _sum_by(self.element, self.value, elements), _sum_by(self.element, self.error + self.floor, elements)


def _sum_by(element: Tensor, values: Tensor, elements: int) -> Tensor:
    if is_traced():  # all panels of all elements, in order
        return values.reshape(elements, -1).sum(-1)
    return torch.zeros(elements, dtype=values.dtype, device=values.device).index_add(0, element, values)


def _looked_at(problem: Problem, edges: Tensor, panels: _Panels, close: Tensor | None) -> _Looked:
    """Values and errors of panels; `close` is decided by the first look at all of them."""
    elements = edges.shape[0]
    if is_traced():
        count = edges.shape[1] - 1
        chosen = problem.mapped(lambda t: t.unsqueeze(-1).expand(-1, count).reshape(-1))
        left, right = edges[:, :-1].reshape(-1), edges[:, 1:].reshape(-1)
    else:
        chosen = problem.mapped(lambda t: t[panels.element])
        left, right = edges[panels.element, panels.slot], edges[panels.element, panels.slot + 1]
        left, right = left + panels.start * (right - left), left + panels.stop * (right - left)
    densities = chosen.densities()
    lattice = densities.over.lattice
    if lattice:
        left, right = left.round(), right.round()
    width = right - left
    rule = lattice_rule(width) if lattice else legendre(width)
    # Nodes of an empty panel stand beside its edge, where a log-density may have no derivative.
    sample = densities.sample(left[:, None] + torch.where(width > 0, width, 1.0)[:, None] * rule.nodes)
    weight = torch.exp(sample.log_weight.clamp_max(_LARGEST_EXPONENT))
    if close is None:
        ratio = sample.log_ratio.detach()
        negligible = weight.detach() * width.detach().unsqueeze(-1) < _NEGLIGIBLE_MASS
        log_mass_of_q = sample.log_weight.detach() + ratio + torch.log(width.detach().clamp_min(1e-300)).unsqueeze(-1)
        outside = torch.where(log_mass_of_q < _NO_MASS, 0.0, ratio * (_CLOSE / _CLOSE_OUTSIDE))
        size = torch.where(negligible, outside, ratio.abs()).amax(-1)
        size = torch.where((width > 0) & (size > 0), size, 0.0).detach()
        if is_traced():
            close = size.reshape(elements, -1).amax(-1) < _CLOSE
        else:
            zero = torch.zeros(elements, dtype=size.dtype, device=size.device)
            close = zero.scatter_reduce(0, panels.element, size, "amax") < _CLOSE
        close = close if problem.may_be_close is None else close & problem.may_be_close
        if problem.group > 1:
            group = close.reshape(-1, problem.group)
            close = group.all(-1, keepdim=True).expand_as(group).reshape(-1)
    here = close[panels.element].unsqueeze(-1)
    sample = _limited(sample, here)
    terms = problem.integrand.value(sample, here)
    value = (terms * rule.weights).sum(-1) * width
    other_terms = problem.integrand.differentiated(sample, moving_ends=densities.moving_ends())
    if other_terms is not None:
        other = (other_terms * rule.weights).sum(-1) * width
        value = value.detach() + (other - other.detach())
    with torch.no_grad():
        error = _disagreement(terms.detach(), rule, width, lattice=lattice)
        if not lattice:
            error = error + _missed_at_edges(problem.integrand, densities, (left, right), terms.detach(), here)
        noise = (sample.log_p.abs() + sample.log_q.abs()).nan_to_num(0.0).clamp_max(HUGE) * problem.integrand.slope(
            sample, here
        )
        noise = torch.where(weight > 0, weight * noise, 0.0) + terms.abs()
        floor = 4 * torch.finfo(value.dtype).eps * (noise * rule.weights).sum(-1) * width
    return _Looked(panels.element, value, error, floor.nan_to_num(0.0), close)


def _limited(sample: Sample, close: Tensor) -> Sample:
    """In a close element log q/p is large only where neither has mass; its exponential must not overflow there."""
    limited = torch.where(close, sample.log_ratio.clamp_max(_CLOSE_OUTSIDE), sample.log_ratio)
    return sample._replace(log_ratio=limited)


def _disagreement(terms: Tensor, rule: Rule, width: Tensor, *, lattice: bool) -> Tensor:
    """The error of a rule, from what two null rules see."""
    size = (terms.abs() * rule.weights).sum(-1) * width
    seen = torch.hypot((terms * rule.odd).sum(-1), (terms * rule.even).sum(-1)) * width
    error = size * (_SAFETY * seen / size.clamp_min(1e-300)).clamp_max(1.0) ** 1.5
    return torch.where(width <= NUM_NODES, 0.0, error) if lattice else error


def _missed_at_edges(
    integrand: Integrand, densities: Densities, edges: tuple[Tensor, Tensor], terms: Tensor, close: Tensor
) -> Tensor:
    """A kink between an edge and the first node is seen by no node: does their polynomial meet the edge?"""
    at_edges = integrand.value(_limited(densities.sample(torch.stack(edges, -1)), close), close)
    missed = at_edges - terms @ EDGE_WEIGHTS.to(terms).T
    return _BLIND * (edges[1] - edges[0]) * missed.nan_to_num(0.0, 0.0, 0.0).abs().sum(-1)


def _refined(problem: Problem, edges: Tensor, panels: _Panels, first: _Looked) -> tuple[Tensor, Tensor]:
    """Panels whose error is too large are halved until it is not; derivatives go through the panels that stay."""
    elements = edges.shape[0]
    bad = _too_large(first, first.value.detach(), torch.zeros_like(edges[:, 0]))
    if not bool(bad.any()):
        return first.summed(elements)
    good = first.kept(~bad)
    value, error = good.summed(elements)
    settled: list[_Panels] = []
    with torch.no_grad():
        known, left, rounds = value.detach(), panels.kept(bad).halved(), 1
        while True:
            looked = _looked_at(problem.mapped(torch.Tensor.detach), edges.detach(), left, first.close)
            bad = _too_large(looked, looked.value, known)
            if rounds >= _MAX_ROUNDS or len(left.slot) > _MAX_PANELS * elements:
                bad = torch.zeros_like(bad)
            more = looked.kept(~bad).summed(elements)
            known, error = known + more[0], error + more[1]
            settled.append(left.kept(~bad))
            if not bool(bad.any()):
                break
            left, rounds = left.kept(bad).halved(), rounds + 1
    if not torch.is_grad_enabled() or not value.requires_grad:
        return known, error
    last = _Panels(*(torch.cat(column) for column in zip(*settled, strict=True)))
    again = _looked_at(problem, edges, last, first.close)
    return value + _sum_by(again.element, again.value, elements), error


def _too_large(looked: _Looked, values: Tensor, known: Tensor) -> Tensor:
    total = known.index_add(0, looked.element, values).abs()
    return looked.error > _TOLERANCE * total[looked.element] + looked.floor
