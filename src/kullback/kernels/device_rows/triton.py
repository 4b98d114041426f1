"""Blocks of rows in Triton: how a side is read, what a pair of blocks tells, and how blocks are joined.

Called by the kernels in `kl_rows/triton.py`, `entropy_rows/triton.py` and `f_rows/triton.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from kullback.kernels.device_numbers.triton import (
    add_to_pair,
    exp_below,
    exp_pair,
    log1p_float,
    log1p_remainder,
    log_float,
    log_pair,
    pair_difference,
    phi,
    two_difference,
    two_product,
    two_sum,
)

# What the numbers of a side are: log-weights, log-weights to be multiplied by a scale, weights.
SCALED = tl.constexpr(1)
LINEAR = tl.constexpr(2)


class Side(NamedTuple):
    """A block of one side."""

    log: tl.tensor  # log-weights, 0 outside the support
    low: tl.tensor  # what rounding took from them
    support: tl.tensor
    wrong: tl.tensor  # whether an entry cannot be what it should


class Row(NamedTuple):
    """What is known of the classes read so far; x and y are the log-weights of p and q, and u = y - x.

    The gap and the means are counted from a base near them, the difference of the largest y and x of a block. Of a row
    in which one class has all but a trace of p and q, u - base is exactly 0 there, and they keep digits of the trace.
    """

    top_p: tl.tensor
    total_p: tl.tensor  # Σ e^x = e^top_p total_p, a pair
    total_p_low: tl.tensor
    top_q: tl.tensor
    total_q: tl.tensor
    base: tl.tensor  # a pair
    base_low: tl.tensor
    gap: tl.tensor  # log Σ e^y / Σ e^x - base, a pair
    gap_low: tl.tensor
    kl: tl.tensor  # KL(p || q) times total_p, both normalised over these classes, a pair: sums of many blocks
    kl_low: tl.tensor
    shared_p: tl.tensor  # the part of total_p that lies in the support of q
    mean_p: tl.tensor  # E_p u - base over the common support, a pair
    mean_p_low: tl.tensor
    shared_q: tl.tensor
    mean_q: tl.tensor  # E_q u - base
    mean_q_low: tl.tensor
    leaks: tl.tensor  # whether q is zero where p is not
    wrong: tl.tensor


@triton.jit
def read_side(start, columns, step, inside, smoothing, scale, scale_low, KIND: tl.constexpr):
    """A block of one side, from the address of the row's first class."""
    value = tl.load(start + columns * step, mask=inside, other=0.0).to(tl.float32)
    if KIND == LINEAR:
        weight, missing = two_sum(value, smoothing)
        support = inside & (weight > 0.0)
        wrong = inside & ~((weight >= 0.0) & (weight < float("inf")))
        safe = tl.where(support, weight, 1.0)
        high, low = log_pair(safe)
        low += tl.where(support, tl.div_rn(missing, safe), 0.0)
    else:
        support = inside & (value > float("-inf"))
        wrong = inside & ~(value < float("inf"))
        high = tl.where(support & ~wrong, value, 0.0)
        low = tl.zeros_like(high)
        if KIND == SCALED:
            product, product_low = two_product(high, scale)
            high, low = two_sum(product, tl.fma(high, scale_low, product_low))
    return Side(high, low, support, wrong)


@triton.jit
def sum_side(side):
    """The largest log-weight of a block (0 where there is none), how far others are below it, e^that and their sum."""
    top = tl.max(tl.where(side.support, side.log, float("-inf")), 0)
    top = tl.where(top > float("-inf"), top, 0.0)
    below, below_low = two_difference(side.log, top)
    below_low += side.low
    weight = tl.where(side.support, exp_pair(tl.minimum(below, 0.0), below_low), 0.0)
    return top, below, below_low, weight, tl.sum(weight, 0)


@triton.jit
def log_weight_ratio(p, q, base, base_low):
    """u - base = y - x - base as a pair, on the common support, else 0."""
    shared = p.support & q.support
    u, u_low = two_difference(q.log, p.log)
    u, u_low = pair_difference(u, u_low + (q.low - p.low), base, base_low)
    return tl.where(shared, u, 0.0), tl.where(shared, u_low, 0.0)


