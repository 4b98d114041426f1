"""A KL(p || m) + B KL(q || m), m = αp + βq, of rows on a GPU, by Triton: skewed KL and the Jensen-Shannon family.

One program per row. The terms depend on q/p, which needs the sums of both sides: the forward pass reads the row once
for them (`compare_block`) and again for the terms; the second read finds what the cache still holds. The backward pass
reads both sides once and writes the gradients p (h_p - E_p h_p) and q (h_q - E_q h_q).

With w = q/p - 1, g(w) = w - log(1 + w) >= 0 and r = (q - p)/m,

    value = Σ A p g(β (q/p - 1)) + B q g(α (p/q - 1)),
    h_p = -A g(-βr) - k r,    h_q = -B g(αr) + k r,    k = A β² + B α².

Where most classes have nearly the same ratio q/p = t, their h differ by less than h is rounded to. So h_p is taken
about log t = E_p log q/p and h_q about E_q log q/p: with P = α/(α + βt), Q = 1 - P and the weights A and B t, the same
formulas at q/(p t) give h_p less its value at t, and h_q less its own times t.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from kullback.kernels.device_numbers.triton import (
    add_to_pair,
    atanh_tail,
    exp_below,
    exp_pair,
    log1p_remainder,
    log_float,
    pair_difference,
    split_exponent,
)
from kullback.kernels.device_rows.triton import (
    LINEAR,
    Side,
    compare_block,
    end_of_row,
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


class Mixture(NamedTuple):
    """The shares of p and q in m, and what multiplies KL(p || m) and KL(q || m)."""

    alpha: tl.tensor
    beta: tl.tensor
    a: tl.tensor
    b: tl.tensor


class Mixed(NamedTuple):
    """Of one class: the terms of the value over the larger probability, and the slopes h_p and h_q."""

    value: tl.tensor
    slope_p: tl.tensor
    slope_q: tl.tensor


class Pivot(NamedTuple):
    """The ratio t about which slopes are taken: log t + gap as a pair, t, and the mixture there."""

    log: tl.tensor
    log_low: tl.tensor
    ratio: tl.tensor
    mixture: Mixture


@triton.jit
def mix_class(of, v):
    """The terms of classes with log q/p = v.

    From the larger probability and s = e^-|v|, the lesser one over it, so that nothing overflows; where q is the
    larger one, A and B, α and β change places. y is m over the larger one.
    """
    turned = v > 0.0
    alpha, beta = tl.where(turned, of.beta, of.alpha), tl.where(turned, of.alpha, of.beta)
    weight, other = tl.where(turned, of.b, of.a), tl.where(turned, of.a, of.b)
    x = -tl.abs(v)
    s, s_less_one = exp_below(x)
    w, y = beta * s_less_one, alpha + beta * s
    # log y = k log 2 + log(1 + rest); above y = 1/2 the rest is w, which is known better than y - 1.
    k, mantissa = split_exponent(y)
    k, rest = tl.where(y > 0.5, 0.0, k), tl.where(y > 0.5, w, mantissa - 1.0)
    up = -alpha * s_less_one  # s (m over the lesser one, less 1)
    near = up < s
    below, below_up = 2.0 + rest, 2.0 * s + up
    over = tl.div_rn(1.0, below * below_up)
    z, z_up = rest * (below_up * over), tl.where(near, up, 0.0) * (below * over)
    log_less_w = (k * 0.6931471805599453 + (rest - w)) + z * (atanh_tail(z) - rest)
    log_y = log_less_w + w
    # s g of the lesser one: by the series while its w is below 1, else from log(1 + w) = log y/s.
    some = s > 1e-30
    log_up = tl.where(some, log_float(tl.div_rn(y, tl.where(some, s, 1.0))), log_y - x)
    lesser = tl.where(near, z_up * (up - s * atanh_tail(z_up)), up - s * log_up)
    value = other * lesser - weight * log_less_w

    r = tl.div_rn(s_less_one, y)
    moved = (of.a * of.beta * of.beta + of.b * of.alpha * of.alpha) * r
    tilt = weight * beta - other * alpha
    # 1/y = p/m may be large; its slope is then α r (A β - B α) - A log y.
    of_larger = tl.where(y > 0.5, -weight * (log_less_w + w * (beta * r)) - moved, alpha * r * tilt - weight * log_y)
    remainder = tl.where(near, tl.div_rn(tl.div_rn(up * up, y) - lesser, tl.where(near, s, 1.0)), alpha * r + log_up)
    of_lesser = moved - other * remainder
    return Mixed(value, tl.where(turned, of_lesser, of_larger), tl.where(turned, of_larger, of_lesser))


@triton.jit
def alone(share, rest):
    """The number -log(share) - rest for share + rest = 1: g(-rest), the term of a class that one side has alone."""
    return tl.where(rest < 0.4, log1p_remainder(-tl.minimum(rest, 0.4)), -log_float(share) - rest)


@triton.jit
def only_p(of):
    """Value and h_p, per unit of p, of a class with q = 0."""
    return of.a * alone(of.alpha, of.beta) + of.b * of.alpha


@triton.jit
def only_q(of):
    """Value and h_q, per unit of q, of a class with p = 0."""
    return of.b * alone(of.beta, of.alpha) + of.a * of.beta


@triton.jit
def pivot_at(of, mean, mean_low, gap, gap_low):
    """The pivot at log t = mean - gap, kept within ±30: beyond, p or q is all of m."""
    log_t, log_t_low = pair_difference(mean, mean_low, gap, gap_low)
    log_t = tl.minimum(tl.maximum(log_t + log_t_low, -30.0), 30.0)
    log, log_low = add_to_pair(gap, gap_low, log_t)
    ratio = exp_pair(log_t, 0.0)
    total = of.alpha + of.beta * ratio
    mixture = Mixture(tl.div_rn(of.alpha, total), tl.div_rn(of.beta * ratio, total), of.a, of.b * ratio)
    return Pivot(log, log_low, ratio, mixture)


@triton.jit
def mixture_forward(
    p, q, keep, value, statistics, classes,
    p_row, p_class, q_row, q_class, p_smoothing, q_smoothing, p_scale, p_scale_low, q_scale, q_scale_low,
    alpha, beta, a, b,
    HAS_KEEP: tl.constexpr, P_KIND: tl.constexpr, Q_KIND: tl.constexpr,
    TO_P: tl.constexpr, TO_Q: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The divergence of one row, and with TO_P, TO_Q what the gradients to p and q need."""
    row = tl.program_id(0).to(tl.int64)
    end = end_of_row(keep, row, classes, HAS_KEEP)
    zero = tl.full((), 0.0, tl.float32)
    of = Mixture(alpha + zero, beta + zero, a + zero, b + zero)
    known = no_classes()
    for start in range(0, end, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < classes
        of_p = read_side(p + row * p_row, columns, p_class, inside, p_smoothing, p_scale, p_scale_low, P_KIND)
        of_q = read_side(q + row * q_row, columns, q_class, inside, q_smoothing, q_scale, q_scale_low, Q_KIND)
        block = compare_block(of_p, of_q, known, TO_P, TO_Q)
        known = join_blocks(known, block, TO_P, TO_Q)
    left_out = end == 0
    undefined = ((known.wrong != 0) | (known.total_p == 0.0) | (known.total_q == 0.0)) & ~left_out
    log_p, log_p_low = log_of_sum(known.top_p, known.total_p)
    log_q, log_q_low = log_of_sum(known.top_q, known.total_q)
    about_p = pivot_at(of, known.mean_p, known.mean_p_low, known.gap, known.gap_low)
    about_q = pivot_at(of, known.mean_q, known.mean_q_low, known.gap, known.gap_low)

    total, total_low, slope_p, slope_q = zero, zero, zero, zero
    for start in range(0, end, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < classes
        of_p = read_side(p + row * p_row, columns, p_class, inside, p_smoothing, p_scale, p_scale_low, P_KIND)
        of_q = read_side(q + row * q_row, columns, q_class, inside, q_smoothing, q_scale, q_scale_low, Q_KIND)
        shared = of_p.support & of_q.support
        u, u_low = log_weight_ratio(of_p, of_q, known.base, known.base_low)
        v = less_centre(u, u_low, shared, known.gap, known.gap_low)
        # The larger probability of a class; of one that only one side has, that side's.
        turned = tl.where(shared, v > 0.0, of_q.support)
        larger = Side(tl.where(turned, of_q.log, of_p.log), tl.where(turned, of_q.low, of_p.low),
                      of_p.support | of_q.support, of_p.wrong)  # fmt: skip
        larger = probability(larger, tl.where(turned, log_q, log_p), tl.where(turned, log_q_low, log_p_low))
        terms = tl.where(shared, mix_class(of, v).value, tl.where(turned, only_q(of), only_p(of)))
        total, total_low = add_to_pair(total, total_low, tl.sum(larger * terms, 0))
        if TO_P:
            slopes = mix_class(about_p.mixture, less_centre(u, u_low, shared, about_p.log, about_p.log_low)).slope_p
            slopes = tl.where(shared, slopes, only_p(about_p.mixture))
            slope_p += tl.sum(probability(of_p, log_p, log_p_low) * slopes, 0)
        if TO_Q:
            slopes = mix_class(about_q.mixture, less_centre(u, u_low, shared, about_q.log, about_q.log_low)).slope_q
            slopes = tl.where(shared, slopes, only_q(about_q.mixture))
            slope_q += tl.sum(probability(of_q, log_q, log_q_low) * slopes, 0)
    tl.store(value + row, tl.where(undefined, float("nan"), tl.maximum(total + total_low, 0.0)))
    if TO_P or TO_Q:
        at = statistics + row * 13
        store_pair(at, log_p, log_p_low)
        store_pair(at + 2, known.base, known.base_low)
        store_pair(at + 4, known.gap, known.gap_low)
        store_pair(at + 6, known.mean_p, known.mean_p_low)
        store_pair(at + 8, known.mean_q, known.mean_q_low)
        tl.store(at + 10, slope_p)
        tl.store(at + 11, slope_q)
        tl.store(at + 12, tl.where(undefined, 2.0, tl.where(left_out, 1.0, 0.0)))


@triton.jit
def mixture_backward(
    p, q, grad, statistics, to_p, to_q, classes, grad_row,
    p_row, p_class, q_row, q_class, p_smoothing, q_smoothing, p_scale, p_scale_low, q_scale, q_scale_low,
    alpha, beta, a, b,
    P_KIND: tl.constexpr, Q_KIND: tl.constexpr, TO_P: tl.constexpr, TO_Q: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of a block of one row, times the incoming one."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    zero = tl.full((), 0.0, tl.float32)
    of = Mixture(alpha + zero, beta + zero, a + zero, b + zero)
    at = statistics + row * 13
    log_p, log_p_low = load_pair(at)
    base, base_low = load_pair(at + 2)
    gap, gap_low = load_pair(at + 4)
    state, factor = tl.load(at + 12), tl.load(grad + row * grad_row).to(tl.float32)
    of_p = read_side(p + row * p_row, columns, p_class, inside, p_smoothing, p_scale, p_scale_low, P_KIND)
    of_q = read_side(q + row * q_row, columns, q_class, inside, q_smoothing, q_scale, q_scale_low, Q_KIND)
    shared = of_p.support & of_q.support
    u, u_low = log_weight_ratio(of_p, of_q, base, base_low)
    if TO_P:
        mean, mean_low = load_pair(at + 6)
        about = pivot_at(of, mean, mean_low, gap, gap_low)
        slopes = mix_class(about.mixture, less_centre(u, u_low, shared, about.log, about.log_low)).slope_p
        less = tl.where(of_q.support, slopes, only_p(about.mixture)) - tl.load(at + 10)
        if P_KIND == LINEAR:
            # The slope at p = 0 < q is infinite, and 0 by convention.
            entry = tl.where(of_q.support & ~of_p.support, 0.0, less) * one_over(log_p, log_p_low)
        else:
            entry = less * probability(of_p, log_p, log_p_low)
        store_gradient(to_p, row, classes, columns, inside, entry, factor, state, p_scale, P_KIND)
    if TO_Q:
        mean, mean_low = load_pair(at + 8)
        about = pivot_at(of, mean, mean_low, gap, gap_low)
        log_q, log_q_low = log_of_q(log_p, log_p_low, base, base_low, gap, gap_low)
        mean = tl.load(at + 11)
        slopes = mix_class(about.mixture, less_centre(u, u_low, shared, about.log, about.log_low)).slope_q
        less = tl.where(of_p.support, slopes, only_q(about.mixture)) - mean
        if Q_KIND == LINEAR:
            # At q = 0 < p the slope is -A Q²/P, and infinite, 0 by convention, where KL(q || m) takes part.
            at_zero = -a * tl.div_rn(about.mixture.beta * about.mixture.beta, about.mixture.alpha) - mean
            at_zero = tl.where(b == 0.0, at_zero, 0.0)
            entry = tl.where(of_p.support & ~of_q.support, at_zero, less) * one_over(log_q, log_q_low)
        else:
            entry = less * probability(of_q, log_q, log_q_low)
        entry = tl.div_rn(entry, about.ratio)
        store_gradient(to_q, row, classes, columns, inside, entry, factor, state, q_scale, Q_KIND)
