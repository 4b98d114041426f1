"""Blocks of rows in Triton: how a side is read, what a pair of blocks tells, and how blocks are joined.

Called by the kernels in `kl_rows/triton.py`, `entropy_rows/triton.py` and `f_rows/triton.py`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kullback.kernels.device_numbers.triton import (
    add_to_pair,
    exp_pair,
    expm1_below,
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


@triton.jit
def read_side(row, columns, stride, inside, smoothing, scale, scale_low, LINEAR: tl.constexpr, SCALED: tl.constexpr):
    """A block of one side.

    Returns:
        The log-weights as a pair, 0 outside the support; the support; whether an entry cannot be what it should.
    """
    value = tl.load(row + columns * stride, mask=inside, other=0.0).to(tl.float32)
    if LINEAR:
        weight, missing = two_sum(value, smoothing)
        support = inside & (weight > 0.0)
        wrong = inside & ~((weight >= 0.0) & (weight < float("inf")))
        safe = tl.where(support, weight, 1.0)
        high, low = log_pair(safe)
        low += tl.where(support, tl.div_rn(missing, safe), 0.0)
    else:
        support = inside & (value > float("-inf"))
        wrong = inside & ~(value < float("inf"))
        high = tl.where(support & (value < float("inf")), value, 0.0)
        low = tl.zeros_like(high)
        if SCALED:
            product, product_low = two_product(high, scale)
            high, low = two_sum(product, tl.fma(high, scale_low, product_low))
    return high, low, support, wrong


@triton.jit
def sum_side(high, low, support):
    """The largest log-weight of a block (0 where there is none), e^(log-weight - largest) and their sum."""
    top = tl.max(tl.where(support, high, float("-inf")), 0)
    top = tl.where(top > float("-inf"), top, 0.0)
    below, below_low = two_difference(high, top)
    weight = tl.where(support, exp_pair(tl.where(support, below, 0.0), below_low + low), 0.0)
    return top, weight, tl.sum(weight, 0)


@triton.jit
def ratio_terms(p, q, v, v_low):
    """Of a class with probabilities p and q and log-ratio v: p φ(v) and q - p, neither with cancellation.

    Where one of the two is zero, v has to be 0 or finite; the first number is then q.
    """
    far = (tl.abs(v) > 1.0) | (p == 0.0) | (q == 0.0)
    w = tl.where(far, 0.0, v)
    w_low = tl.where(far, 0.0, v_low)
    # d/dv of v² φ(v) is e^v - 1, of which two terms are enough beside a rounding of v.
    curved = tl.fma(w * w, phi(w), w_low * tl.fma(0.5 * w, w, w))
    bent = tl.where(far, (q - p) - p * v, p * curved)
    return bent, tl.where(far, q - p, p * (w + (curved + w_low)))


@triton.jit
def compare_masses(p, q, shared, u, u_low, gap, gap_low):
    """Sums of `ratio_terms` over a block, for log-ratios u - gap."""
    v, v_low = pair_difference(u, u_low, gap, gap_low)
    bent, excess = ratio_terms(p, q, tl.where(shared, v, 0.0), tl.where(shared, v_low, 0.0))
    return tl.sum(bent, 0), tl.sum(excess, 0)


@triton.jit
def compare_block(x, x_low, in_p, y, y_low, in_q, CENTRE: tl.constexpr):
    """Of one block: the sums of both sides, the log of their ratio, KL(p || q) within the block, and E_p u.

    With u = log-weight of q less that of p and D an approximation of log Σe^y/Σe^x, let X = Σ p φ(u - D) and
    E = Σ (q - p). Whatever D is, KL = X - (E - log(1 + E)) and log(1 + E) is what D lacks. Both parts are
    non-negative and the second is far below the first once D is known to a fraction of a typical u - D.
    """
    top_p, weight_p, total_p = sum_side(x, x_low, in_p)
    top_q, weight_q, total_q = sum_side(y, y_low, in_q)
    shared = in_p & in_q
    u, u_low = pair_difference(y, y_low, x, x_low)
    u, u_low = tl.where(shared, u, 0.0), tl.where(shared, u_low, 0.0)
    some_p, some_q = tl.where(total_p > 0.0, total_p, 1.0), tl.where(total_q > 0.0, total_q, 1.0)
    # q in units of 1/Σe^x, so that one division of the sums normalises both.
    weight_q *= tl.div_rn(some_p, some_q)
    gap, gap_low = two_difference(top_q, top_p)
    gap, gap_low = add_to_pair(gap, gap_low, log_float(tl.div_rn(some_q, some_p)))
    bent, excess = compare_masses(weight_p, weight_q, shared, u, u_low, gap, gap_low)
    bent, excess = tl.div_rn(bent, some_p), tl.div_rn(excess, some_p)
    known = (total_p > 0.0) & (total_q > 0.0)
    excess = tl.where(known, excess, 0.0)
    if excess * excess > 0.01 * bent:
        gap, gap_low = add_to_pair(gap, gap_low, log1p_float(excess))
        bent, excess = compare_masses(weight_p, weight_q, shared, u, u_low, gap, gap_low)
        bent, excess = tl.div_rn(bent, some_p), tl.where(known, tl.div_rn(excess, some_p), 0.0)
    gap, gap_low = add_to_pair(gap, gap_low, log1p_float(excess))
    kl = tl.maximum(bent - log1p_remainder(excess), 0.0)
    centre, centre_low, shared_p = gap, gap_low, total_p
    if CENTRE:
        shared_p = tl.sum(tl.where(shared, weight_p, 0.0), 0)
        some = tl.where(shared_p > 0.0, shared_p, 1.0)
        for _ in tl.static_range(2):
            w, w_low = pair_difference(u, u_low, centre, centre_low)
            moment = tl.sum(tl.where(shared, weight_p * (w + w_low), 0.0), 0)
            centre, centre_low = add_to_pair(centre, centre_low, tl.div_rn(moment, some))
    return top_p, total_p, top_q, total_q, gap, gap_low, kl, shared_p, centre, centre_low


@triton.jit
def join_totals(top, total, top_b, total_b):
    """The sums e^top total and e^top_b total_b at their common scale: the larger top and both totals there."""
    joint = tl.where(total == 0.0, top_b, tl.where(total_b == 0.0, top, tl.maximum(top, top_b)))
    below, below_low = two_difference(top, joint)
    below_b, below_b_low = two_difference(top_b, joint)
    scaled = total * exp_pair(tl.where(total > 0.0, below, 0.0), below_low)
    return joint, scaled, total_b * exp_pair(tl.where(total_b > 0.0, below_b, 0.0), below_b_low)


@triton.jit
def share(part, other):
    """What two parts are of their sum."""
    total = part + other
    safe = tl.where(total > 0.0, total, 1.0)
    return tl.div_rn(part, safe), tl.div_rn(other, safe)


@triton.jit
def join_blocks(top_p, total_p, top_q, total_q, gap, gap_low, kl, shared_p, centre, centre_low,
                top_p_b, total_p_b, top_q_b, total_q_b, gap_b, gap_b_low, kl_b, shared_p_b, centre_b, centre_b_low,
                CENTRE: tl.constexpr):  # fmt: skip
    """What is known of the row so far and of one more block, together.

    By the chain rule KL = P KL_1 + P' KL_2 + KL((P, P') || (Q, Q')), P and Q the shares of the parts: no term is
    negative, so that the accuracy of a block is that of a row.
    """
    top_p, mass, mass_b = join_totals(top_p, total_p, top_p_b, total_p_b)
    p, p_b = share(mass, mass_b)
    if CENTRE:
        # At the scale of the sums of p.
        both = tl.where(total_p > 0.0, tl.div_rn(mass, tl.where(total_p > 0.0, total_p, 1.0)), 0.0) * shared_p
        both_b = (
            tl.where(total_p_b > 0.0, tl.div_rn(mass_b, tl.where(total_p_b > 0.0, total_p_b, 1.0)), 0.0) * shared_p_b
        )
        _, of_both_b = share(both, both_b)
        step, step_low = pair_difference(centre_b, centre_b_low, centre, centre_low)
        centre, centre_low = add_to_pair(centre, centre_low, of_both_b * (step + step_low))
        centre, centre_low = tl.where(both > 0.0, centre, centre_b), tl.where(both > 0.0, centre_low, centre_b_low)
        shared_p = both + both_b
    total_p = mass + mass_b
    top_q, mass, mass_b = join_totals(top_q, total_q, top_q_b, total_q_b)
    q, q_b = share(mass, mass_b)
    total_q = mass + mass_b
    some_p, some_q = tl.where(total_p > 0.0, total_p, 1.0), tl.where(total_q > 0.0, total_q, 1.0)
    joint, joint_low = two_difference(top_q, top_p)
    joint, joint_low = add_to_pair(joint, joint_low, log_float(tl.div_rn(some_q, some_p)))
    known = (total_p > 0.0) & (total_q > 0.0)
    between = 0.0
    for _ in tl.static_range(2):
        v, v_low = pair_difference(gap, gap_low, joint, joint_low)
        v_b, v_b_low = pair_difference(gap_b, gap_b_low, joint, joint_low)
        bent, excess = ratio_terms(p, q, v, v_low)
        bent_b, excess_b = ratio_terms(p_b, q_b, v_b, v_b_low)
        excess = tl.where(known, excess + excess_b, 0.0)
        between = tl.maximum(bent + bent_b - log1p_remainder(excess), 0.0)
        joint, joint_low = add_to_pair(joint, joint_low, log1p_float(excess))
    kl = p * kl + p_b * kl_b + tl.where(known, between, 0.0)
    return top_p, total_p, top_q, total_q, joint, joint_low, kl, shared_p, centre, centre_low


@triton.jit
def log_ratio(x, x_low, y, y_low, shared, gap, gap_low):
    """y - x less a centre, all pairs, as a float; 0 where it has no meaning."""
    u, u_low = pair_difference(y, y_low, x, x_low)
    v, v_low = pair_difference(u, u_low, gap, gap_low)
    return tl.where(shared, v + v_low, 0.0)


@triton.jit
def probability(x, x_low, support, log_total, log_total_low):
    """e^(x - log_total), 0 outside the support."""
    below, below_low = two_difference(x, log_total)
    return tl.where(support, exp_pair(tl.where(support, below, 0.0), below_low + (x_low - log_total_low)), 0.0)


@triton.jit
def one_over(log_total, log_total_low):
    """e^-log_total."""
    return exp_pair(tl.minimum(-log_total, 88.0), -log_total_low)


@triton.jit
def gradient_to_q(x, x_low, in_p, y, y_low, in_q, log_p, log_p_low, gap, gap_low, inside, LINEAR: tl.constexpr):
    """∂KL/∂q: q - p from the larger of the two and their log-ratio, so that nothing cancels; per weight (q - p)/q."""
    shared = in_p & in_q
    v = log_ratio(x, x_low, y, y_low, shared, gap, gap_low)
    lack = expm1_below(-tl.abs(v))
    log_q, log_q_low = two_sum(log_p, gap)
    log_q_low += log_p_low + gap_low
    if LINEAR:
        inverse = exp_pair(tl.where(shared, tl.minimum(-v, 88.0), 0.0), tl.zeros_like(v))
        inverse = tl.where(-v > 88.0, float("inf"), inverse)
        entry = tl.where(v > 0.0, -lack, lack * tl.where(v < 0.0, inverse, 1.0))
        return tl.where(shared, entry, tl.where(inside & ~in_p, 1.0, 0.0)) * one_over(log_q, log_q_low)
    from_q = (v > 0.0) | ~in_p
    log_total = tl.where(from_q, log_q, log_p)
    log_total_low = tl.where(from_q, log_q_low, log_p_low)
    larger = probability(tl.where(from_q, y, x), tl.where(from_q, y_low, x_low), in_q, log_total, log_total_low)
    return larger * tl.where(shared, tl.where(v > 0.0, -lack, lack), 1.0)