@triton.jit
def less_centre(u, u_low, shared, centre, centre_low):
    """u - centre to a rounding of the result, on the common support, else 0."""
    return tl.where(shared, (u - centre) + (u_low - centre_low), 0.0)


@triton.jit
def gap_from(row, base, base_low):
    """The gap of a `Row` as a pair, counted from another base."""
    moved, moved_low = pair_difference(row.base, row.base_low, base, base_low)
    moved, moved_low = add_to_pair(moved, moved_low, row.gap)
    return moved, moved_low + row.gap_low


@triton.jit
def ratio_sums(p, q, shared, u, u_low, gap, gap_low):
    """Σ p φ(v) and Σ p (e^v - 1) of a block, v = u - gap, from the weights p and q e^-gap = p e^v.

    φ(v) = e^v - 1 - v from its series where |v| <= 2, else from the weights: nothing cancels either way.
    """
    v, v_low = pair_difference(u, u_low, gap, gap_low)
    near = shared & (tl.abs(v) <= 2.0)
    w = tl.where(near, v, 0.0)
    # φ is quadratic: a rounding of v would count twice. Its derivative e^v - 1 is w + w²/2 next to a rounding.
    curved = tl.fma(w * w, phi(w), tl.where(near, v_low, 0.0) * tl.fma(0.5 * w, w, w))
    # The scale is limited to what cannot overflow; a guess that far off is not taken.
    change = q * exp_pair(tl.minimum(-gap, 60.0), -gap_low) - p
    bent = tl.where(near, p * curved, tl.fma(-p, tl.where(shared, v, 0.0), change))
    excess = tl.where(near, p * (w + curved), change)
    return tl.sum(bent, 0), tl.sum(excess, 0)


@triton.jit
def mean_over(weight, total, u, u_low, shared, centre, centre_low):
    """E u under weights as a pair. The first mean is off by a rounding of |u - centre|, the second of what is left."""
    safe = tl.where(total > 0.0, total, 1.0)
    for _ in tl.static_range(2):
        rest = tl.sum(weight * less_centre(u, u_low, shared, centre, centre_low), 0)
        centre, centre_low = add_to_pair(centre, centre_low, tl.div_rn(rest, safe))
    return centre, centre_low


