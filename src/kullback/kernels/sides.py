"""One side of a divergence inside a block: whatever the user holds, read as log-weights that need not be normalised."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.double_log import log_error
from kullback._core.special._double_double import two_difference, two_product, two_sum


class Encoding(NamedTuple):
    """What the numbers of a tensor are.

    Attributes:
        linear: Weights themselves (probabilities, counts) rather than their logarithms.
        smoothing: Added to every weight before it is read; linear only.
        scale: Multiplies every log-weight, one over a temperature; logarithms only.
    """

    linear: bool = False
    smoothing: float = 0.0
    scale: float = 1.0


class Side(NamedTuple):
    """Log-weights of the rows of a block, classes last.

    Attributes:
        log: Log-weights, rounded; -inf outside the support.
        support: Where `log` is above -inf; None where that is known to be everywhere.
        low: What rounding took from `log`, meaningless outside the support; None where nothing is missing.
        weight: The weights, for a linear encoding: a derivative with respect to a weight exists where its log does not.
        compensated: Whether differences must be kept exactly, because the working precision is that of the input.
        visible: Whether values may decide what is computed: not inside a transform, not on an accelerator.
    """

    log: Tensor
    support: Tensor | None
    low: Tensor | None
    weight: Tensor | None
    compensated: bool
    visible: bool

    def difference(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor | None]:
        """`x - y` and what rounding took from it, where that matters; the second part is without history."""
        if not self.compensated:
            return x - y, None
        high, low = two_difference(x, y)
        return high, low.detach()


def read_side(tensor: Tensor, encoding: Encoding, compensated: bool, visible: bool) -> Side:
    """Read a block of a tensor (in the working dtype) as log-weights.

    The low part is a correction of rounding: it is detached, so derivatives are those of the logarithm itself.
    """
    if not encoding.linear:
        support, low = _support(tensor != -torch.inf, visible), None
        if encoding.scale != 1.0:
            scaled = tensor * encoding.scale
            if compensated:
                # tensor * scale as a pair, with a scale that the working dtype may not hold either.
                finite = where(support, tensor, 0.0).detach()
                scale = torch.full_like(finite, encoding.scale)
                low = two_product(finite, scale)[1] + finite * (encoding.scale - float(scale.flatten()[0]))
            tensor = scaled
        return Side(tensor, support, low, None, compensated, visible)
    weight, missing = tensor, None
    if encoding.smoothing != 0.0:
        weight, missing = two_sum(tensor, torch.full_like(tensor, encoding.smoothing))
    support = _support(weight != 0.0, visible)
    safe = where(support, weight, 1.0)
    log = torch.log(safe)
    low = None
    if compensated and tensor.dtype == torch.float64:
        low = log_error(safe.detach(), log.detach())
        if missing is not None:
            low = low + missing.detach() / safe.detach()
    return Side(where(support, log, -torch.inf), support, low, weight, compensated, visible)


def where(mask: Tensor | None, x: Tensor, other: Tensor | float) -> Tensor:
    """`torch.where`; no mask means everywhere."""
    return x if mask is None else torch.where(mask, x, other)


def both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """The intersection of two supports; None means everywhere."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _support(mask: Tensor, visible: bool) -> Tensor | None:
    return None if visible and bool(mask.all()) else mask
