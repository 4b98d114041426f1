"""Rows of views as normalised log-probabilities in float64, and what each class adds to KL; for `of_tensors.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from kullback.special import expm1mx
from kullback.tensors.views import Counts, Probs, View

_BLOCK = 1 << 20


def log_rows(view: View, shape: torch.Size) -> Tensor:
    """The view's numbers with classes last, broadcast to a batch shape, as they are: nothing is copied."""
    tensor = view.tensor.detach().movedim(view.dim, -1)
    return tensor.expand(*shape, tensor.shape[-1])


def log_probabilities(view: View, rows: Tensor) -> Tensor:
    """Normalised log-probabilities of rows of the view, in float64."""
    rows = rows.to(device="cpu", dtype=torch.float64)
    if isinstance(view, Counts):
        rows = rows + view.smoothing
    if isinstance(view, Counts | Probs):
        return rows.log() - rows.sum(-1, keepdim=True).log()
    return rows.log_softmax(-1)


def contributions(log_p: Tensor, log_q: Tensor) -> Tensor:
    """The term p log(p/q) − p + q of each class: never negative, 0 outside both supports, inf where only p has mass."""
    outside = (log_p == -math.inf) & (log_q == -math.inf)
    ratio = torch.where(outside | (log_p == -math.inf), 0.0, log_q - log_p)
    inside = log_p.exp() * expm1mx(ratio)
    # e^t overflows where q is far larger than p; then p·e^t is q.
    large = log_q.exp() - log_p.exp() * (1 + ratio)
    inside = torch.where(ratio > 1, large, inside)
    return torch.where(log_p == -math.inf, log_q.exp(), torch.where(log_q == -math.inf, math.inf, inside)).where(
        ~outside, torch.zeros(())
    )


def blocks(p: View, q: View, batch: torch.Size, keep: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of kept rows as log-probabilities (rows, classes), so that a large batch needs little memory."""
    a, b = log_rows(p, batch), log_rows(q, batch)
    classes = a.shape[-1]
    count = math.prod(batch)
    step = max(_BLOCK // max(classes, 1), 1)
    kept = None if keep is None else keep.expand(batch).reshape(-1).cpu()
    for start in range(0, count, step):
        numbers = torch.arange(start, min(start + step, count))
        if kept is not None:
            numbers = numbers[kept[numbers]]
        if numbers.numel():
            index = torch.unravel_index(numbers, batch) if batch else ()
            yield (
                log_probabilities(p, a[index].reshape(-1, classes)),
                log_probabilities(q, b[index].reshape(-1, classes)),
            )
