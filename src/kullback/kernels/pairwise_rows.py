"""KL of all rows of one tensor against all rows of another, by matrix products in double; `pairwise_kl` calls it.

With log p and log q normalised,

    KL(p_i ‖ q_j) = Σ p_i log p_i - Σ p_i log q_j,

a difference of two numbers whose rounding is 1e-16 of their size. For a float32 result that is enough for every pair
whose divergence is not far below them; `kl_rows` computes the few others, equal rows among them. It computes all pairs
where there are few rows and no gradient is wanted, where there are more of those than rows, where a value is not
finite, where the result is float64, and where somebody follows the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback._core.dtypes import result_dtype
from kullback.kernels.kl_rows import kl_rows
from kullback.kernels.levels import is_plain, is_traced
from kullback.kernels.native_rows import Request
from kullback.kernels.row_run import gradient_followed, reference_gradients
from kullback.kernels.sides import Encoding, read_side, where

# A pair is taken from the matrix product where its divergence is at least this part of the two numbers it is the
# difference of: the rounding of the product, a few times 2^-53 of them, is then below that of the result.
_LEAST_SHARE = 2.0**-24
# Up to so many pairs for every row, kl_rows is faster than logarithms and exponentials of all rows in double: 2 to 3
# times with 8 or 16 rows a side of 4,000 classes, 1.5 with 32.
_FEW_PAIRS = 16
# A class with more than this of p has a derivative that is a trace of it, which the product would round away.
_MOST_OF_P = 1 - 1e-6


class _Rows(NamedTuple):
    """Rows of one side in double.

    Attributes:
        log: Logarithms of the probabilities; 0 outside the support.
        probs: The probabilities.
        support: Where the probability is not 0; None where that is everywhere.
    """

    log: Tensor
    probs: Tensor
    support: Tensor | None


def pairwise_kl_rows(tensors: Sequence[Tensor], encodings: Sequence[Encoding]) -> Tensor:
    """KL(p_i ‖ q_j), of shape (..., n, m) for tensors of shapes (..., n, K) and (..., m, K)."""
    if is_traced() or not all(map(is_plain, tensors)) or result_dtype(*tensors) is torch.float64:
        return _row_by_row(tensors, encodings)
    recorded = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    num_p, num_q = (t.shape[-2] for t in tensors)
    if not recorded and num_p * num_q <= _FEW_PAIRS * (num_p + num_q):
        return _row_by_row(tensors, encodings)
    with torch.no_grad():
        found = _products(tensors, encodings)
    if found is None:
        return _row_by_row(tensors, encodings)
    value, close = found
    if recorded:
        value = _Products.apply(tuple(encodings), value, close, *tensors)
    if close is None:
        return value
    return value.masked_scatter(close, _close_pairs(tensors, encodings, close).to(value.dtype))


def _row_by_row(tensors: Sequence[Tensor], encodings: Sequence[Encoding]) -> Tensor:
    return kl_rows(_facing(*tensors), encodings)


def _facing(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Both with a dimension of size 1 where the other one's rows are."""
    return p.unsqueeze(-2), q.unsqueeze(-3)


def _close_pairs(tensors: Sequence[Tensor], encodings: Sequence[Encoding], close: Tensor) -> Tensor:
    """The divergences of the marked pairs, one after the other."""
    chosen = []
    for tensor, place in zip(tensors, (-1, -2), strict=True):
        number = torch.arange(tensor.shape[:-1].numel()).reshape(tensor.shape[:-1]).unsqueeze(place)
        chosen.append(tensor.flatten(0, -2)[number.expand(close.shape)[close]])
    return kl_rows(chosen, encodings)


def _products(tensors: Sequence[Tensor], encodings: Sequence[Encoding]) -> tuple[Tensor, Tensor | None] | None:
    """All divergences and which of them are not accurate; None where the products do not serve."""
    p, q = (_normalised(t, e) for t, e in zip(tensors, encodings, strict=True))
    for side, encoding, tensor in zip((p, q), encodings, tensors, strict=True):
        if side.support is not None and encoding.linear and tensor.requires_grad:
            return None  # a weight of 0 has a derivative that its logarithm does not have
    entropy, cross = -(p.probs * p.log).sum(-1, keepdim=True), -(p.probs @ q.log.mT)
    value = cross - entropy
    infinite = _infinite(p, q)
    if infinite is not None:
        value = value.masked_fill(infinite, torch.inf)
    peaked = p.probs.amax(-1, keepdim=True) > _MOST_OF_P
    close = (value < _LEAST_SHARE * (cross + entropy)) | peaked
    defined = torch.isfinite(value) if infinite is None else torch.isfinite(value) | infinite
    num_close = int(close.sum())
    if not bool(defined.all()) or num_close > sum(t.shape[:-1].numel() for t in tensors):
        return None
    return value.float(), close if num_close else None


def _normalised(tensor: Tensor, encoding: Encoding) -> _Rows:
    side = read_side(tensor.detach().double(), encoding, compensated=False, visible=True)
    log = side.log.log_softmax(-1)
    return _Rows(where(side.support, log, 0.0), log.exp(), side.support)


def _infinite(p: _Rows, q: _Rows) -> Tensor | None:
    """Pairs in which q is zero where p is not."""
    if q.support is None:
        return None
    missing = (~q.support).float().mT
    in_p = torch.ones_like(p.probs, dtype=torch.float32) if p.support is None else p.support.float()
    return in_p @ missing > 0


class _Products(torch.autograd.Function):
    """The divergences that were found; their derivatives are matrix products, too."""

    @staticmethod
    def forward(
        ctx: Any, encodings: tuple[Encoding, ...], value: Tensor, close: Tensor | None, *tensors: Tensor
    ) -> Tensor:
        ctx.encodings = encodings
        ctx.save_for_backward(value, close, *tensors)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        value, close, *tensors = ctx.saved_tensors
        needs = ctx.needs_input_grad[3:]
        if torch.is_grad_enabled() or gradient_followed(grad) or not is_plain(grad):
            with torch.enable_grad():
                pair = _facing(*tensors)
            request = Request(ctx.encodings, value.shape)
            grad = grad if close is None else torch.where(close, 0.0, grad)
            found = reference_gradients(kl_rows, request, grad, pair, needs)
            return (
                None,
                None,
                None,
                *(None if g is None else g.reshape(t.shape) for g, t in zip(found, tensors, strict=True)),
            )
        unused = torch.isinf(value) if close is None else torch.isinf(value) | close
        weight, value = grad.double().masked_fill(unused, 0.0), value.double().masked_fill(unused, 0.0)
        p, q = (_normalised(t, e) for t, e in zip(tensors, ctx.encodings, strict=True))
        to_p = to_q = None
        if needs[0]:
            of_row = weight.sum(-1, keepdim=True)
            to_p = p.probs * (of_row * p.log - weight @ q.log - (weight * value).sum(-1, keepdim=True))
        if needs[1]:
            to_q = weight.sum(-2).unsqueeze(-1) * q.probs - weight.mT @ p.probs
        return (None, None, None, *map(_to_tensor, (to_p, to_q), tensors, ctx.encodings))


def _to_tensor(to_log: Tensor | None, tensor: Tensor, encoding: Encoding) -> Tensor | None:
    """A derivative with respect to log-weights as one with respect to the tensor's numbers."""
    if to_log is None:
        return None
    if encoding.linear:
        to_log = to_log / (tensor.double() + encoding.smoothing)
    return (to_log * encoding.scale).sum_to_size(tensor.shape).to(tensor.dtype)
