"""Float32 arithmetic of the Triton row kernels: pairs of floats, exp, log and their remainders.

Called by `device_rows/triton.py` and the kernels of each op. Nothing here uses the hardware's
approximate exp, log or division: `ex2.approx` and `div.full` are off by up to two roundings, which differ between
cards, so that what Triton's interpreter computes would not be what a card computes.

A pair (high, low) is an unevaluated sum of two floats and holds about 48 bits. The kernels are launched without
fusing of multiplications and additions, on which pairs depend; where a fused operation is meant it is written.
"""

from __future__ import annotations

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)
# log 2 in parts whose products with an exponent (at most 8 bits) are exact; the last one is rounded.
_LN2_A = tl.constexpr(0.693359375)
_LN2_B = tl.constexpr(-0.00021219253540039062)
_LN2_C = tl.constexpr(-1.904654290582768e-09)


@triton.jit
def two_sum(x, y):
    """x + y as a pair."""
    high = x + y
    part = high - x
    return high, (x - (high - part)) + (y - part)


@triton.jit
def two_difference(x, y):
    """x - y as a pair."""
    high = x - y
    part = high - x
    return high, (x - (high - part)) - (y + part)


@triton.jit
def two_product(x, y):
    """x y as a pair."""
    high = x * y
    return high, tl.fma(x, y, -high)


@triton.jit
def add_to_pair(high, low, x):
    """A pair and a float, as a pair."""
    total, missing = two_sum(high, x)
    return two_sum(total, missing + low)


@triton.jit
def pair_difference(x, x_low, y, y_low):
    """The difference of two pairs, as a pair."""
    high, low = two_difference(x, y)
    return two_sum(high, low + (x_low - y_low))


@triton.jit
def exp_reduced(high, low):
    """2^n and f with e^(high + low) = 2^n (1 + f), |f| < 0.42; for -87 <= high <= 88, low far below high."""
    # The addition of 1.5 · 2^23 rounds to a whole number n, which then stands in the last bits.
    shifted = tl.fma(high, _LOG2_E, 12582912.0)
    n = shifted - 12582912.0
    r = tl.fma(n, -_LN2_B, tl.fma(n, -_LN2_A, high)) + tl.fma(n, -_LN2_C, low)
    series = tl.fma(r, 0.00139262508315, 0.00836323288368)
    series = tl.fma(r, series, 0.041666554213)
    series = tl.fma(r, series, 0.166665766661)
    series = tl.fma(r, series, 0.5)
    power = ((shifted.to(tl.int32, bitcast=True) << 23) + 0x3F800000).to(tl.float32, bitcast=True)
    return power, tl.fma(r * r, series, r)


@triton.jit
def exp_pair(high, low):
    """e^(high + low) for high <= 88 with low far below high; e^-87, nothing beside a sum of 1, for all below."""
    power, f = exp_reduced(tl.maximum(high, -87.0), low)
    return tl.fma(power, f, power)


@triton.jit
def exp_below(x):
    """e^x and e^x - 1 for x <= 0; 0 and -1 below -87."""
    power, f = exp_reduced(tl.maximum(x, -87.0), 0.0)
    inside = x > -87.0
    return tl.where(inside, tl.fma(power, f, power), 0.0), tl.where(inside, tl.fma(power, f, power - 1.0), -1.0)


@triton.jit
def atanh_tail(s):
    """(2 atanh s)/s - 2 for |s| <= 1/3: s² (2/3 + 2/5 s² + ...)."""
    z = s * s
    series = tl.fma(z, 0.1333333333, 0.1538461538)
    series = tl.fma(z, series, 0.1818181818)
    series = tl.fma(z, series, 0.2222222222)
    series = tl.fma(z, series, 0.2857142857)
    series = tl.fma(z, series, 0.4)
    series = tl.fma(z, series, 0.6666666667)
    return z * series


