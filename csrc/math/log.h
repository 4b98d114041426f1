// Logarithms by log(a/b) = k log 2 + 2 atanh(s), s = (a - b)/(a + b), without branches.
//
// a - b is exact when a and b are within a factor of two, so the logarithm of a ratio near 1 is accurate however near.
#pragma once

#include "coefficients.h"
#include "fused.h"

namespace kullback::KULLBACK_SET {

// (atanh(s)/s - 1) / s^2 for s^2 = z <= 1/4.
template <class T>
[[gnu::always_inline]] inline T atanh_remainder(T z) {
    if constexpr (sizeof(T) == 8) return horner(z, coefficients::kAtanhDouble);
    else return horner(z, coefficients::kAtanhFloat);
}

// The same for z <= 0.0405, which holds for s = (m - 1)/(m + 1) of a mantissa between sqrt(1/2) and sqrt(2), and a little more.
template <class T>
[[gnu::always_inline]] inline T atanh_remainder_near(T z) {
    if constexpr (sizeof(T) == 8) return horner(z, coefficients::kAtanhNearDouble);
    else return horner(z, coefficients::kAtanhNearFloat);
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
    const T tail = s * (T(2) * z * atanh_remainder_near(z) - f);
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
    return {u2.exponent, u, near ? T(0) : c, f, s * (T(2) * z * atanh_remainder_near(z) - f)};
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

// log(1 + x) - x <= 0. With 1 + x = 2^k (1 + f), f between -1/4 and 1/2, it is k log 2 + (f - x) + tail, tail = log(1+f) - f.
// f = (x - (2^k - 1))/2^k is exact, because x and 2^k - 1 are within a factor of two; so is k log 2 - x + f wherever it cancels. With t = f/(2+f) the
// tail is t (2 t^2 remainder - f): the cancelling terms have become a product, and both of its factors carry a second
// word, because for k = 0 it is everything.
template <class T>
[[gnu::always_inline]] inline T log1pmx_of(T x) {
    using F = Format<T>;
    using Bits = typename F::Bits;
    constexpr Bits kCarrier = Bits(F::kBias + F::kFraction) << F::kFraction;
    const Bits biased = (bit_cast<Bits>(T(1) + x) + (Bits(1) << (F::kFraction - 1))) >> F::kFraction;
    const T k = bit_cast<T>(biased | kCarrier) - (bit_cast<T>(kCarrier) + T(F::kBias));
    const T shrink = bit_cast<T>((Bits(2 * F::kBias) - biased) << F::kFraction);  // 2^-k
    const T f = fused(x, shrink, shrink - T(1));
    const T sum = T(2) + f, sum_low = f - (sum - T(2)), inverse = T(1) / sum;
    const T t = f * inverse, t_low = (remainder_of(f, t, sum) - t * sum_low) * inverse;
    const T z = t * t, curve = (z + z) * atanh_remainder_near(z);
    const T inner = f - curve, inner_low = (f - inner) - curve;
    const T start = (k * F::kLog2High - x) + f;
    const T rest = k * F::kLog2Low - fused(t_low, inner, t * inner_low);
    const T value = fused(-t, inner, start + rest);
    // Beyond 2^kFraction 2^k - 1 is 2^k and beyond 2^(kBias - 1) its inverse is no normal number: there log(x) - x is -x.
    const T above = x > T(1e30) ? -x : value;
    return x > T(-1) ? above : (x == T(-1) ? -kInfinity<T> : kNaN<T>);
}

// In float a polynomial is shorter than a quotient with its remainder: the tail is -f^2/2 + f^3 (1/3 - ...), whose square is
// not rounded. f is between -1/3 and 1/2, the former for negative x, the latter for positive: so k log 2 - x + f and the tail
// have one sign.
template <>
[[gnu::always_inline]] inline float log1pmx_of(float x) {
    using F = Format<float>;
    constexpr uint32_t kCarrier = uint32_t(F::kBias + F::kFraction) << F::kFraction;
    const uint32_t up = x < 0 ? 0x555555u : 0x400000u;  // carries a mantissa above 4/3, or 3/2, to the next exponent
    const uint32_t biased = (bit_cast<uint32_t>(1 + x) + up) >> F::kFraction;
    const float k = bit_cast<float>(biased | kCarrier) - (bit_cast<float>(kCarrier) + float(F::kBias));
    const float shrink = bit_cast<float>((uint32_t(2 * F::kBias) - biased) << F::kFraction);  // 2^-k
    const float f = fused(x, shrink, shrink - 1), square = f * f, lost = remainder_of(square, f, f);
    const float cubed = fused(square, f * horner(f, coefficients::kLog1pCubicFloat), 0.5f * lost);
    const float tail = fused(-0.5f, square, cubed);
    const float value = ((k * F::kLog2High - x) + f) + fused(k, F::kLog2Low, tail);
    const float above = x > 1e30f ? -x : value;
    return x > -1 ? above : (x == -1 ? -kInfinity<float> : kNaN<float>);
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
