"""KL(p || q) of rows on a GPU, by Triton: `device_rows.launch` starts these kernels.

One program per row. The forward pass reads both sides once, block by block; what is known of the blocks before is
joined with the next one by the chain rule. The backward pass reads both sides once and writes the gradients:

    ∂KL/∂log p = -p (u - E_p u),    ∂KL/∂log q = q - p,    u = log-weight of q less that of p,

divided by the weight where a side holds weights.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kullback.kernels.device_rows.triton import (
    LINEAR,
    compare_block,
    end_of_row,
    gradient_to_q,
    join_blocks,
    less_centre,
    load_pair,
    log_of_q,
    log_of_sum,
    log_weight_ratio,
    no_classes,
    one_over,
    probability,
    read_side,
    store_gradient,
    store_pair,
)


@triton.jit
def kl_forward(
    p, q, keep, value, statistics, classes,
    p_row, p_class, q_row, q_class, p_smoothing, q_smoothing, p_scale, p_scale_low, q_scale, q_scale_low,
    HAS_KEEP: tl.constexpr, P_KIND: tl.constexpr, Q_KIND: tl.constexpr,
    TO_P: tl.constexpr, TO_Q: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The divergence of one row, and with TO_P, TO_Q what the gradients to p and q need."""
    row = tl.program_id(0).to(tl.int64)
    end = end_of_row(keep, row, classes, HAS_KEEP)
    known = no_classes()
    for start in range(0, end, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < classes
        of_p = read_side(p + row * p_row, columns, p_class, inside, p_smoothing, p_scale, p_scale_low, P_KIND)
        of_q = read_side(q + row * q_row, columns, q_class, inside, q_smoothing, q_scale, q_scale_low, Q_KIND)
        block = compare_block(of_p, of_q, known, TO_P, False)
        known = join_blocks(known, block, TO_P, False)
    left_out = end == 0
    undefined = ((known.wrong != 0) | (known.total_p == 0.0)) & ~left_out
    infinite = (known.leaks != 0) & ~undefined
    kl = tl.div_rn(known.kl + known.kl_low, tl.where(left_out | undefined, 1.0, known.total_p + known.total_p_low))
    tl.store(value + row, tl.where(infinite, float("inf"), tl.where(undefined, float("nan"), kl)))
    if TO_P or TO_Q:
        log_p, log_p_low = log_of_sum(known.top_p, known.total_p)
        at = statistics + row * 9
        store_pair(at, log_p, log_p_low)
        store_pair(at + 2, known.base, known.base_low)
        store_pair(at + 4, known.gap, known.gap_low)
        store_pair(at + 6, known.mean_p, known.mean_p_low)
        tl.store(at + 8, tl.where(undefined, 2.0, tl.where(infinite | left_out, 1.0, 0.0)))


@triton.jit
def kl_backward(
    p, q, grad, statistics, to_p, to_q, classes, grad_row,
    p_row, p_class, q_row, q_class, p_smoothing, q_smoothing, p_scale, p_scale_low, q_scale, q_scale_low,
    P_KIND: tl.constexpr, Q_KIND: tl.constexpr, TO_P: tl.constexpr, TO_Q: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of a block of one row, times the incoming one."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    at = statistics + row * 9
    log_p, log_p_low = load_pair(at)
    base, base_low = load_pair(at + 2)
    gap, gap_low = load_pair(at + 4)
    mean, mean_low = load_pair(at + 6)
    state, factor = tl.load(at + 8), tl.load(grad + row * grad_row).to(tl.float32)
    of_p = read_side(p + row * p_row, columns, p_class, inside, p_smoothing, p_scale, p_scale_low, P_KIND)
    of_q = read_side(q + row * q_row, columns, q_class, inside, q_smoothing, q_scale, q_scale_low, Q_KIND)
    shared = of_p.support & of_q.support
    u, u_low = log_weight_ratio(of_p, of_q, base, base_low)
    if TO_P:
        size = one_over(log_p, log_p_low) if P_KIND == LINEAR else probability(of_p, log_p, log_p_low)
        entry = -size * less_centre(u, u_low, shared, mean, mean_low)
        store_gradient(to_p, row, classes, columns, inside, entry, factor, state, p_scale, P_KIND)
    if TO_Q:
        v = less_centre(u, u_low, shared, gap, gap_low)
        log_q, log_q_low = log_of_q(log_p, log_p_low, base, base_low, gap, gap_low)
        entry = gradient_to_q(of_p, of_q, v, log_p, log_p_low, log_q, log_q_low, inside, Q_KIND)
        store_gradient(to_q, row, classes, columns, inside, entry, factor, state, q_scale, Q_KIND)