@triton.jit
def split_exponent(x):
    """x = 2^k m with m from √½ to √2, for normal x > 0."""
    bits = x.to(tl.int32, bitcast=True)
    k = (bits - 0x3F3504F3) >> 23
    return k.to(tl.float32), (bits - (k << 23)).to(tl.float32, bitcast=True)


@triton.jit
def log_float(x):
    """The logarithm of a normal float, to about one rounding."""
    k, m = split_exponent(x)
    f = m - 1.0
    s = tl.div_rn(f, 2.0 + f)
    # 2 s = f - f s: the first term is exact.
    return tl.fma(k, _LN2_A, f) + (tl.fma(k, _LN2_B, s * (atanh_tail(s) - f)))


@triton.jit
def log1p_float(x):
    """log(1 + x) for x > -1, to about one rounding of the result."""
    near = tl.abs(x) < 0.4
    t = tl.where(near, x, 0.0)
    s = tl.div_rn(t, 2.0 + t)
    return tl.where(near, t + s * (atanh_tail(s) - t), log_float(tl.where(near, 1.0, 1.0 + x)))


@triton.jit
def log1p_remainder(x):
    """x - log(1 + x) >= 0 for x > -1."""
    near = tl.abs(x) < 0.4
    t = tl.where(near, x, 0.0)
    s = tl.div_rn(t, 2.0 + t)
    return tl.where(near, s * (t - atanh_tail(s)), x - log_float(tl.where(near, 1.0, 1.0 + x)))


@triton.jit
def log_pair(x):
    """The logarithm of a positive float as a pair, off by about 1e-13.

    log m = 2 atanh s, s = (m - 1)/(m + 1); the terms in s, s³ and s⁵ are computed with pairs.
    """
    small = x < 1e-37
    k, m = split_exponent(tl.where(small, x * 16777216.0, x))
    k = tl.where(small, k - 24.0, k)
    f = m - 1.0
    below, below_low = two_sum(f, 2.0)
    s = tl.div_rn(f, below)
    s_low = tl.div_rn(tl.fma(-s, below, f) - s * below_low, below)
    z, z_low = two_product(s, s)
    z_low += 2.0 * s * s_low
    # 2/3 + 2/5 z + z² (2/7 + ...): two pairs and a float.
    series = tl.fma(z, 0.1538461538, 0.1818181818)
    series = tl.fma(z, series, 0.2222222222)
    series = tl.fma(z, series, 0.2857142857)
    fifth, fifth_low = two_product(z, 0.4000000059604645)
    fifth_low += z_low * 0.4 - z * 5.9604645e-09
    inner, inner_low = two_sum(0.6666666865348816, fifth)
    inner_low += fifth_low + (z * z * series - 1.9868215e-08)
    # times z s
    cube, cube_low = two_product(z, s)
    cube_low += z * s_low + z_low * s
    tail, tail_low = two_product(cube, inner)
    tail_low += cube * inner_low + cube_low * inner
    high, low = two_sum(k * _LN2_A, 2.0 * s)
    low += (tail_low + 2.0 * s_low) + k * _LN2_C
    middle, middle_low = two_sum(k * _LN2_B, tail)
    total, missing = two_sum(high, middle)
    return two_sum(total, missing + (low + middle_low))


@triton.jit
def phi(v):
    """(e^v - 1 - v)/v² for |v| <= 2, to 0.3 roundings before those of the evaluation."""
    series = tl.fma(v, 2.20554508e-09, 2.6708717e-08)
    series = tl.fma(v, series, 2.75157106e-07)
    series = tl.fma(v, series, 2.74987678e-06)
    series = tl.fma(v, series, 2.48021843e-05)
    series = tl.fma(v, series, 0.000198421098)
    series = tl.fma(v, series, 0.00138888857)
    series = tl.fma(v, series, 0.00833332911)
    series = tl.fma(v, series, 0.0416666679)
    series = tl.fma(v, series, 0.166666672)
    return tl.fma(v, series, 0.5)
