"""Where two densities are equal: the kinks of |p − q|, in the coordinate of an integral over p.

Sign changes of the log-ratio between neighbouring points are narrowed down; what is left of a kink within δ of a
panel's edge costs δ² of the integral. What is missed here is found as a panel that does not hold its integral. A
crossing moves with the parameters, which second derivatives need.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.integrate import graded_panels
from kullback.pairs.densities.expectation import Pieces, evaluate
from kullback.pairs.densities.log_ratio import ratio_of
from kullback.pairs.densities.meeting import log_weight
from kullback.pairs.densities.placing import span, with_kinks
from kullback.pairs.visible import hidden

# As many crossings as are looked for where they cannot be counted, and at most.
_SOME, _MOST = 4, 24
_POINTS, _PARTS, _ROUNDS = 128, 48, 2


def crossings(pieces: Pieces) -> Tensor | None:
    """Coordinates at which the log-ratio changes its sign, in the last dimension; -inf where there are fewer."""
    with torch.no_grad():
        wide, _ = span(pieces, log_weight, follow_q=True)
        y = with_kinks(pieces, graded_panels(wide, _POINTS), None)
        r = _ratio_at(pieces, y)
        change = (r[..., 1:] * r[..., :-1].sign() < 0) & (y[..., 1:] > y[..., :-1])
        count = _SOME if hidden() else min(int(change.sum(-1).max()) if change.numel() else 0, _MOST)
        if count == 0:
            return None
        index = torch.arange(change.shape[-1], device=y.device)
        where = torch.where(change, index, change.shape[-1]).sort(dim=-1).values[..., :count]
        real, where = where < change.shape[-1], where.clamp_max(change.shape[-1] - 1)
        y = y.expand(r.shape)
        low, high = y.gather(-1, where), y.gather(-1, where + 1)
        for _ in range(_ROUNDS):
            low, high = _narrowed(pieces, low, high)
        ends = torch.stack([low, high], dim=-1)
        r_low, r_high = _ratio_at(pieces, ends.flatten(-2)).reshape(ends.shape).unbind(-1)
        slope = (r_high - r_low) / torch.where(high > low, high - low, 1.0)
        step = torch.where((slope == 0) | (high <= low), 0.0, -r_low / torch.where(slope == 0, 1.0, slope))
        at = torch.where(real, torch.minimum(torch.maximum(low + step, low), high), -math.inf)
    if not torch.is_grad_enabled() or pieces.frozen:
        return at
    return _moving(pieces, at, torch.where(real & (slope.abs() < _STEEP), slope, 0.0))


def _narrowed(pieces: Pieces, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The first of the parts in which the sign changes."""
    share = torch.linspace(0, 1, _PARTS + 1, dtype=low.dtype, device=low.device)
    y = low.unsqueeze(-1) + (high - low).unsqueeze(-1) * share
    r = _ratio_at(pieces, y.flatten(-2)).reshape(y.shape)
    part = (r[..., 1:].sign() != r[..., :1].sign()).to(torch.int8).argmax(-1, keepdim=True)
    return y.gather(-1, part).squeeze(-1), y.gather(-1, part + 1).squeeze(-1)


def _ratio_at(pieces: Pieces, y: Tensor) -> Tensor:
    return ratio_of(evaluate(pieces, y, torch.zeros_like(y)))


def _moving(pieces: Pieces, at: Tensor, slope: Tensor) -> Tensor:
    """The same places with the derivative that keeps the log-ratio at 0."""
    some = slope != 0
    r = _ratio_at(pieces, torch.where(some, at, 0.0))
    return at - torch.where(some, (r - r.detach()) / torch.where(some, slope, 1.0), 0.0)


# A log-ratio that jumps at the end of a support has no slope.
_STEEP = 1e50
