// log(1 - e^x) and log(e^a - e^b).
#pragma once

#include "exp.h"
#include "log.h"

namespace kullback::KULLBACK_SET {

// log(1 - e^(x + low)) for x <= 0 and |low| an ulp of x; -inf at 0, NaN above. 1 - e^x = u + c: above -log 2 it is
// -expm1(x), which carries full relative accuracy; below, log1p(-e^x) does (Maechler 2012). Both share one exponential
// and one logarithm.
template <class T>
inline T log1mexp_of(T x, T low) {
    using F = Format<T>;
    const ExpParts<T> e = split_exp(clamp_exponent(x));
    const T half = (e.n * T(0.5) + F::kRound) - F::kRound;
    const T scale = power_of_two(half) * power_of_two(e.n - half);
    const T grown_m1 = (scale * e.r + scale * e.tail) + (scale - T(1));
    const T grown = scale * ((e.r + e.tail) + T(1));
    const bool near = x > T(-0.6931471805599453);
    const T u = near ? -(grown_m1 + grown * low) : T(1) - (grown + grown * low);
    const T argument = near ? u - T(1) : -(grown + grown * low);
    const Scaled<T> u2 = split_log(u);
    const bool unscaled = u2.exponent == T(0);
    const T c = near || unscaled ? T(0) : argument - (u - T(1));
    const T f = unscaled ? argument : u2.mantissa - T(1);
    const T s = f / (T(2) + f);
    const T z = s * s;
    const T tail = s * (T(2) * z * atanh_remainder_near(z) - f);
    const T correction = u2.exponent * F::kLog2Low + c / u;
    const T value = u2.exponent * F::kLog2High + (f + (tail + correction));
    return x < T(0) ? value : (x == T(0) ? -kInfinity<T> : kNaN<T>);
}

template <class T>
inline T log1mexp_of(T x) {
    return log1mexp_of(x, T(0));
}

// d/dx log(1 - e^x) = -1/expm1(-x); no number where the logarithm is none.
template <class T>
inline T log1mexp_slope(T x) {
    const T value = x == T(0) ? -kInfinity<T> : T(-1) / expm1_of(-x);
    return magnitude(x) == kInfinity<T> ? T(0) : (x > T(0) ? kNaN<T> : value);
}

template <class T>
struct Gap {
    T high, low;  // b - a = high + low exactly
};

template <class T>
inline Gap<T> gap_of(T a, T b) {
    const T high = b - a;
    const T back = high + a;
    const T low = (b - back) - (a - (back - high));
    // b = -inf removes nothing, also from a = -inf.
    const T removed = a != a ? a : -kInfinity<T>;
    return {b == -kInfinity<T> ? removed : high, magnitude(low) < kInfinity<T> ? low : T(0)};
}

// log(e^a - e^b) = a + log1mexp(b - a); the rounding error of b - a is carried along.
template <class T>
inline T logdiffexp_of(T a, T b) {
    const Gap<T> gap = gap_of(a, b);
    return a + log1mexp_of(gap.high, gap.low);
}

template <class T>
inline T logdiffexp_slope_a(T a, T b) {
    const Gap<T> gap = gap_of(a, b);
    const T grown_m1 = expm1_of(gap.high) + (expm1_of(gap.high) + T(1)) * gap.low;
    const T value = gap.high == T(0) ? kInfinity<T> : T(-1) / grown_m1;
    return magnitude(a) == kInfinity<T> ? T(0) : (gap.high > T(0) ? kNaN<T> : value);
}

template <class T>
inline T logdiffexp_slope_b(T a, T b) {
    const Gap<T> gap = gap_of(a, b);
    const T shrunk = expm1_of(-gap.high);
    const T grown_m1 = shrunk - (shrunk + T(1)) * gap.low;
    const T value = gap.high == T(0) ? -kInfinity<T> : T(-1) / (shrunk == kInfinity<T> ? shrunk : grown_m1);
    return magnitude(b) == kInfinity<T> ? T(0) : (gap.high > T(0) ? kNaN<T> : value);
}

}  // namespace kullback::KULLBACK_SET
