"""What an expectation of −log q has beyond its last panels; `expectation` calls it.

Where p falls as e^(−k·L) and −log q grows as e^(m·L), m < k (`densities.tails` says what L is), the integrand falls as
e^(−(k − m)·L). Next to k = m that is too slow to be followed to the end: x overflows first. But far out it is that
exponential to all digits, and its integral beyond a place is its value there, per unit of L, over k − m.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.densities.point import Point, stable_exp
from kullback.integrate.problem import Densities, Integrand
from kullback.kernels.levels import is_traced

# The remainder starts where −log q has grown by e^230 from the marks, or where x is about to overflow.
_LOG_GROWTH, _LARGEST_L = 230.0, 640.0


class _PowerTail(NamedTuple):
    """An end of the support where p falls as a power and −log q grows as one.

    Attributes:
        origin: Where L is counted from: 0 for an infinite end, else the end itself.
        side: The sign of x − origin.
        sign: L is this times log|x − origin|.
        used: For which elements this is so.
        growth: m.
        gap: k − m.
    """

    origin: float
    side: float
    sign: float
    used: Tensor
    growth: Tensor
    gap: Tensor


def _power_tail(densities: Densities, upper: int, like: Tensor) -> _PowerTail | None:
    """That at the lower or the upper end, None where it is no power or p ends before."""
    over, q = densities.over, densities.q
    if over.tails is None or q.tails is None or over.lattice:
        return None
    tails = over.tails[upper], q.tails[upper]
    if all(isinstance(t.order, float) for t in tails) and [t.order for t in tails] != [1.0, 3.0]:
        return None
    end = (over.low, over.high)[upper]
    at = [torch.as_tensor(e, dtype=like.dtype, device=like.device) for e in (end, (q.low, q.high)[upper])]
    order, growth_order, k, m = (
        torch.as_tensor(t, dtype=like.dtype, device=like.device)
        for t in (tails[0].order, tails[1].order, tails[0].exponent, tails[1].exponent)
    )
    used = (at[0] == at[1]) & (order == 1) & (growth_order == 3) & (k > m)
    if isinstance(end, float) and math.isfinite(end):
        return _PowerTail(end, -1.0 if upper else 1.0, -1.0, used, m, k - m)
    return _PowerTail(0.0, 1.0 if upper else -1.0, 1.0, used & at[0].isinf(), m, k - m)


def find_limits(densities: Densities, like: Tensor) -> Tensor | None:
    """The coordinates of both ends from which on the integrand is an exponential, ±inf for elements where it is not."""
    tails = [_power_tail(densities, upper, like) for upper in (0, 1)]
    if all(tail is None or not (is_traced() or bool(tail.used.any())) for tail in tails):
        return None
    limits = [torch.full_like(like, -math.inf), torch.full_like(like, math.inf)]
    for tail in tails:
        if tail is None:
            continue
        logs = [mark.log_distance(tail.origin) for density in (densities.over, densities.q) for mark in density.marks]
        lengths = torch.cat([(tail.sign * log).expand(len(like), 3) for log in logs], -1)
        start = lengths.amax(-1, keepdim=True)
        length = (start + _LOG_GROWTH / torch.where(tail.used, tail.growth, 1.0)).clamp_max(_LARGEST_L)
        log_distance = tail.sign * length
        known = ((tail.origin, log_distance),)
        x = Point(tail.origin, torch.zeros_like(length), tail.side * stable_exp(log_distance), log_distance, known)
        v = densities.over.coordinate.coordinate(x)
        found = tail.used & (start < _LARGEST_L / 2)
        # A map may have turned the line: the coordinate then falls as x rises.
        limits[0] = torch.where(found & (v < like), v, limits[0])
        limits[1] = torch.where(found & (v >= like), v, limits[1])
    return torch.cat(limits, -1)


def remainder(
    densities: Densities, integrand: Integrand, edges: Tensor, limits: Tensor, close: Tensor
) -> tuple[Tensor, Tensor]:
    """The integral beyond the first and the last edge, where they are limits, and an estimate of its error."""
    coordinate = densities.over.coordinate
    total, error = torch.zeros_like(edges[:, 0]), torch.zeros_like(limits[:, 0])
    first, middle, last = (edges[:, i, None] for i in (0, edges.shape[1] // 2, -1))
    turned = coordinate.point(first.detach()).value() > coordinate.point(last.detach()).value()
    for upper in (0, 1):
        at_last = turned != bool(upper)
        edge, limit = torch.where(at_last, last, first), torch.where(at_last, limits[:, 1:], limits[:, :1])
        tail = _power_tail(densities, upper, edge)
        if tail is None:
            continue
        used = tail.used & (edge.detach() == limit)
        v = torch.where(used, edge, middle.detach())
        sample, gap = densities.sample(v), torch.where(used, tail.gap, 1.0)
        log_speed = coordinate.log_slope(v) - coordinate.point(v).log_distance(tail.origin)
        value = integrand.value(sample, close.unsqueeze(-1)) * torch.exp(-log_speed) / gap
        value = torch.where(used, value, 0.0)
        rounding = 4 * torch.finfo(v.dtype).eps * (sample.log_p.abs() + tail.growth / gap + 1)
        total = total + value.squeeze(-1)
        error = error + (rounding * value).detach().squeeze(-1)
    return total, error
