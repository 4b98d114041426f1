"""KL(p || q) of rows on a GPU, by Triton: `device_rows.launch` starts these kernels.

One program per row. The forward pass reads both sides once, block by block; what is known of the blocks before is
joined with the next one by the chain rule. The backward pass reads both sides once and writes the gradients:

    ∂KL/∂log p = -p (u - E_p u),    ∂KL/∂log q = q - p,    u = log-weight of q less that of p,

divided by the weight where a side holds weights.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kullback.kernels.device_numbers.triton import log_pair, two_sum
from kullback.kernels.device_rows.triton import (
    compare_block,
    gradient_to_q,
    join_blocks,
    log_ratio,
    one_over,
    probability,
    read_side,
)


@triton.jit
def kl_forward(
    p, q, keep, value, statistics, classes,
    p_row, p_class, q_row, q_class, p_smoothing, q_smoothing, p_scale, p_scale_low, q_scale, q_scale_low,
    HAS_KEEP: tl.constexpr, P_LINEAR: tl.constexpr, Q_LINEAR: tl.constexpr,
    P_SCALED: tl.constexpr, Q_SCALED: tl.constexpr, RECORDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The divergence of one row, and with RECORDED the nine numbers that the backward pass needs."""
    row = tl.program_id(0).to(tl.int64)
    end = classes
    if HAS_KEEP:
        end = tl.where(tl.load(keep + row) != 0, classes, 0)
    zero = tl.full((), 0.0, tl.float32)
    top_p, total_p, top_q, total_q, gap, gap_low, kl = zero, zero, zero, zero, zero, zero, zero
    shared_p, centre, centre_low = zero, zero, zero
    wrong = tl.full((), 0, tl.int32)
    leaks = tl.full((), 0, tl.int32)
    for start in range(0, end, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < classes
        x, x_low, in_p, wrong_p = read_side(
            p + row * p_row, columns, p_class, inside, p_smoothing, p_scale, p_scale_low, P_LINEAR, P_SCALED
        )
        y, y_low, in_q, wrong_q = read_side(
            q + row * q_row, columns, q_class, inside, q_smoothing, q_scale, q_scale_low, Q_LINEAR, Q_SCALED
        )
        wrong = tl.maximum(wrong, tl.max((wrong_p | wrong_q).to(tl.int32), 0))
        leaks = tl.maximum(leaks, tl.max((in_p & ~in_q).to(tl.int32), 0))
        (top_p_b, total_p_b, top_q_b, total_q_b, gap_b, gap_b_low, kl_b, shared_p_b, centre_b,
         centre_b_low) = compare_block(x, x_low, in_p, y, y_low, in_q, RECORDED)  # fmt: skip
        (top_p, total_p, top_q, total_q, gap, gap_low, kl, shared_p, centre, centre_low) = join_blocks(
            top_p, total_p, top_q, total_q, gap, gap_low, kl, shared_p, centre, centre_low,
            top_p_b, total_p_b, top_q_b, total_q_b, gap_b, gap_b_low, kl_b, shared_p_b, centre_b, centre_b_low,
            RECORDED,
        )  # fmt: skip
    left_out = end == 0
    undefined = ((wrong != 0) | (total_p == 0.0)) & ~left_out
    infinite = (leaks != 0) & ~undefined
    kl = tl.where(infinite, float("inf"), tl.where(undefined, float("nan"), kl))
    tl.store(value + row, kl)
    if RECORDED:
        log_p, log_p_low = log_pair(tl.where(total_p > 0.0, total_p, 1.0))
        high, low = two_sum(top_p, log_p)
        at = statistics + row * 9
        tl.store(at, high)
        tl.store(at + 1, low + log_p_low)
        tl.store(at + 2, gap)
        tl.store(at + 3, gap_low)
        tl.store(at + 4, centre)
        tl.store(at + 5, centre_low)
        tl.store(at + 8, tl.where(undefined, 2.0, tl.where(infinite | left_out, 1.0, 0.0)))


@triton.jit
def kl_backward(
    p, q, grad, statistics, to_p, to_q, classes, grad_row,
    p_row, p_class, q_row, q_class, p_smoothing, q_smoothing, p_scale, p_scale_low, q_scale, q_scale_low,
    P_LINEAR: tl.constexpr, Q_LINEAR: tl.constexpr, P_SCALED: tl.constexpr, Q_SCALED: tl.constexpr,
    TO_P: tl.constexpr, TO_Q: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of a block of one row, times the incoming one; zero where the row is infinite or left out."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    at = statistics + row * 9
    log_p, log_p_low = tl.load(at), tl.load(at + 1)
    gap, gap_low, centre, centre_low = tl.load(at + 2), tl.load(at + 3), tl.load(at + 4), tl.load(at + 5)
    state = tl.load(at + 8)
    factor = tl.where(state == 2.0, float("nan"), tl.load(grad + row * grad_row).to(tl.float32))
    x, x_low, in_p, _ = read_side(
        p + row * p_row, columns, p_class, inside, p_smoothing, p_scale, p_scale_low, P_LINEAR, P_SCALED
    )
    y, y_low, in_q, _ = read_side(
        q + row * q_row, columns, q_class, inside, q_smoothing, q_scale, q_scale_low, Q_LINEAR, Q_SCALED
    )
    if TO_P:
        w = log_ratio(x, x_low, y, y_low, in_p & in_q, centre, centre_low)
        if P_LINEAR:
            entry = -w * one_over(log_p, log_p_low)
        else:
            entry = -w * probability(x, x_low, in_p, log_p, log_p_low)
            if P_SCALED:
                entry *= p_scale
        entry = tl.where(state == 1.0, 0.0, entry * factor)
        tl.store(to_p + row * classes + columns, entry.to(to_p.dtype.element_ty), mask=inside)
    if TO_Q:
        entry = gradient_to_q(x, x_low, in_p, y, y_low, in_q, log_p, log_p_low, gap, gap_low, inside, Q_LINEAR)
        if Q_SCALED:
            entry *= q_scale
        entry = tl.where(state == 1.0, 0.0, entry * factor)
        tl.store(to_q + row * classes + columns, entry.to(to_q.dtype.element_ty), mask=inside)