@triton.jit
def compare_block(p, q, before, MEAN_P: tl.constexpr, MEAN_Q: tl.constexpr):
    """What one block tells, as a `Row`; the gap of the `Row` before is the first guess.

    For any D, X = Σ p φ(u - D) and E = Σ (e^(u - D) - 1) p over Σ p: KL = X - (E - log(1 + E)), and log(1 + E) is what
    D lacks. Near equality both parts are quadratic in u - D; the second is below 1/32 of the first while 16 E² <= X.
    Where it is more, D is found from the sums of the block, then again from its E.
    """
    top_p, x, x_low, weight_p, total_p = sum_side(p)
    top_q, y, y_low, weight_q, total_q = sum_side(q)
    base, base_low = two_difference(top_q, top_p)
    shared = p.support & q.support
    u, u_low = pair_difference(y, y_low, x, x_low)
    u, u_low = tl.where(shared, u, 0.0), tl.where(shared, u_low, 0.0)
    some_p, some_q = tl.where(total_p > 0.0, total_p, 1.0), tl.where(total_q > 0.0, total_q, 1.0)
    gap, gap_low = gap_from(before, base, base_low)
    bent, excess = ratio_sums(weight_p, weight_q, shared, u, u_low, gap, gap_low)
    size = tl.minimum(tl.abs(excess), some_p)
    settled = (16.0 * size * size <= bent * some_p) & (size <= 0.5 * some_p)
    known = (total_p > 0.0) & (total_q > 0.0)
    if known & ~settled:
        gap, gap_low = log_float(tl.div_rn(some_q, some_p)), tl.full((), 0.0, tl.float32)
        _, excess = ratio_sums(weight_p, weight_q, shared, u, u_low, gap, gap_low)
        gap, gap_low = add_to_pair(gap, gap_low, log1p_float(tl.div_rn(excess, some_p)))
        bent, excess = ratio_sums(weight_p, weight_q, shared, u, u_low, gap, gap_low)
    excess = tl.where(known, tl.div_rn(excess, some_p), 0.0)
    kl = tl.where(known, tl.maximum(bent - some_p * log1p_remainder(excess), 0.0), 0.0)
    mean_p, mean_p_low, shared_p = gap, gap_low, total_p
    if MEAN_P:
        shared_p = tl.sum(tl.where(shared, weight_p, 0.0), 0)
        mean_p, mean_p_low = mean_over(weight_p, shared_p, u, u_low, shared, gap, gap_low)
    mean_q, mean_q_low, shared_q = gap, gap_low, total_q
    if MEAN_Q:
        shared_q = tl.sum(tl.where(shared, weight_q, 0.0), 0)
        mean_q, mean_q_low = mean_over(weight_q, shared_q, u, u_low, shared, gap, gap_low)
    gap, gap_low = add_to_pair(gap, gap_low, log1p_float(excess))
    leaks = tl.max((p.support & ~q.support).to(tl.int32), 0)
    wrong = tl.max((p.wrong | q.wrong).to(tl.int32), 0)
    zero = tl.full((), 0.0, tl.float32)
    return Row(top_p, total_p, zero, top_q, total_q, base, base_low, gap, gap_low, kl, zero,
               shared_p, mean_p, mean_p_low, shared_q, mean_q, mean_q_low, leaks, wrong)  # fmt: skip


@triton.jit
def no_classes():
    """The `Row` of no classes."""
    zero = tl.full((), 0.0, tl.float32)
    no = tl.full((), 0, tl.int32)
    return Row(zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero,
               no, no)  # fmt: skip


@triton.jit
def log_of_sum(top, total):
    """log(e^top total) as a pair."""
    log, log_low = log_pair(tl.where(total > 0.0, total, 1.0))
    high, low = two_sum(top, log)
    return high, low + log_low


@triton.jit
def join_scales(top, total, top_b, total_b):
    """The larger of two tops, of those that belong to a sum, and what brings both sums to it."""
    joint = tl.where(total == 0.0, top_b, tl.where(total_b == 0.0, top, tl.maximum(top, top_b)))
    below, below_low = two_difference(top, joint)
    below_b, below_b_low = two_difference(top_b, joint)
    return joint, exp_pair(tl.minimum(below, 0.0), below_low), exp_pair(tl.minimum(below_b, 0.0), below_b_low)


@triton.jit
def weigh_means(part, mean, mean_low, part_b, mean_b, mean_b_low):
    """The mean over two parts, from the part that weighs more: where it has nearly all, its own digits stay."""
    turned = part_b > part
    total = part + part_b
    least = tl.div_rn(tl.minimum(part, part_b), tl.where(total > 0.0, total, 1.0))
    step, step_low = pair_difference(mean_b, mean_b_low, mean, mean_low)
    step = tl.where(turned, -(step + step_low), step + step_low)
    return add_to_pair(
        tl.where(turned, mean_b, mean), tl.where(turned, mean_b_low, mean_low), tl.where(least > 0.0, least * step, 0.0)
    )


@triton.jit
def join_means(a, part, mean, mean_low, b, part_b, mean_b, mean_b_low, turned):
    """The mean over two `Row`s, counted from the base of b where `turned`, else from that of a."""
    step, step_low = pair_difference(b.base, b.base_low, a.base, a.base_low)
    moved, moved_low = add_to_pair(tl.where(turned, -step, step), tl.where(turned, -step_low, step_low),
                                   tl.where(turned, mean, mean_b))  # fmt: skip
    moved_low += tl.where(turned, mean_low, mean_b_low)
    return weigh_means(
        part, tl.where(turned, moved, mean), tl.where(turned, moved_low, mean_low),
        part_b, tl.where(turned, mean_b, moved), tl.where(turned, mean_b_low, moved_low),
    )  # fmt: skip


