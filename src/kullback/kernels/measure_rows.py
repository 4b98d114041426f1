"""Everything that `kullback compare` reports of two rows in one native call; `comparison.measures` asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.kernels.native_rows import NativeRows, Request, Settings, _pack, statistics_for
from kullback.kernels.sides import Encoding

MAX_TOP = 64  # as csrc/rows/measures.h has it
_LOG_2 = 0.6931471805599453
_native = NativeRows("measures", lambda top: Settings(7, share=float(top)))


class RowMeasures(NamedTuple):
    """Measures of rows, float64 with one number per row.

    Attributes:
        kl: KL(p ‖ q).
        reverse_kl: KL(q ‖ p).
        js: Jensen-Shannon divergence.
        total_variation: ½ Σ|p − q|.
        log_sums: Logarithms of the sums of the weights of p and of q.
        tops: Classes with the largest weights of p and of q, (rows, top), largest first; -1 where there are too few.
    """

    kl: Tensor
    reverse_kl: Tensor
    js: Tensor
    total_variation: Tensor
    log_sums: tuple[Tensor, Tensor]
    tops: tuple[Tensor, Tensor]


def native_measures(
    tensors: tuple[Tensor, Tensor],
    encodings: Sequence[Encoding],
    top: int,
    tolerances: Sequence[float],
    check: Callable[[], None],
) -> RowMeasures | None:
    """The measures of two matrices of rows; None where native code does not serve them.

    Args:
        tensors: Both sides, (rows, classes).
        encodings: What they hold.
        top: How many of the largest classes to find, at most `MAX_TOP`.
        tolerances: How far from 0 the log of the sum of each side's rows may be.
        check: Raises where the values of a tensor are impossible; called when a row looks wrong.
    """
    if top > MAX_TOP or not tensors[0].numel() or not _native.serves(tensors, (top,)):
        return None
    assert _native.library is not None
    batch = tensors[0].shape[:-1]
    request = Request(encodings, batch, (top,), None, tolerances)
    statistics = statistics_for(batch)
    double = any(t.dtype is torch.float64 for t in tensors)
    value = torch.empty(batch, dtype=torch.float64 if double else torch.float32)
    tops = tuple(torch.full((*batch, top), -1) for _ in range(2))
    if _native.library.kullback_rows_forward(_pack(_native, tensors, request, statistics, value, None, tops)):
        check()
    # RowStatistics of csrc/rows/call.h: shift, scale and total of p and q, gap in two parts, KL, total variation, ...
    shift_p, shift_q, scale_p, scale_q, total_p, total_q, _, _, kl, variation, js, reverse, _ = statistics.view(
        -1, 13
    ).T
    sums = tuple(a + b * _LOG_2 + c.log() for a, b, c in ((shift_p, scale_p, total_p), (shift_q, scale_q, total_q)))
    return RowMeasures(kl, reverse, js, variation, (sums[0], sums[1]), (tops[0], tops[1]))
