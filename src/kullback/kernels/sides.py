"""One side of a divergence inside a block: whatever the user holds, read as log-weights that need not be normalised."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.double_double import log_error, two_sum


class Encoding(NamedTuple):
    """What the numbers of a tensor are.

    Attributes:
        linear: Weights themselves (probabilities, counts) rather than their logarithms.
        smoothing: Added to every weight before it is read; linear only.
    """

    linear: bool = False
    smoothing: float = 0.0


class Side(NamedTuple):
    """Log-weights of the rows of a block, classes last.

    Attributes:
        log: Log-weights, rounded; -inf outside the support.
        low: What rounding took from `log`, zero outside the support; None where the working precision is ample.
        weight: The weights, for a linear encoding: a derivative with respect to a weight exists where its log does not.
    """

    log: Tensor
    low: Tensor | None = None
    weight: Tensor | None = None


def read_side(tensor: Tensor, encoding: Encoding, compensated: bool) -> Side:
    """Read a block of a tensor (in the working dtype) as log-weights.

    The low part is a correction of rounding: it is detached, so derivatives are those of the logarithm itself.
    """
    if not encoding.linear:
        return Side(tensor)
    if encoding.smoothing == 0.0:
        weight, missing = tensor, None
    else:
        weight, missing = two_sum(tensor, torch.full_like(tensor, encoding.smoothing))
        missing = missing.detach()
    positive = weight != 0.0
    safe = torch.where(positive, weight, 1.0)
    log = torch.log(safe)
    low = None
    if compensated and tensor.dtype == torch.float64:
        low = log_error(safe.detach(), log.detach())
        if missing is not None:
            low = low + missing / safe.detach()
    return Side(torch.where(positive, log, -torch.inf), low, weight)