@triton.jit
def join_blocks(a, b, MEAN_P: tl.constexpr, MEAN_Q: tl.constexpr):
    """Two `Row`s as one.

    By the chain rule KL = P KL_1 + P' KL_2 + KL((P, P') || (Q, Q')), P and Q the shares of the parts: no term is
    negative, so that the accuracy of a block is that of a row. With d the difference of the two gaps, P' <= 1/2 the
    share of the lighter part and z = P' (e^d - 1),

        the joint gap is that of the heavier part + log(1 + z),    the last term P' φ(d) - (z - log(1 + z)).
    """
    top_p, scale_a, scale_b = join_scales(a.top_p, a.total_p, b.top_p, b.total_p)
    p_a, p_b = a.total_p * scale_a, b.total_p * scale_b
    top_q, q_scale_a, q_scale_b = join_scales(a.top_q, a.total_q, b.top_q, b.total_q)
    q_a, q_b = a.total_q * q_scale_a, b.total_q * q_scale_b
    total_p, total_p_low = two_sum(p_a, p_b)
    total_p_low += a.total_p_low * scale_a + b.total_p_low * scale_b
    some_p = tl.where(total_p > 0.0, total_p, 1.0)
    turned = p_b > p_a
    lighter = tl.div_rn(tl.minimum(p_a, p_b), some_p)
    heavier = tl.div_rn(tl.maximum(p_a, p_b), some_p)
    d, d_low = gap_from(b, a.base, a.base_low)
    d, d_low = pair_difference(d, d_low, a.gap, a.gap_low)
    d = tl.where(turned, -(d + d_low), d + d_low)
    compared = (p_a > 0.0) & (p_b > 0.0) & (q_a > 0.0) & (q_b > 0.0)
    base, base_low = tl.where(turned, b.base, a.base), tl.where(turned, b.base_low, a.base_low)
    own, own_low = tl.where(turned, b.gap, a.gap), tl.where(turned, b.gap_low, a.gap_low)
    if compared & (tl.abs(d) <= 1.0):
        curved = d * d * phi(d)
        z = lighter * (d + curved)
        gap, gap_low = add_to_pair(own, own_low, log1p_float(z))
        between = lighter * curved - log1p_remainder(z)
    else:
        # P' e^d = P Q'/Q, from which z is known where it is small; else the joint gap is that of the sums.
        q_heavier, q_lighter = tl.where(turned, q_b, q_a), tl.where(turned, q_a, q_b)
        some = q_heavier > 1e-30
        z = heavier * tl.where(some, tl.div_rn(q_lighter, tl.where(some, q_heavier, 1.0)), 0.0) - lighter
        log_q, log_q_low = log_of_sum(top_q, q_a + q_b)
        log_p, log_p_low = log_of_sum(top_p, total_p)
        gap, gap_low = pair_difference(log_q, log_q_low, log_p, log_p_low)
        gap, gap_low = pair_difference(gap, gap_low, base, base_low)
        step, step_low = pair_difference(gap, gap_low, own, own_low)
        small = some & (z < 1.0)
        step = tl.where(small, log1p_float(tl.where(small, z, 0.0)), step + step_low)
        moved, moved_low = add_to_pair(own, own_low, step)
        gap, gap_low = tl.where(small, moved, gap), tl.where(small, moved_low, gap_low)
        known = (total_p > 0.0) & (q_a + q_b > 0.0)
        between = tl.where(known, step - tl.where(compared, lighter * d, 0.0), 0.0)
    kl, kl_low = two_sum(a.kl * scale_a, b.kl * scale_b)
    kl_low += a.kl_low * scale_a + b.kl_low * scale_b
    kl, kl_low = add_to_pair(kl, kl_low, total_p * tl.maximum(between, 0.0))
    shared_p, mean_p, mean_p_low = total_p, gap, gap_low
    if MEAN_P:
        part, part_b = a.shared_p * scale_a, b.shared_p * scale_b
        mean_p, mean_p_low = join_means(a, part, a.mean_p, a.mean_p_low, b, part_b, b.mean_p, b.mean_p_low, turned)
        shared_p = part + part_b
    shared_q, mean_q, mean_q_low = q_a + q_b, gap, gap_low
    if MEAN_Q:
        part, part_b = a.shared_q * q_scale_a, b.shared_q * q_scale_b
        mean_q, mean_q_low = join_means(a, part, a.mean_q, a.mean_q_low, b, part_b, b.mean_q, b.mean_q_low, turned)
        shared_q = part + part_b
    return Row(top_p, total_p, total_p_low, top_q, q_a + q_b, base, base_low, gap, gap_low, kl, kl_low,
               shared_p, mean_p, mean_p_low, shared_q, mean_q, mean_q_low,
               tl.maximum(a.leaks, b.leaks), tl.maximum(a.wrong, b.wrong))  # fmt: skip


