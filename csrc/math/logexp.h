// log(1 - e^x) and log(e^a - e^b).
#pragma once

#include "exp.h"
#include "log.h"

namespace kullback::KULLBACK_SET {

// log(1 - e^(x + x_low)) for x < 0 and |x_low| an ulp of x, as a sum. Below -1.23 it is log1p of -e^x, above the logarithm
// of 1 - e^x (Maechler 2012): v = -e^x or 1 - e^x, a sum of terms in falling order whose rounding errors are v_low. All is
// times 2^kUp, so that subnormal numbers are formed once, at the end.
template <class T>
[[gnu::always_inline]] inline Sum<T> log1mexp_parts(T x, T x_low) {
    using F = Format<T>;
    using Bits = typename F::Bits;
    constexpr int kUp = sizeof(T) == 8 ? 128 : 64;
    constexpr T kOne = sizeof(T) == 8 ? T(0x1p128) : T(0x1p64);
    constexpr Bits kCarrier = Bits(F::kBias + F::kFraction) << F::kFraction;
    const ExpParts<T> e = split_exp(x < F::kSmallestExponent ? F::kSmallestExponent : x);
    const T scale = power_of_two(e.n + T(kUp)), first = scale * e.r, second = scale * (e.tail + (e.lost + x_low));
    const bool far = x < T(-1.23);
    const T whole = (far ? T(0) : kOne) - scale, most = whole - first, v = most - second;
    const T v_low = ((whole - most) - first) + ((most - v) - second);
    // 1 - e^x = 2^k (1 + f), where k = 0 below -1.23.
    const T u = far ? kOne + v : v;
    const Bits bits = bit_cast<Bits>(u), biased = (bits + Bits(F::kOne - F::kRootHalf)) >> F::kFraction;
    const T k = bit_cast<T>(biased | kCarrier) - (bit_cast<T>(kCarrier) + T(F::kBias + kUp));
    const T mantissa = bit_cast<T>(bits - ((biased - Bits(F::kBias)) << F::kFraction));
    const T f = far ? v * (T(1) / kOne) : mantissa - T(1);
    const T sum = T(2) + f, inverse = T(1) / (sum * u);  // one division for f/(2+f) and v_low/u
    const T s = f * (u * inverse), z = s * s;
    const T tail = s * ((z + z) * atanh_remainder_near(z) - f);
    const T multiple = k * F::kLog2High, high = multiple + f;
    return {high, ((multiple - high) + f) + (tail + (k * F::kLog2Low + v_low * (sum * inverse)))};
}

// The value for x < 0; -inf at 0, NaN above.
template <class T>
[[gnu::always_inline]] inline T below_zero(T x, T value) {
    return x < T(0) ? value : (x == T(0) ? -kInfinity<T> : kNaN<T>);
}

template <class T>
[[gnu::always_inline]] inline T log1mexp_of(T x) {
    const Sum<T> log = log1mexp_parts(x, T(0));
    return below_zero(x, log.high + log.low);
}

// d/dx log(1 - e^x) = -1/expm1(-x); no number where the logarithm is none.
template <class T>
[[gnu::always_inline]] inline T log1mexp_slope(T x) {
    const T value = x == T(0) ? -kInfinity<T> : T(-1) / expm1_of(-x);
    return magnitude(x) == kInfinity<T> ? T(0) : (x > T(0) ? kNaN<T> : value);
}

template <class T>
struct Gap {
    T high, low;  // b - a = high + low exactly
};

template <class T>
[[gnu::always_inline]] inline Gap<T> gap_of(T a, T b) {
    const T high = b - a;
    const T back = high + a;
    const T low = (b - back) - (a - (back - high));
    // b = -inf removes nothing, also from a = -inf.
    const T removed = a != a ? a : -kInfinity<T>;
    return {b == -kInfinity<T> ? removed : high, magnitude(low) < kInfinity<T> ? low : T(0)};
}

// log(e^a - e^b) = a + log1mexp(b - a); the rounding errors of b - a and of the sum are carried along.
template <class T>
[[gnu::always_inline]] inline T logdiffexp_of(T a, T b) {
    const Gap<T> gap = gap_of(a, b);
    const Sum<T> log = log1mexp_parts(gap.high, gap.low);
    const T sum = a + log.high, back = sum - a, lost = (a - (sum - back)) + (log.high - back);
    return below_zero(gap.high, sum + (log.low + (magnitude(lost) < kInfinity<T> ? lost : T(0))));
}

template <class T>
[[gnu::always_inline]] inline T logdiffexp_slope_a(T a, T b) {
    const Gap<T> gap = gap_of(a, b);
    const T grown_m1 = expm1_of(gap.high) + (expm1_of(gap.high) + T(1)) * gap.low;
    const T value = gap.high == T(0) ? kInfinity<T> : T(-1) / grown_m1;
    return magnitude(a) == kInfinity<T> ? T(0) : (gap.high > T(0) ? kNaN<T> : value);
}

template <class T>
[[gnu::always_inline]] inline T logdiffexp_slope_b(T a, T b) {
    const Gap<T> gap = gap_of(a, b);
    const T shrunk = expm1_of(-gap.high);
    const T grown_m1 = shrunk - (shrunk + T(1)) * gap.low;
    const T value = gap.high == T(0) ? -kInfinity<T> : T(-1) / (shrunk == kInfinity<T> ? shrunk : grown_m1);
    return magnitude(b) == kInfinity<T> ? T(0) : (gap.high > T(0) ? kNaN<T> : value);
}

}  // namespace kullback::KULLBACK_SET
