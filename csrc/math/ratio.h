// log(p/q) of positive numbers with what rounding took from it: k log 2 + 2 atanh(s), s = (p - 2^k q)/(p + 2^k q).
//
// Everything is done in the type of the arguments; s carries a second word, so that a product of the logarithm is rounded
// once. For numbers of any size: exponents are subtracted as integers and p/q is never formed.
#pragma once

#include "fused.h"
#include "log.h"

namespace kullback::KULLBACK_SET {

// How far the bits of x lie above those of the smallest normal number, as an unsigned integer: below kOrdinary exactly for
// positive normal numbers.
template <class T>
[[gnu::always_inline]] inline typename Format<T>::Bits excess(T x) {
    using Bits = typename Format<T>::Bits;
    return bit_cast<Bits>(x) - bit_cast<Bits>(Format<T>::kSmallestNormal);
}

template <class T>
inline constexpr typename Format<T>::Bits kOrdinary = typename Format<T>::Bits(2 * Format<T>::kBias) << Format<T>::kFraction;

template <class T>
struct RatioLog {
    T k, s, s_low, tail;  // log(p/q) = k log 2 + 2 (s + s_low) + tail, |s| <= 1/5
};

// For positive normal numbers. The bits of a number are nearly linear in its logarithm, so that those of the quotient round
// to a k which leaves p/(2^k q) between 2/3 and 3/2: the difference of the two is then exact.
template <class T>
[[gnu::always_inline]] inline RatioLog<T> log_ratio_parts(T p, T q) {
    using F = Format<T>;
    using Bits = typename F::Bits;
    constexpr Bits kFractionMask = (Bits(1) << F::kFraction) - 1, kHalf = Bits(1) << (F::kFraction - 1);
    constexpr Bits kOffset = Bits(2 * (F::kBias + 1));  // above every difference of exponents
    constexpr Bits kCarrier = Bits(F::kBias + F::kFraction) << F::kFraction;
    const Bits q_bits = bit_cast<Bits>(q);
    const Bits quotient = (bit_cast<Bits>(p) - q_bits) + ((kOffset << F::kFraction) + kHalf);
    const T k = bit_cast<T>((quotient >> F::kFraction) | kCarrier) - (bit_cast<T>(kCarrier) + T(kOffset));
    const Bits n_bits = (q_bits & kFractionMask) | Bits(F::kOne);
    const T n = bit_cast<T>(n_bits), m = bit_cast<T>((quotient & kFractionMask) + (n_bits - kHalf));
    const T gap = m - n, twice = n + n, sum = twice + gap, sum_low = gap - (sum - twice);
    const T inverse = T(1) / sum, s = gap * inverse;
    const T s_low = (remainder_of(gap, s, sum) - s * sum_low) * inverse;
    const T z = s * s;
    return {k, s, s_low, (s + s) * z * atanh_remainder_near(z)};
}

// The same for subnormal numbers too.
template <class T>
[[gnu::always_inline]] inline RatioLog<T> log_ratio_parts_anywhere(T p, T q) {
    using F = Format<T>;
    const bool p_small = p < F::kSmallestNormal, q_small = q < F::kSmallestNormal;
    RatioLog<T> l = log_ratio_parts(p_small ? p * F::kUpscale : p, q_small ? q * F::kUpscale : q);
    l.k += (q_small ? T(F::kUpscaleBits) : T(0)) - (p_small ? T(F::kUpscaleBits) : T(0));
    return l;
}

// log(p/q) + shift for a shift of 0, 1 or -1. The multiple of log 2 is exact, also with the shift, and not below 2 s in
// exponent.
template <class T>
[[gnu::always_inline]] inline Sum<T> log_with_rest(const RatioLog<T>& l, T shift) {
    using F = Format<T>;
    const T multiple = l.k * F::kLog2High + shift, twice = l.s + l.s;
    const T high = multiple + twice;
    return {high, (twice - (high - multiple)) + ((l.s_low + l.s_low) + (l.tail + l.k * F::kLog2Low))};
}

}  // namespace kullback::KULLBACK_SET