@triton.jit
def log_of_q(log_p, log_p_low, base, base_low, gap, gap_low):
    """The log of the sum of q's weights as a pair, from that of p's."""
    high, low = add_to_pair(log_p, log_p_low, base)
    high, low = add_to_pair(high, low + base_low, gap)
    return high, low + gap_low


@triton.jit
def probability(side, log_total, log_total_low):
    """e^(x - log_total), 0 outside the support."""
    below, below_low = two_difference(side.log, log_total)
    return tl.where(side.support, exp_pair(tl.minimum(below, 0.0), below_low + (side.low - log_total_low)), 0.0)


@triton.jit
def one_over(log_total, log_total_low):
    """e^-log_total."""
    return exp_pair(tl.minimum(-log_total, 88.0), -log_total_low)


@triton.jit
def gradient_to_q(p, q, v, log_p, log_p_low, log_q, log_q_low, inside, KIND: tl.constexpr):
    """∂KL/∂q: q - p from the larger of the two and v = log q/p, so that nothing cancels; per weight (q - p)/q."""
    shared = p.support & q.support
    _, lack = exp_below(-tl.abs(v))
    if KIND == LINEAR:
        inverse = exp_pair(tl.minimum(-v, 88.0), 0.0)
        entry = tl.where(v > 0.0, -lack, lack * tl.where(-v > 88.0, float("inf"), inverse))
        return tl.where(shared, entry, tl.where(inside & ~p.support, 1.0, 0.0)) * one_over(log_q, log_q_low)
    from_q = (v > 0.0) | ~p.support
    larger = Side(tl.where(from_q, q.log, p.log), tl.where(from_q, q.low, p.low), q.support, q.wrong)
    larger = probability(larger, tl.where(from_q, log_q, log_p), tl.where(from_q, log_q_low, log_p_low))
    return larger * tl.where(shared, tl.where(v > 0.0, -lack, lack), 1.0)


@triton.jit
def store_gradient(to, row, classes, columns, inside, entry, factor, state, scale, KIND: tl.constexpr):
    """Write a block of a gradient: times what comes in; 0 in a row that is infinite or left out, else NaN where it is.

    The state of a row is 0, or 1 where the gradient is zero, or 2 where the row has no meaning.
    """
    if KIND == SCALED:
        entry *= scale
    entry = tl.where(state == 1.0, 0.0, tl.where(state == 2.0, float("nan"), entry * factor))
    tl.store(to + row * classes + columns, entry.to(to.dtype.element_ty), mask=inside)


@triton.jit
def store_pair(at, high, low):
    """Write a pair."""
    tl.store(at, high)
    tl.store(at + 1, low)


@triton.jit
def load_pair(at):
    """Read a pair."""
    return tl.load(at), tl.load(at + 1)


@triton.jit
def end_of_row(keep, row, classes, HAS_KEEP: tl.constexpr):
    """How many classes of a row are read: none of a row that is left out."""
    end = classes
    if HAS_KEEP:
        end = tl.where(tl.load(keep + row) != 0, classes, 0)
    return end
