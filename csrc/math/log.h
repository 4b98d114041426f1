// Logarithms by log(a/b) = k log 2 + 2 atanh(s), s = (a - b)/(a + b), without branches.
//
// a - b is exact when a and b are within a factor of two, so the logarithm of a ratio near 1 is accurate however near.
#pragma once

#include "bits.h"
#include "coefficients.h"

namespace kullback::KULLBACK_SET {

// (atanh(s)/s - 1) / s^2 for s^2 = z <= 1/4.
template <class T>
[[gnu::always_inline]] inline T atanh_remainder(T z) {
    if constexpr (sizeof(T) == 8) return horner(z, coefficients::kAtanhDouble);
    else return horner(z, coefficients::kAtanhFloat);
}

template <class T>
struct Scaled {
    T exponent, mantissa;  // x = 2^exponent * mantissa
};

// Mantissa in [sqrt(1/2), sqrt(2)) for a positive finite x, subnormal ones included.
template <class T>
[[gnu::always_inline]] inline Scaled<T> split_log(T x) {
    using F = Format<T>;
    using Int = typename F::Bits;
    const bool subnormal = x < F::kSmallestNormal;
    const Int bits = bit_cast<Int>(subnormal ? x * F::kUpscale : x);  // positive: shifts need no sign
    const T offset = subnormal ? T(F::kBias + F::kUpscaleBits) : T(F::kBias);
    // Biased by kBias so that the shift is one of a positive number; the exponent then becomes a float by placing it
    // in the fraction of 2^kFraction, because not every instruction set converts 64-bit integers.
    const Int biased = (bits + (F::kOne - F::kRootHalf)) >> F::kFraction;
    const Int carrier = (F::kBias + F::kFraction) << F::kFraction;
    const T exponent = bit_cast<T>(biased | carrier) - bit_cast<T>(carrier) - offset;
    return {exponent, bit_cast<T>(bits - ((biased - F::kBias) << F::kFraction))};
}

// log(x) for x > 0; -inf at 0, NaN below.
template <class T>
[[gnu::always_inline]] inline T log_of(T x) {
    using F = Format<T>;
    const Scaled<T> x2 = split_log(x);
    const T f = x2.mantissa - T(1);
    const T s = f / (x2.mantissa + T(1));
    const T z = s * s;
    // 2 atanh(s) = f - s (f - 2 z remainder): f is exact, the rest is small beside it.
    const T tail = s * (T(2) * z * atanh_remainder(z) - f);
    const T value = x2.exponent * F::kLog2High + (f + (tail + x2.exponent * F::kLog2Low));
    const T above = x == kInfinity<T> ? kInfinity<T> : value;
    return x > T(0) ? above : (x == T(0) ? -kInfinity<T> : kNaN<T>);
}

// 1 + x = u + c exactly; log(1+x) = k log 2 + log(1+f) + c/u, with f = x where k = 0.
template <class T>
struct Log1pParts {
    T k, u, c, f, tail;  // tail = log(1+f) - f
};

template <class T>
[[gnu::always_inline]] inline Log1pParts<T> split_log1p(T x) {
    const T u = T(1) + x;
    const T c = u > T(2) ? T(1) - (u - x) : x - (u - T(1));
    const Scaled<T> u2 = split_log(u);
    const bool near = u2.exponent == T(0);
    const T f = near ? x : u2.mantissa - T(1);
    const T s = f / (T(2) + f);
    const T z = s * s;
    return {u2.exponent, u, near ? T(0) : c, f, s * (T(2) * z * atanh_remainder(z) - f)};
}

template <class T>
[[gnu::always_inline]] inline T log1p_edges(T x, T value) {
    const T above = x == kInfinity<T> ? kInfinity<T> : value;
    return x > T(-1) ? above : (x == T(-1) ? -kInfinity<T> : kNaN<T>);
}

template <class T>
[[gnu::always_inline]] inline T log1p_of(T x) {
    using F = Format<T>;
    const Log1pParts<T> p = split_log1p(x);
    const T correction = p.tail + (p.k * F::kLog2Low + p.c / p.u);
    return log1p_edges(x, p.k * F::kLog2High + (p.f + correction));
}

// log(1 + x) - x <= 0. Between -0.6 and 1.2 it is s (2 z remainder - x) with s = x/(2+x), z = s^2: the cancelling terms
// have become a product. Outside, f - x = (m - u) - c with u = 2^k m, and k log 2 joins whichever part is exact: m - u for
// k = 1 and -1, where it is a power of two times u; m below, where the two cancel.
//
[[gnu::always_inline]] inline double log1pmx_inside(double x) {
    const double u = 1 + x;
    const double c = u > 2 ? 1 - (u - x) : x - (u - 1);
    const Scaled<double> u2 = split_log(u);
    const bool near = (x < 0 ? -2 * x : x) < 1.2;
    const double f = near ? x : u2.mantissa - 1;
    const double s = f / (2 + f), square = s * s;
    const double tail = s * (2 * square * atanh_remainder(square) - f);
    const double k = u2.exponent, m = u2.mantissa;
    const double multiple = k * Format<double>::kLog2High;
    const double apart = multiple + (m - u), joined = (multiple + m) - u;
    const double rest = tail + (k * Format<double>::kLog2Low + (c / u - c));
    return near ? tail : (k < -1 ? joined : apart) + rest;
}

// A float in double: 1 + x and x - f are exact enough as they stand. Only the polynomial is evaluated in float, because
// its term is small beside the others.
[[gnu::always_inline]] inline float log1pmx_inside(float x) {
    const double wide = x, u = 1 + wide;
    const double k = double(split_log(float(u)).exponent);
    const double f = k == 0 ? wide : u * power_of_two(-k) - 1;
    const double s = f / (2 + f), square = s * s;
    const double tail = s * (2 * square * double(atanh_remainder(float(square))) - f);
    return float((k * 0.6931471805599453 + (f - wide)) + tail);
}

template <class T>
[[gnu::always_inline]] inline T log1pmx_of(T x) {
    const T value = log1pmx_inside(x);
    const T above = x == kInfinity<T> ? -kInfinity<T> : value;
    return x > T(-1) ? above : (x == T(-1) ? -kInfinity<T> : kNaN<T>);
}

// log(p/q) = k log 2 + 2 s (1 + s^2 remainder), |s| <= 1/2. In double for every input type; a narrow one only takes its
// exponents apart and evaluates the polynomial in its own precision, where lanes are twice as many.
struct LogRatio {
    double k, s, remainder;
};

// For positive finite p and q of any size: their exponents and mantissas are compared separately, p/q is never formed.
template <class T>
[[gnu::always_inline]] inline LogRatio split_log_ratio(T p, T q) {
    const Scaled<T> p2 = split_log(p), q2 = split_log(q);
    const T k = p2.exponent - q2.exponent;
    // Ratios between 0.4 and 2.5 need no multiple of log 2: bring p's mantissa to q's exponent instead.
    const T few = k > T(2) ? T(2) : (k < T(-2) ? T(-2) : k);
    const T moved = p2.mantissa * power_of_two(few);
    const bool direct = few == k && moved < T(2.5) * q2.mantissa && moved > T(0.4) * q2.mantissa;
    const T m = direct ? moved : p2.mantissa;
    const T left = direct ? T(0) : k;
    const double s = (double(m) - double(q2.mantissa)) / (double(m) + double(q2.mantissa));
    return {double(left), s, double(atanh_remainder(T(s * s)))};
}

[[gnu::always_inline]] inline double log_of(const LogRatio& l) {
    using F = Format<double>;
    const double twice = l.s + l.s;
    return l.k * F::kLog2High + (twice + (twice * (l.s * l.s) * l.remainder + l.k * F::kLog2Low));
}

}  // namespace kullback::KULLBACK_SET
