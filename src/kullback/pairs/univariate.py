"""KL(p ‖ q) of any two univariate continuous laws, by an integral over p.

    KL = ∫ p·r dx,    r = log p − log q,

in p's own coordinate, on panels graded towards wherever p or log q changes behaviour. Where that sum cancels, p and q
being close, ∫ p·φ(−r) dx with φ(x) = eˣ − 1 − x is the same number (both densities integrate to 1) by an integrand
that is nowhere negative and of second order; its panels follow the mass of q, too. Where the support of p is not inside
that of q, or the tails make the expectation diverge, the answer is infinite by comparison of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.integrate import Integral, Panels, graded_panels, integrate, ladder, place_nodes, worth_keeping
from kullback.pairs.densities import Law, describable, describe
from kullback.pairs.densities.chart import Mark
from kullback.pairs.densities.law import LogDensity
from kullback.pairs.densities.tails import Tail, diverges
from kullback.pairs.registry import Rule, answer_generally
from kullback.pairs.support import Bound
from kullback.pairs.visible import hidden, surely
from kullback.special import expm1mx

# Panels: first try, then as many as it takes where values can be seen; where they cannot, a number for all seasons.
_PANELS, _FIXED = (24, 64, 192), 80
_ENOUGH = 1e-12
# Below this share of ∫p|r| the sum has cancelled two digits.
_CANCELLED = 1e-2
# Logarithms of products are formed as sums above this, and results above e^700 are beyond the number range.
_LARGE, _BEYOND = 100.0, 700.0


class Sample(NamedTuple):
    """Both densities at the nodes of an integral over p.

    Attributes:
        log_weight: Logarithm of p·dx.
        log_p: Logarithm of p's density.
        log_q: That of q's, with the part that may exceed the number range.
    """

    log_weight: Tensor
    log_p: Tensor
    log_q: LogDensity


def kl_by_integral(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor]:
    """Value and error estimate."""
    law_p, law_q = describe(p, _for_nodes), describe(q, _for_nodes)
    infinite = is_infinite(law_p, law_q)
    plain = _refined(law_p, law_q, near=False)
    value, error = plain.value, plain.error
    shared = _same_support(law_p, law_q)
    near = shared & (value.detach() < _CANCELLED * plain.size)
    if not surely(~near):
        close = _refined(law_p, law_q, near=True)
        value, error = torch.where(near, close.value, value), torch.where(near, close.error, error)
    value = torch.where(value > math.exp(_BEYOND - 10), math.inf, value.clamp_min(0.0))
    infinite = value.isinf() | infinite
    return torch.where(infinite, math.inf, value), torch.where(infinite, 0.0, error)


def _for_nodes(tensor: Tensor) -> Tensor:
    return tensor.unsqueeze(-1)


def _refined(p: Law, q: Law, *, near: bool) -> Integral:
    """The integral with more panels until its error is small, where that can be seen."""
    rungs, first, last = _range(p, q, near=near)
    for count in (_FIXED,) if hidden() else _PANELS:
        nodes = place_nodes(_with_kinks(p, q, graded_panels(rungs, first, last, count)))
        sample = evaluate(p, q, nodes.at, nodes.log_weight)
        found = integrate(_second_order(sample) if near else _first_order(sample))
        if not hidden() and surely(found.error <= _ENOUGH * found.value.detach().abs()):
            break
    return found


def _range(p: Law, q: Law, *, near: bool) -> tuple[Panels, Tensor, Tensor]:
    """A ladder over all marks and the part of it that matters; found once, without derivatives."""
    with torch.no_grad():
        marks = [*p.marks, *p.bulk, *q.marks, *(q.bulk if near else ())]
        rungs = ladder(*_located(p, marks))
        sample = evaluate(p, q, rungs.at, torch.zeros_like(rungs.at))
        level, drop, log_drop = sample.log_q
        log_size = torch.log1p((sample.log_p - level).abs())
        if drop is not None and log_drop is not None:
            log_size = torch.maximum(log_size, torch.where(log_drop > 1, log_drop, torch.log1p(drop)))
        log_size = sample.log_weight + log_size
        if near:
            log_q = sample.log_weight - sample.log_p + sample.log_q.total()
            log_size = torch.maximum(log_size, log_q)
        return rungs, *worth_keeping(log_size)


def _located(p: Law, marks: Sequence[Mark]) -> tuple[Tensor, Tensor]:
    """Places and widths of marks in p's coordinate, stacked in the last dimension; detached."""
    found = [p.chart.locate(Mark(*(None if part is None else part.detach() for part in mark))) for mark in marks]
    parts = torch.broadcast_tensors(*(part for pair in found for part in pair))  # type: ignore[no-untyped-call]
    centres, widths = torch.cat(parts[::2], dim=-1), torch.cat(parts[1::2], dim=-1)
    return centres, widths.clamp_min(_NARROWEST)


