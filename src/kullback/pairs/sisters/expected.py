"""Expectations under p and q of functions of log p − log q, by recorded programs.

What an integral by torch's operations takes some hundred operations for is here one call of the native library for each
of the two laws. Elements whose programs do not hold, or whose errors are not small enough, are somebody else's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.shapes import joint_shape
from kullback.pairs.densities.log_ratio import closable
from kullback.pairs.densities.parameter_table import Again, Attached, Filled, is_followed
from kullback.pairs.densities.programs import Integrand, Setting, is_lost, programs_for
from kullback.pairs.portions import Cut

# The largest error, in parts of the value, that is small enough.
_SURE = 1e-10


class Asked(NamedTuple):
    """An integral over one law.

    Attributes:
        integrand: What is integrated; equal ones are recorded once.
        log_size: How large that may be.
        setting: How the laws meet.
        again: The same by torch's operations, for derivatives of derivatives.
        follow_q: Whether the integrand is of the size of the other law, too.
    """

    integrand: Integrand
    log_size: Integrand
    setting: Setting
    again: Again
    follow_q: bool = True


class Known(NamedTuple):
    """What programs know, one number per element.

    Attributes:
        value: The sum of all integrals.
        lost: Where there is none.
        extreme: Where none was asked for: see `Setting`.
    """

    value: Tensor
    lost: Tensor
    extreme: Tensor


class _Part(NamedTuple):
    """One of the integrals, with derivatives by the inputs of its programs, if any are asked for."""

    value: Tensor
    size: Tensor
    error: Tensor
    lost: Tensor
    extreme: Tensor
    slopes: Tensor | None
    filled: Filled

    def replaced(self, other: _Part, where: Tensor) -> _Part:
        """The part with the other at some elements."""
        slopes = self.slopes
        if slopes is not None and other.slopes is not None:
            slopes = torch.where(_columns(where, self.filled), other.slopes, slopes)
        value, size, error, lost = (torch.where(where, b, a) for a, b in zip(self[:4], other[:4], strict=True))
        return _Part(value, size, error, lost, self.extreme, slopes, self.filled)


def expected(p: Distribution, q: Distribution, over_p: Asked, over_q: Asked | None, close: float) -> Known | None:
    """An integral over p, or the sum of that and one over q; None where there are no programs.

    Args:
        p: The first law.
        q: The second.
        over_p: What is integrated over p.
        over_q: What is integrated over q.
        close: Below this value log-ratios need all their digits.
    """
    asked = [(p, q, over_p), *([] if over_q is None else [(q, p, over_q)])]
    if 0 in joint_shape(p.batch_shape, q.batch_shape):
        return None
    followed = is_followed(p, q)
    parts = list[_Part | None]()
    for one in asked:
        # Where the first need not be asked, nor need the second.
        only = ~parts[0].extreme if parts and parts[0] is not None else None
        parts.append(_integrated(*one, closely=False, followed=followed, only=only))
    whole = _sum_of(parts)
    if whole is None:
        return None
    near = ~whole.lost & ~whole.extreme & (whole.value < close)
    if closable(p, q) and bool(near.any()):
        finer = [_integrated(*one, closely=True, followed=followed, only=near) for one in asked]
        if any(part is None for part in finer):
            whole = whole._replace(lost=whole.lost | near)
        else:
            pairs = zip(parts, finer, strict=True)
            parts = [a if a is None or b is None else a.replaced(b, near) for a, b in pairs]
            whole = _sum_of(parts) or whole
    if not followed:
        return whole
    value = torch.zeros_like(whole.value)
    for (own, other, question), part in zip(asked, parts, strict=True):
        assert part is not None
        assert part.slopes is not None
        slopes = torch.where(_columns(whole.lost | whole.extreme, part.filled), 0.0, part.slopes)
        value = value + Attached(part.filled, slopes, (own, other), question.again).to(part.value)
    return whole._replace(value=value)


def _sum_of(parts: list[_Part | None]) -> Known | None:
    if any(part is None for part in parts):
        return None
    first, *others = (part for part in parts if part is not None)
    value, size, error, lost, extreme = first[:5]
    for part in others:
        value, size, error = value + part.value, size + part.size, error + part.error
        lost, extreme = lost | part.lost, extreme | part.extreme
    return Known(value, lost | ~(extreme | (error <= _SURE * size)), extreme)


def _integrated(
    p: Distribution, q: Distribution, asked: Asked, *, closely: bool, followed: bool, only: Tensor | None
) -> _Part | None:
    """The integral over p of all elements, or only of some; None where there are no programs."""
    programs = programs_for(
        *(p, q, asked.integrand, asked.log_size),
        follow_q=asked.follow_q,
        closely=closely,
        followed=followed,
        setting=asked.setting,
    )
    layout = None if programs is None else programs.layout(p, q, joint_shape(p.batch_shape, q.batch_shape))
    if programs is None or layout is None:
        return None
    extreme = layout.infinite != 0
    lost = torch.zeros_like(extreme) if layout.foreseen is None else ~layout.foreseen
    wanted = ~extreme & ~lost if only is None else ~extreme & ~lost & only
    filled = layout.filled
    with torch.no_grad():
        if bool(wanted.all()):
            found = programs.integral(layout, None)
            gone = is_lost(found)
            return _Part(*found[:3], gone, extreme, _kept(found.slopes, gone, filled), filled)
        zero = torch.zeros_like(layout.infinite)
        slopes = torch.zeros(len(filled.inputs), filled.table.shape[1], dtype=zero.dtype) if followed else None
        index = wanted.nonzero().squeeze(-1)
        if not len(index):
            return _Part(zero, zero, zero, lost, extreme, slopes, filled)
        found = programs.integral(layout, index)
        gone = is_lost(found)
        if slopes is not None and found.slopes is not None:
            slopes = slopes.index_copy(1, _columns(wanted, filled).nonzero().squeeze(-1), found.slopes)
        value, size, error = (zero.index_copy(0, index, part) for part in found[:3])
        lost = lost.index_copy(0, index, gone)
        return _Part(value, size, error, lost, extreme, _kept(slopes, lost, filled), filled)


def _kept(slopes: Tensor | None, lost: Tensor, filled: Filled) -> Tensor | None:
    return None if slopes is None else torch.where(_columns(lost, filled), 0.0, slopes)


def _columns(where: Tensor, filled: Filled) -> Tensor:
    """One truth value for each column of a table."""
    return where if filled.components == 1 else where.repeat_interleave(filled.components)


def completed(
    known: Known, formula: Callable[[Distribution, Distribution], Tensor], p: Distribution, q: Distribution
) -> Tensor:
    """The values in their shape, with those that programs do not know by a formula."""
    shape = joint_shape(p.batch_shape, q.batch_shape)
    if not bool(known.lost.any()):
        return known.value.reshape(shape)
    of_p, of_q = Cut.of(p, shape), Cut.of(q, shape)
    if of_p is None or of_q is None or bool(known.lost.all()):
        return formula(p, q).expand(shape)
    index = known.lost.nonzero().squeeze(-1)
    rest = formula(of_p.chosen(index), of_q.chosen(index)).expand(len(index))
    return known.value.index_copy(0, index, rest).reshape(shape)
