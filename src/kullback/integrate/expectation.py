"""The engine: an expectation under one density of a function of the log-densities of two, with its error.

`divergences` calls `expectation`. A fixed layout of panels comes first; eagerly, panels whose rules disagree are then
halved until they agree. Nothing here knows a divergence.
"""

from __future__ import annotations

import math
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from kullback._core.errors import InputValueError, explain_problem
from kullback.densities.point import HUGE, Point, at
from kullback.integrate.crossings import find_crossings
from kullback.integrate.panels import Marks, find_range, locate, place_edges
from kullback.integrate.peaks import Peaks, edges_of, find_peaks
from kullback.integrate.problem import Densities, Integrand, Problem, Sample
from kullback.integrate.remainder import find_limits, remainder
from kullback.integrate.rules import EDGE_WEIGHTS, NUM_NODES, Rule, lattice_rule, legendre
from kullback.kernels.levels import is_traced, transform_active

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
_CLOSE, _CLOSE_OUTSIDE, _NEGLIGIBLE_MASS = 0.5, 10.0, math.log(1e-14)
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

    def ends(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Both ends of each panel, (panels, 1), which move with the edges of the layout."""
        left, width = edges[self.element, self.slot], edges.diff(dim=-1)[self.element, self.slot]
        return (left + self.start * width).unsqueeze(-1), (left + self.stop * width).unsqueeze(-1)


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
    """Whether somebody may want derivatives; transforms do not say whether they do."""
    if transform_active() or not torch.is_grad_enabled():
        return transform_active()
    # A user's class holds its parameters itself.
    searched = any(reading.searched for reading in (problem.over, problem.p, problem.q))
    return searched or any(t.requires_grad for t in problem.parameters())


def _of_parameters(problem: Problem, *parameters: Tensor) -> Expectation:
    del parameters
    return _expectation(problem)


def _expectation(problem: Problem) -> Expectation:
    """The value from constant parameters, and the derivatives of the same sum over the same panels."""
    attached = _is_attached(problem)
    still = problem.mapped(torch.Tensor.detach) if attached else problem
    integrand = problem.integrand
    peaks: Peaks | None = None
    with torch.no_grad():
        fixed = still.densities()
        marks = _located(fixed, problem)
        if problem.scaled:
            peaks = _find_peaks(fixed, marks, integrand)
            log_scale = peaks.height.amax(-1)
            problem, still = problem._replace(log_scale=log_scale), still._replace(log_scale=log_scale)
            fixed = fixed._replace(log_scale=log_scale.unsqueeze(-1))
            marks = _with_peaks(marks, peaks)
        limits = find_limits(fixed, marks.own[:, :1]) if integrand.grows_as_log_q else None
        reach = find_range(fixed.over, marks, lambda v: _log_size(fixed, integrand, v), limits)
    moving = fixed
    if attached:
        moving = problem.densities()
        marks = _with_peaks(_located(moving, problem), peaks)
    num_integers = max(density.num_integers for density in moving[:3])
    edges = place_edges(moving.over, marks, reach, num_integers=num_integers)
    # Where panels cannot be refined, an integrand that turns at p = q needs edges there, too.
    if (problem.crosses or (problem.ends and is_traced())) and not moving.integers_only():
        crossings = find_crossings(
            edges.detach(),
            lambda v: fixed.sample(v).log_ratio,
            lambda v: moving.sample(v).log_ratio,
            rings=is_traced(),
        )
        edges = place_edges(moving.over, marks, reach, crossings, num_integers)
    with torch.no_grad():
        value, error, close, panels = (_fixed_layout if is_traced() else _adapted)(still, fixed, edges.detach())
    if attached:
        left, right = (edges[:, :-1], edges[:, 1:]) if panels is None else panels.ends(edges)
        chosen, here = moving, close
        if panels is not None:
            chosen, here = problem.mapped(lambda t: t[panels.element]).densities(), close[panels.element]
        nodes = _look(chosen, left, right)
        moved = _sum_by(panels, _derived(problem, chosen, nodes, here), len(edges))
        value = value + (moved - moved.detach())
    if limits is not None:
        rest = remainder(moving, integrand, edges, limits, close)
        value, error = value + rest[0], error + rest[1]
    log_scale = torch.zeros_like(error) if problem.log_scale is None else problem.log_scale
    return Expectation(value, error + reach.beyond, log_scale)


def _located(densities: Densities, problem: Problem) -> Marks:
    return locate(densities.over, densities.others(), _ends(densities) if problem.ends else ())


def _find_peaks(fixed: Densities, marks: Marks, integrand: Integrand) -> Peaks:
    """The largest values of an integrand that is known by its logarithm."""

    def log_size(v: Tensor) -> Tensor:
        return integrand.log_size(fixed.sample(v))

    peaks = find_peaks(edges_of(fixed, marks, log_size), log_size, lattice=fixed.over.lattice)
    return peaks._replace(height=peaks.height.nan_to_num(0.0, 0.0, 0.0))


def _with_peaks(marks: Marks, peaks: Peaks | None) -> Marks:
    if peaks is None:
        return marks
    other, width = torch.cat([marks.other, peaks.place], -1), torch.cat([marks.other_width, peaks.width], -1)
    return marks._replace(other=other, other_width=width, other_reach=torch.cat([marks.other_reach, peaks.reach], -1))


def _log_size(densities: Densities, integrand: Integrand, v: Tensor) -> tuple[Tensor, Tensor]:
    """How large the integrand is, and where nobody can see it because x or a log-density overflows."""
    sample = densities.sample(v)
    size = integrand.log_size(sample).nan_to_num(-math.inf)
    if densities.over.lattice:
        return size, torch.zeros_like(size, dtype=torch.bool)
    return size, (sample.log_ratio < -1e290) | sample.log_p.isnan() | sample.log_q.isnan()


def _ends(densities: Densities) -> tuple[Point, ...]:
    """The finite ends of the supports of the others, unless they are those of the first by name."""
    over = densities.over
    like = over.log_prob(over.marks[0])[..., 1:2]
    found = []
    for density in densities.others():
        for end, own in ((density.low, over.low), (density.high, over.high)):
            if isinstance(end, float) and (math.isinf(end) or (isinstance(own, float) and end == own)):
                continue
            place = torch.as_tensor(end, dtype=like.dtype, device=like.device).expand_as(like)
            found.append(at(torch.where(place.isfinite(), place, HUGE)))
    return tuple(found)


class _Nodes(NamedTuple):
    """What is known at the nodes of panels, and maybe at both edges after them; the sample is (rows, panels·nodes)."""

    sample: Sample
    rule: Rule
    width: Tensor
    lost: Tensor | None

    def by_panel(self, t: Tensor) -> Tensor:
        return t.reshape(*self.width.shape, t.shape[-1] // self.width.shape[-1])

    def summed(self, t: Tensor, weights: Tensor) -> Tensor:
        return (self.by_panel(t)[..., :NUM_NODES] * weights).sum(-1) * self.width


def _look(densities: Densities, left: Tensor, right: Tensor, *, edges: bool = False) -> _Nodes:
    """The nodes of panels (rows, panels), and with `edges` both ends of them."""
    lattice = densities.over.lattice
    if lattice:
        left, right = left.round(), right.round()
    width = right - left
    rule = lattice_rule(width) if lattice else legendre(width)
    # Nodes of an empty panel stand beside its edge, where a log-density may have no derivative.
    v = left.unsqueeze(-1) + torch.where(width > 0, width, 1.0).unsqueeze(-1) * rule.nodes
    v = torch.cat([v, left.unsqueeze(-1), right.unsqueeze(-1)], -1) if edges else v
    v = v.flatten(1)
    return _Nodes(densities.sample(v), rule, width, densities.lost(v) if edges else None)


def _sum_by(panels: _Panels | None, values: Tensor, elements: int) -> Tensor:
    if panels is None:  # all panels of all elements, in order
        return values.sum(-1)
    zero = torch.zeros(elements, dtype=values.dtype, device=values.device)
    return zero.index_add(0, panels.element, values.squeeze(-1))


def _ratio_size(nodes: _Nodes) -> Tensor:
    """How large the log-ratio is where p has mass, one number for each row."""
    sample, width = nodes.sample, nodes.width.unsqueeze(-1)
    ratio, log_weight = (nodes.by_panel(t)[..., :NUM_NODES] for t in (sample.log_ratio, sample.log_weight))
    log_width = torch.log(width.clamp_min(1e-300))
    outside = torch.where(log_weight + ratio + log_width < _NO_MASS, 0.0, ratio * (_CLOSE / _CLOSE_OUTSIDE))
    size = torch.where(log_weight + log_width < _NEGLIGIBLE_MASS, outside, ratio.abs())
    return torch.where((width > 0) & (size > 0), size, 0.0).flatten(1).amax(-1)


def _is_close(problem: Problem, size: Tensor) -> Tensor:
    """Which elements have a small log-ratio at all nodes."""
    close = size < _CLOSE
    close = close if problem.may_be_close is None else close & problem.may_be_close
    if problem.group == 1:
        return close
    group = close.reshape(-1, problem.group)
    return group.all(-1, keepdim=True).expand_as(group).reshape(-1)


def _limited(sample: Sample, close: Tensor) -> Sample:
    """In a close element log q/p is large only where neither has mass; its exponential must not overflow there."""
    limited = torch.where(close, sample.log_ratio.clamp_max(_CLOSE_OUTSIDE), sample.log_ratio)
    return sample._replace(log_ratio=limited)


def _integrated(problem: Problem, nodes: _Nodes, close: Tensor, *, lattice: bool) -> tuple[Tensor, ...]:
    """Values of panels, their errors by what null rules see, by rounding, and by what it loses at the ends."""
    close, rule, width = close.unsqueeze(-1), nodes.rule, nodes.width
    sample = _limited(nodes.sample, close)
    terms = problem.integrand.value(sample, close)
    value, size = nodes.summed(terms, rule.weights), nodes.summed(terms.abs(), rule.weights)
    seen = torch.hypot(nodes.summed(terms, rule.odd), nodes.summed(terms, rule.even))
    error = size * (_SAFETY * seen / size.clamp_min(1e-300)).clamp_max(1.0) ** 1.5
    if lattice:
        error = torch.where(width <= NUM_NODES, 0.0, error)
    else:  # a kink between an edge and the first node is seen by no node: does their polynomial meet the edge?
        by_panel = nodes.by_panel(terms)
        missed = by_panel[..., NUM_NODES:] - by_panel[..., :NUM_NODES] @ EDGE_WEIGHTS.to(terms).T
        error = error + _BLIND * width * missed.nan_to_num(0.0, 0.0, 0.0).abs().sum(-1)
    weight = torch.exp(sample.log_weight.clamp_max(_LARGEST_EXPONENT))
    noise = (sample.log_p.abs() + sample.log_q.abs()).nan_to_num(0.0).clamp_max(HUGE)
    noise = torch.where(weight > 0, weight * noise * problem.integrand.slope(sample, close), 0.0) + terms.abs()
    floor = 4 * torch.finfo(value.dtype).eps * nodes.summed(noise, rule.weights)
    lost = torch.zeros_like(floor) if nodes.lost is None else nodes.summed(nodes.lost * terms.abs(), rule.weights)
    return value, error, floor.nan_to_num(0.0), lost.nan_to_num(0.0)


def _derived(problem: Problem, densities: Densities, nodes: _Nodes, close: Tensor) -> Tensor:
    """Values of panels that derivatives are taken of."""
    sample = _limited(nodes.sample, close.unsqueeze(-1))
    terms = problem.integrand.differentiated(sample, moving_ends=densities.moving_ends())
    terms = problem.integrand.value(sample, close.unsqueeze(-1)) if terms is None else terms
    return nodes.summed(terms, nodes.rule.weights)


_Found = tuple[Tensor, Tensor, Tensor, "_Panels | None"]


def _fixed_layout(problem: Problem, densities: Densities, edges: Tensor) -> _Found:
    """Value, error and which elements are close, where values cannot be looked at: all panels of the layout."""
    nodes = _look(densities, edges[:, :-1], edges[:, 1:], edges=not densities.over.lattice)
    close = _is_close(problem, _ratio_size(nodes))
    value, error, floor, lost = _integrated(problem, nodes, close, lattice=densities.over.lattice)
    return value.sum(-1), (error + floor + lost).sum(-1), close, None


def _adapted(problem: Problem, densities: Densities, edges: Tensor) -> _Found:
    """The same and the panels, which are halved while their error is too large."""
    lattice, integers_only = densities.over.lattice, densities.integers_only()
    elements, device = len(edges), edges.device
    element, slot = torch.nonzero(edges[:, 1:] > edges[:, :-1], as_tuple=True)
    start = torch.zeros(len(slot), dtype=edges.dtype, device=device)
    panels, close = _Panels(element, slot, start, start + 1), None
    value = error = torch.zeros(elements, dtype=edges.dtype, device=device)
    settled: list[_Panels] = []
    most = _MAX_INTEGERS // NUM_NODES if integers_only else _MAX_PANELS * elements
    for step in range(_MAX_ROUNDS):
        nodes = _look(problem.mapped(lambda t: t[panels.element]).densities(), *panels.ends(edges), edges=not lattice)  # noqa: B023
        if close is None:
            zero = torch.zeros_like(value)
            close = _is_close(problem, zero.scatter_reduce(0, panels.element, _ratio_size(nodes), "amax"))
        here, estimate, floor, lost = (
            t.squeeze(-1) for t in _integrated(problem, nodes, close[panels.element], lattice=lattice)
        )
        total = value.index_add(0, panels.element, here).abs()
        bad = estimate > _TOLERANCE * total[panels.element] + floor
        bad = nodes.width.squeeze(-1) > NUM_NODES if integers_only else bad
        if step == _MAX_ROUNDS - 1 or len(panels.slot) > most:
            if integers_only:
                _refuse_integers()
            bad = torch.zeros_like(bad)
        good = panels.kept(~bad)
        # One by one, millions of small panels would be lost beside what is settled already.
        value = value + torch.zeros_like(value).index_add(0, good.element, here[~bad])
        error = error.index_add(0, good.element, (estimate + floor + lost)[~bad])
        settled.append(good)
        if not bool(bad.any()):
            break
        panels = panels.kept(bad).halved()
    assert close is not None
    return value, error, close, _Panels(*(torch.cat(column) for column in zip(*settled, strict=True)))


def _refuse_integers() -> NoReturn:
    raise InputValueError(
        explain_problem(
            "A mass function that is only known at integers has too many of them.",
            got=f"more than {_MAX_INTEGERS:,} integers with mass",
            expected="fewer, since they are summed one by one",
            instead="register_density with a description that can be asked between the integers, too",
        )
    )
