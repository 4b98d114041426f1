"""The pointwise terms of torch's `kl_div`, their sum and their gradients, in blocks and in double precision.

With log q = `input` and p = `target` (or log p, with `log_target`):

    term = p (log p − log q)        ∂/∂log q = −p        ∂/∂p     = log p − log q + 1
                                                          ∂/∂log p = p (log p − log q + 1)

The terms have both signs and cancel in the sum, so float32 and lower are widened to float64 block by block: the terms
and their sum then carry a relative error of 1e-16 each, the memory is that of one block, and the result is rounded
once.

Edges, all without NaN: p = 0 gives 0, whatever log q is, with gradient 0 to both sides (the one-sided limit to p is
−inf); p > 0 with log q = −inf gives +inf, with gradient −p to log q and, by convention, 0 to the target. A NaN stays
NaN and a negative p gives NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan, prod
from typing import Any

import torch
from torch import Tensor

from kullback._core.dtypes import work_dtype
from kullback.kernels.levels import is_batch_of_gradients, tracer_active, transform_active

_INF = float("inf")
_BLOCK_PER_THREAD = 1 << 15  # a dozen float64 temporaries of this many elements stay in a core's cache
_BLOCK_OFF_CPU = 1 << 22


def pointwise_kl(log_q: Tensor, target: Tensor, log_target: bool, divisor: int | None, dtype: torch.dtype) -> Tensor:
    """Terms of one shape (`divisor=None`) or their sum divided by `divisor`, as `dtype`; differentiable in every way.

    `log_q` and `target` have the same shape; their dtypes may differ. The sum of nothing is 0, whatever the divisor.
    """
    if torch.compiler.is_compiling() or is_followed() or not (is_plain(log_q) and is_plain(target)):
        return reference(log_q, target, log_target, divisor, dtype)
    if torch.is_grad_enabled() and (log_q.requires_grad or target.requires_grad):
        result: Tensor = _Blocked.apply(log_q, target, log_target, divisor, dtype)
        return result
    return _forward(log_q, target, log_target, divisor, dtype)


def reference(log_q: Tensor, target: Tensor, log_target: bool, divisor: int | None, dtype: torch.dtype) -> Tensor:
    """The same in plain torch operations, which every transform can follow; all derivatives keep the conventions."""
    wide = work_dtype(log_q.device)
    terms = (_log_target_terms if log_target else _target_terms)(log_q.to(wide), target.to(wide))
    return (terms if divisor is None else terms.sum() / max(divisor, 1)).to(dtype)


def _target_terms(log_q: Tensor, p: Tensor) -> Tensor:
    empty = p == 0
    cut = (log_q == -_INF) & (p > 0)
    safe_log_q = torch.where(cut | (empty & log_q.isinf()), 0, log_q)
    safe_p = torch.where(empty, 1, p)
    inside = safe_p * (safe_p.log() - safe_log_q)
    # Value and both first derivatives 0, mixed derivative −1 as everywhere: the Hessian stays symmetric.
    at_zero = p * (safe_log_q.detach() - safe_log_q)
    infinite = -p.detach() * log_q
    return torch.where(empty, at_zero, torch.where(cut, infinite, inside))


def _log_target_terms(log_q: Tensor, log_p: Tensor) -> Tensor:
    empty = log_p == -_INF
    cut = (log_q == -_INF) & ~empty
    safe_log_q = torch.where(cut | (empty & log_q.isinf()), 0, log_q)
    safe_log_p = torch.where(empty, 0, log_p)
    inside = safe_log_p.exp() * (safe_log_p - safe_log_q)
    # exp(log p) may underflow to 0, and 0 · inf is not the +inf that p > 0 = q has.
    infinite = -log_p.detach().exp().clamp(min=torch.finfo(log_p.dtype).tiny) * log_q
    return torch.where(empty, safe_log_q * 0, torch.where(cut, infinite, inside))


def _raw_terms(log_q: Tensor, target: Tensor, log_target: bool) -> Tensor:
    """The terms without history; every edge that needs mending shows as a NaN."""
    if log_target:
        return target.exp().mul_(target - log_q)
    return target.log().sub_(log_q).mul_(target)


def _mended(terms: Tensor, log_q: Tensor, target: Tensor, log_target: bool) -> Tensor:
    empty = target == (-_INF if log_target else 0)
    if log_target:
        terms.masked_fill_((log_q == -_INF) & ~empty, _INF)
    return terms.masked_fill_(empty & ~log_q.isnan(), 0)


def _slope_to_log_q(target: Tensor, log_target: bool) -> Tensor:
    return target.exp().neg_() if log_target else target.neg()


def _slope_to_target(log_q: Tensor, target: Tensor, log_target: bool) -> Tensor:
    if log_target:
        slope = target.exp().mul_((target - log_q).add_(1))
        return slope.masked_fill_((target == -_INF) | (log_q == -_INF), 0)
    slope = target.log().sub_(log_q).add_(1)
    return slope.masked_fill_((target == 0) | ((log_q == -_INF) & (target > 0)), 0)


def _forward(log_q: Tensor, target: Tensor, log_target: bool, divisor: int | None, dtype: torch.dtype) -> Tensor:
    wide = work_dtype(log_q.device)
    out = torch.empty(log_q.shape, dtype=dtype, device=log_q.device) if divisor is None else None
    sums = []
    for block in _blocks(log_q.shape, _block_size(log_q.device)):
        wide_log_q, wide_target = log_q[block].to(wide), target[block].to(wide)
        terms = _raw_terms(wide_log_q, wide_target, log_target)
        if out is not None:
            out[block] = _mended(terms, wide_log_q, wide_target, log_target)
            continue
        total = terms.sum()
        # Asking the CPU whether anything is to be replaced is cheaper than doing it; an accelerator would have to wait.
        if not total.is_cpu or isnan(total.item()):
            total = _mended(terms, wide_log_q, wide_target, log_target).sum()
        sums.append(total)
    if out is not None:
        return out
    total = sums[0] if len(sums) == 1 else torch.stack(sums).sum()
    return total.div_(max(divisor or 1, 1)).to(dtype)


class _Blocked(torch.autograd.Function):
    """First-order gradients from the closed forms; a recorded or transformed backward goes through the reference."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes positionally
        ctx: Any, log_q: Tensor, target: Tensor, log_target: bool, divisor: int | None, dtype: torch.dtype
    ) -> Tensor:
        ctx.save_for_backward(log_q, target)
        ctx.options = (log_target, divisor)
        return _forward(log_q, target, log_target, divisor, dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (
            _followed_gradients if torch.is_grad_enabled() or is_followed() or _is_batched(grad) else _closed_form
        )
        found = gradients(grad, ctx.saved_tensors, ctx.needs_input_grad[:2], *ctx.options)
        return (*found, None, None, None)


def _closed_form(
    grad: Tensor, tensors: Sequence[Tensor], needs: Sequence[bool], log_target: bool, divisor: int | None
) -> list[Tensor | None]:
    log_q, target = tensors
    wide = work_dtype(log_q.device)
    to_log_q = torch.empty_like(log_q, memory_format=torch.contiguous_format) if needs[0] else None
    to_target = torch.empty_like(target, memory_format=torch.contiguous_format) if needs[1] else None
    scale = grad if divisor is None else grad.to(wide) / max(divisor, 1)
    for block in _blocks(log_q.shape, _block_size(log_q.device)):
        wide_target = target[block].to(wide)
        factor = scale[block].to(wide) if divisor is None else scale
        if to_log_q is not None:
            to_log_q[block] = _slope_to_log_q(wide_target, log_target).mul_(factor)
        if to_target is not None:
            to_target[block] = _slope_to_target(log_q[block].to(wide), wide_target, log_target).mul_(factor)
    return [to_log_q, to_target]


def _followed_gradients(
    grad: Tensor, tensors: Sequence[Tensor], needs: Sequence[bool], log_target: bool, divisor: int | None
) -> list[Tensor | None]:
    """The same through the reference: differentiable once more, and by plain products, which `vmap` can batch."""
    wide = work_dtype(grad.device)
    wanted = [t.to(wide) for t, need in zip(tensors, needs, strict=True) if need]

    def of_wanted(*values: Tensor) -> Tensor:
        given = iter(values)
        log_q, target = (next(given) if need else t.to(wide) for t, need in zip(tensors, needs, strict=True))
        return (_log_target_terms if log_target else _target_terms)(log_q, target)

    slopes = iter(torch.func.vjp(of_wanted, *wanted)[1](torch.ones_like(wanted[0])))
    factor = grad.to(wide) if divisor is None else grad.to(wide) / max(divisor, 1)
    return [(next(slopes) * factor).to(t.dtype) if need else None for t, need in zip(tensors, needs, strict=True)]


def _blocks(shape: Sequence[int], limit: int) -> Iterator[tuple[slice, ...]]:
    """Index tuples that cover `shape` in pieces of at most `limit` elements, without flattening strided tensors."""
    if prod(shape) <= limit:
        yield ()
        return
    inner = prod(shape[1:])
    step = max(limit // inner, 1)
    for start in range(0, shape[0], step):
        rows = slice(start, start + step)
        for rest in _blocks(shape[1:], limit) if inner > limit else [()]:
            yield (rows, *rest)


def _block_size(device: torch.device) -> int:
    return _BLOCK_PER_THREAD * torch.get_num_threads() if device.type == "cpu" else _BLOCK_OFF_CPU


def is_followed() -> bool:
    """Whether a functorch transform, a forward-mode dual level or a tracer follows the torch calls."""
    return transform_active() or tracer_active()


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is dense memory on some device and nothing else."""
    return type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout is torch.strided


def _is_batched(grad: Tensor) -> bool:
    """Whether `torch.autograd.grad(is_grads_batched=True)` hands over many gradients at once, or a subclass came."""
    return not is_plain(grad) or is_batch_of_gradients(grad)
