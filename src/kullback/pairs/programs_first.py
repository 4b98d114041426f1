"""Pairs that have an integral of their own, asked of recorded programs first.

Such an integral keeps its digits where the general one cannot, next to equality or at extreme parameters, and takes a
hundred operations of torch. Elsewhere the general one knows that it is as good, and is a call of the native library;
only of its derivatives it does not know.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from kullback._core.shapes import joint_shape
from kullback.pairs import count_sums, univariate
from kullback.pairs.counting import WINDOW
from kullback.pairs.densities.count_mixture import countable
from kullback.pairs.densities.parameter_table import Again, is_followed
from kullback.pairs.portions import Cut
from kullback.pairs.visible import hidden

Answer = tuple[Tensor, Tensor]
Formula = Callable[[Any, Any], Answer]
# The largest relative error at which the general way is as good as any, and the largest distance at which it is
# trusted: scales that differ by more than 1e40 it does not resolve.
_SURE, _FAR = 1e-11, 40.0


def programs_first(formula: Formula, *, up_to: float = math.inf, slopes: bool = False) -> Formula:
    """The formula, asked only where derivatives are wanted and for the elements of which programs are not sure.

    Args:
        formula: Value and error.
        up_to: Of more elements the formula is asked at once.
        slopes: Whether programs are asked for derivatives, too: the formula's are no better than its values, which hold
            ten digits next to equality only.
    """

    @functools.wraps(formula)
    def answer(p: Distribution, q: Distribution) -> Answer:
        shape = joint_shape(p.batch_shape, q.batch_shape)
        found = None
        if not hidden() and shape.numel() <= up_to and (slopes or not is_followed(p, q)):
            found = _by_programs(p, q, (lambda p, q: formula(p, q)[0]) if slopes else None)
        if found is None:
            return formula(p, q)
        value, error, lost = found
        # Infinite are only laws of counts of which q lacks one, or densities by comparison of parameters.
        known = value.detach()
        unsure = lost | ~(error <= _SURE * known) | ((known > _FAR) & known.isfinite())
        if bool(unsure.any()):
            of_p, of_q = Cut.of(p, shape), Cut.of(q, shape)
            if bool(unsure.all()) or of_p is None or of_q is None:
                return formula(p, q)
            index = unsure.nonzero().squeeze(-1)
            pairs = zip((value, error), formula(of_p.chosen(index), of_q.chosen(index)), strict=True)
            value, error = (whole.index_copy(0, index, part.expand(len(index))) for whole, part in pairs)
        return value.reshape(shape), error.reshape(shape)

    return answer


def _by_programs(p: Distribution, q: Distribution, again: Again | None) -> tuple[Tensor, Tensor, Tensor] | None:
    return count_sums.by_programs(p, q, WINDOW, again) if countable(p) else univariate.by_programs(p, q, again)
