"""Entropy and cross-entropy of rows on a GPU, by Triton: `device_rows.launch` starts these kernels.

With x and y the log-weights of p and q, and y° the largest y,

    -Σ p log q = E_p (y° - y) + log Σ e^(y - y°),

two terms that are not negative. One class of weight 1 is left out of the sum: log(1 + others) keeps its digits where a
row is all but certain. The entropy is the same with q = p. One program per row, one read of the inputs; the backward
pass reads them once more and writes

    -p (y - E_p y) to log p,    q - p to log q, as for KL(p || q).
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from kullback.kernels.device_numbers.triton import add_to_pair, log1p_float, two_difference
from kullback.kernels.device_rows.triton import (
    LINEAR,
    compare_block,
    end_of_row,
    gradient_to_q,
    join_blocks,
    join_scales,
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
    sum_side,
    weigh_means,
)


class Expectation(NamedTuple):
    """What is known of the classes read so far."""

    top_p: tl.tensor
    total_p: tl.tensor  # Σ e^x = e^top_p total_p
    top_q: tl.tensor
    total_q: tl.tensor  # 0, or 1 + others_q
    others_q: tl.tensor
    below: tl.tensor  # E_p (top_q - y)
    mean: tl.tensor  # E_p y, a pair
    mean_low: tl.tensor
    leaks: tl.tensor  # whether q is zero where p is not
    wrong: tl.tensor


@triton.jit
def expect_block(p, q, MEAN: tl.constexpr):
    """The `Expectation` of one block."""
    top_p, _, _, weight_p, total_p = sum_side(p)
    top_q, y, y_low, weight_q, total_q = sum_side(q)
    # Weights at the top differ from 1 by their low parts only.
    at_top = q.support & (q.log == top_q)
    others = tl.sum(tl.where(at_top, q.low, weight_q), 0) + (tl.sum(at_top.to(tl.float32), 0) - 1.0)
    some = tl.where(total_p > 0.0, total_p, 1.0)
    shared = p.support & q.support
    below = tl.div_rn(tl.sum(tl.where(shared, weight_p * -(y + y_low), 0.0), 0), some)
    mean, mean_low = two_difference(top_q, below)
    if MEAN:
        # The first mean is off by a rounding of its distance from the top, this one by a rounding of what is left.
        rest = tl.sum(weight_p * less_centre(q.log, q.low, shared, mean, mean_low), 0)
        mean, mean_low = add_to_pair(mean, mean_low, tl.div_rn(rest, some))
    leaks = tl.max((p.support & ~q.support).to(tl.int32), 0)
    wrong = tl.max((p.wrong | q.wrong).to(tl.int32), 0)
    return Expectation(top_p, total_p, top_q, total_q, others, below, mean, mean_low, leaks, wrong)


@triton.jit
def join_expectations(a, b, MEAN: tl.constexpr):
    """Two `Expectation`s as one; no term is negative."""
    top_p, scale_a, scale_b = join_scales(a.top_p, a.total_p, b.top_p, b.total_p)
    p_a, p_b = a.total_p * scale_a, b.total_p * scale_b
    total_p = p_a + p_b
    some = tl.where(total_p > 0.0, total_p, 1.0)
    top_q, q_scale_a, q_scale_b = join_scales(a.top_q, a.total_q, b.top_q, b.total_q)
    q_a, q_b = a.total_q * q_scale_a, b.total_q * q_scale_b
    # The class that is left out is at the joint top.
    from_b = (a.total_q == 0.0) | ((b.total_q > 0.0) & (b.top_q > a.top_q))
    others = tl.where(from_b, b.others_q + q_a, a.others_q + q_b)
    below = tl.div_rn(
        p_a * tl.where(a.total_p > 0.0, a.below + (top_q - a.top_q), 0.0)
        + p_b * tl.where(b.total_p > 0.0, b.below + (top_q - b.top_q), 0.0),
        some,
    )
    mean, mean_low = a.mean, a.mean_low
    if MEAN:
        mean, mean_low = weigh_means(p_a, a.mean, a.mean_low, p_b, b.mean, b.mean_low)
    return Expectation(top_p, total_p, top_q, q_a + q_b, others, below, mean, mean_low,
                       tl.maximum(a.leaks, b.leaks), tl.maximum(a.wrong, b.wrong))  # fmt: skip


@triton.jit
def cross_entropy_forward(
    p, q, keep, value, statistics, classes,
    p_row, p_class, q_row, q_class, p_smoothing, q_smoothing, p_scale, p_scale_low, q_scale, q_scale_low,
    HAS_KEEP: tl.constexpr, P_KIND: tl.constexpr, Q_KIND: tl.constexpr,
    TO_P: tl.constexpr, TO_Q: tl.constexpr, ONE_SIDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The cross-entropy of one row, with ONE_SIDED the entropy of p, and what the gradients need."""
    row = tl.program_id(0).to(tl.int64)
    end = end_of_row(keep, row, classes, HAS_KEEP)
    zero = tl.full((), 0.0, tl.float32)
    no = tl.full((), 0, tl.int32)
    known = Expectation(zero, zero, zero, zero, zero, zero, zero, zero, no, no)
    compared = no_classes()
    for start in range(0, end, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < classes
        of_p = read_side(p + row * p_row, columns, p_class, inside, p_smoothing, p_scale, p_scale_low, P_KIND)
        if ONE_SIDED:
            of_q = of_p
        else:
            of_q = read_side(q + row * q_row, columns, q_class, inside, q_smoothing, q_scale, q_scale_low, Q_KIND)
        known = join_expectations(known, expect_block(of_p, of_q, TO_P), TO_P)
        if TO_Q:
            block = compare_block(of_p, of_q, compared, False, False)
            compared = join_blocks(compared, block, False, False)
    left_out = end == 0
    undefined = ((known.wrong != 0) | (known.total_p == 0.0)) & ~left_out
    infinite = (known.leaks != 0) & ~undefined
    entropy = known.below + log1p_float(known.others_q)
    entropy = tl.where(left_out, 0.0, tl.maximum(entropy, 0.0))
    tl.store(value + row, tl.where(infinite, float("inf"), tl.where(undefined, float("nan"), entropy)))
    if TO_P or TO_Q:
        log_p, log_p_low = log_of_sum(known.top_p, known.total_p)
        at = statistics + row * 9
        store_pair(at, log_p, log_p_low)
        store_pair(at + 2, compared.base, compared.base_low)
        store_pair(at + 4, compared.gap, compared.gap_low)
        store_pair(at + 6, known.mean, known.mean_low)
        tl.store(at + 8, tl.where(undefined, 2.0, tl.where(infinite | left_out, 1.0, 0.0)))


@triton.jit
def cross_entropy_backward(
    p, q, grad, statistics, to_p, to_q, classes, grad_row,
    p_row, p_class, q_row, q_class, p_smoothing, q_smoothing, p_scale, p_scale_low, q_scale, q_scale_low,
    P_KIND: tl.constexpr, Q_KIND: tl.constexpr, TO_P: tl.constexpr, TO_Q: tl.constexpr,
    ONE_SIDED: tl.constexpr, BLOCK: tl.constexpr,
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
    if ONE_SIDED:
        of_q = of_p
    else:
        of_q = read_side(q + row * q_row, columns, q_class, inside, q_smoothing, q_scale, q_scale_low, Q_KIND)
    if TO_P:
        size = one_over(log_p, log_p_low) if P_KIND == LINEAR else probability(of_p, log_p, log_p_low)
        entry = -size * less_centre(of_q.log, of_q.low, of_q.support, mean, mean_low)
        store_gradient(to_p, row, classes, columns, inside, entry, factor, state, p_scale, P_KIND)
    if TO_Q:
        u, u_low = log_weight_ratio(of_p, of_q, base, base_low)
        v = less_centre(u, u_low, of_p.support & of_q.support, gap, gap_low)
        log_q, log_q_low = log_of_q(log_p, log_p_low, base, base_low, gap, gap_low)
        entry = gradient_to_q(of_p, of_q, v, log_p, log_p_low, log_q, log_q_low, inside, Q_KIND)
        store_gradient(to_q, row, classes, columns, inside, entry, factor, state, q_scale, Q_KIND)
