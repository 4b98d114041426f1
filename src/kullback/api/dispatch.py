"""What was handed over decides the room: views of tensors go to `tensors`, distributions to `pairs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch.distributions import Distribution

from kullback._core.reduction import check_base, check_mask, check_reduction, check_weight, reduce_rows
from kullback.kernels.row_op import RowOp
from kullback.tensors.frame import Options, divergence, shortcut


class Divergence(NamedTuple):
    """A divergence beside KL in both rooms.

    Attributes:
        name: The public function, for messages.
        of_views: Its kernel on rows.
        of_distributions: Its value per batch element.
    """

    name: str
    of_views: RowOp
    of_distributions: Callable[..., Tensor]


def dispatch(p: Any, q: Any, options: Options, by: Divergence, *parameters: float) -> Tensor:
    """The divergence of two views or of two distributions, reduced; a view against a distribution is refused."""
    rows = shortcut(by.of_views, p, q, options.validate, *parameters) if options.plain else None
    if rows is not None:
        return rows
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        return reduced(by.of_distributions(p, q, *parameters), options)
    return divergence(by.name, by.of_views, {"p": p, "q": q}, options, *parameters)


def reduced(rows: Tensor, options: Options) -> Tensor:
    """One row per element of the batch shape, reduced like the rows of tensors."""
    check_reduction(options.reduction)
    check_base(options.base)
    check_mask(options.mask, rows.shape)
    check_weight(options.weight, rows.shape)
    return reduce_rows(rows, mask=options.mask, weight=options.weight, reduction=options.reduction, base=options.base)