def _with_kinks(p: Law, q: Law, edges: Tensor) -> Tensor:
    """Panel edges with the kinks among them; an edge at a kink moves with it, which second derivatives need."""
    kinks = [*p.kinks, *q.kinks]
    if not kinks:
        return edges
    low, high = edges[..., :1], edges[..., -1:]
    at = torch.broadcast_tensors(*(p.chart.coordinate(kink) for kink in kinks), low)[:-1]  # type: ignore[no-untyped-call]
    inside = torch.cat([torch.where((y > low) & (y < high), y, low) for y in at], dim=-1)
    return torch.cat([edges.expand(*inside.shape[:-1], -1), inside], dim=-1).sort(dim=-1).values


def evaluate(p: Law, q: Law, y: Tensor, log_weight: Tensor) -> Sample:
    """Both densities at nodes of p's coordinate."""
    point = p.chart.point(y)
    log_p = p.log_density(point).total()
    return Sample(log_p + point.log_jacobian + log_weight, log_p, q.log_density(point))


def _first_order(sample: Sample) -> Tensor:
    """p·r·dx; what q drops by is multiplied with p by logarithms where it is large."""
    log_weight, log_p, (level, drop, log_drop) = sample
    weight = torch.exp(log_weight)
    value = weight * (log_p - level)
    if drop is None or log_drop is None:
        return value
    large = log_drop > _LARGE
    by_log = torch.exp(torch.where(large, log_weight + log_drop, 0.0).clamp_max(_BEYOND))
    return value + torch.where(large, by_log, weight * torch.where(large, 0.0, drop))


def _second_order(sample: Sample) -> Tensor:
    """p·φ(−r)·dx; far from r = 0 its parts q and p·(r − 1)."""
    log_weight, log_p, log_q = sample
    r = log_p - log_q.total()
    small = r.abs() < 1
    weight = torch.exp(log_weight)
    close = weight * expm1mx(torch.where(small, -r, 0.0))
    apart = torch.exp((log_weight - torch.where(small, 0.0, r)).clamp_max(_BEYOND)) + weight * (r - 1)
    return torch.where(small, close, apart)


def is_infinite(p: Law, q: Law) -> Tensor | bool:
    """Where p's support is not inside q's, or the tails let the expectation diverge at an end they share."""
    outside = _below(p.lower, q.lower) | _below(q.upper, p.upper)
    found: Tensor | bool = outside
    ends = ((p.lower, q.lower, p.lower_tails, q.lower_tails), (p.upper, q.upper, p.upper_tails, q.upper_tails))
    for end_p, end_q, tails_p, tails_q in ends:
        found = found | (_equal(end_p, end_q) & _diverge(tails_p, tails_q))
    return found.squeeze(-1) if isinstance(found, Tensor) else found


def _diverge(p: Sequence[Tail], q: Sequence[Tail]) -> Tensor | bool:
    found: Tensor | bool = False
    for tail_p in p:
        for tail_q in q:
            found = found | diverges(tail_p, tail_q)
    return found


def _same_support(p: Law, q: Law) -> Tensor | bool:
    same = _equal(p.lower, q.lower) & _equal(p.upper, q.upper)
    return same.squeeze(-1) if isinstance(same, Tensor) else same


def _below(a: Bound, b: Bound) -> Tensor | bool:
    return a < b


def _equal(a: Bound, b: Bound) -> Tensor | bool:
    return a == b


_NARROWEST = 1e-280


def rule_for(p: Distribution, q: Distribution) -> Rule | None:
    """The rule for two univariate laws that have a description."""
    if not (describable(p) and describable(q)):
        return None
    return Rule(type(p), type(q), kl_by_integral, "integral", "∫ p·(log p − log q) on graded Gauss–Legendre panels")


answer_generally(rule_for)
