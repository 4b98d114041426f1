// e^x, e^x - 1 and e^x - 1 - x without branches.
//
// x = n log 2 + r with |r| <= log(2)/2, and e^r = 1 + r + tail with tail = r^2 * polynomial. The leading terms stay
// apart until the end, so that whichever of them cancel do so before anything was rounded.
#pragma once

#include "coefficients.h"
#include "fused.h"

namespace kullback::KULLBACK_SET {

template <class T>
[[gnu::always_inline]] inline T exp_tail(T r) {
    if constexpr (sizeof(T) == 8) return r * r * horner(r, coefficients::kExpNearDouble);
    else return r * r * horner(r, coefficients::kExpNearFloat);
}

template <class T>
struct ExpParts {
    T n, r, tail;  // e^x = 2^n (1 + r + tail)
    T lost;        // what r lacks
};

// For |x| small enough that n fits the exponent; callers clamp. A NaN passes through r.
template <class T>
[[gnu::always_inline]] inline ExpParts<T> split_exp(T x) {
    using F = Format<T>;
    const T n = (x * T(1.4426950408889634074) + F::kRound) - F::kRound;
    const T start = x - n * F::kLog2High, r = start - n * F::kLog2Low;
    return {n, r, exp_tail(r), (start - r) - n * F::kLog2Low};
}

template <class T>
[[gnu::always_inline]] inline T clamp_exponent(T x) {
    using F = Format<T>;
    const T below = x > F::kLargestExponent ? F::kLargestExponent : x;
    return below < F::kSmallestExponent ? F::kSmallestExponent : below;
}

// factor e^x, rounded to a subnormal number once.
template <class T>
[[gnu::always_inline]] inline T exp_times(T x, T factor) {
    // Clamped below where a large factor is lost too, and above where 2^n still has a half.
    const T lowest = T(1.6) * Format<T>::kSmallestExponent;
    const T capped = x > Format<T>::kLargestExponent ? Format<T>::kLargestExponent : x;
    const ExpParts<T> e = split_exp(capped < lowest ? lowest : capped);
    // In two steps: 2^n alone overflows at the top and is subnormal at the bottom of the range.
    const T half = (e.n * T(0.5) + Format<T>::kRound) - Format<T>::kRound;
    const T value = factor * ((e.r + e.tail) + T(1)) * power_of_two(half) * power_of_two(e.n - half);
    return x > Format<T>::kLargestExponent ? kInfinity<T> : value;
}

template <class T>
[[gnu::always_inline]] inline T exp_of(T x) {
    return exp_times(x, T(1));
}

// e^x - 1: relative accuracy at 0, where n = 0 leaves r + tail.
template <class T>
[[gnu::always_inline]] inline T expm1_of(T x) {
    const T floor = T(-40);  // e^x is below half an ulp of 1
    const T clamped = clamp_exponent(x < floor ? floor : x);
    const ExpParts<T> e = split_exp(clamped);
    // Scaled by 1/2: 2^n overflows for x above 709.4 where e^x does not yet.
    const T scale = power_of_two(e.n - T(1));
    const T value = T(2) * ((scale * e.r + scale * e.tail) + (scale - T(0.5)));
    const T near = e.n == T(0) ? e.r + e.tail : value;
    return x > Format<T>::kLargestExponent ? kInfinity<T> : near;
}

// size with the sign that x does not have.
template <class T>
[[gnu::always_inline]] inline T against(T x, T size) {
    using Bits = typename Format<T>::Bits;
    constexpr Bits kSign = Bits(1) << (8 * sizeof(T) - 1);
    return bit_cast<T>((~bit_cast<Bits>(x) & kSign) | bit_cast<Bits>(size));
}

// e^x - 1 - x >= 0. With e^x = 2^n (1 + r + r^2/2 + ...) it is (2^n - 1 - x) + 2^n r + 2^n (r^2/2 + ...). Up to |x| = 1/2 n is
// 0, the first two terms are gone and r = x; the multiple of log 2 is rounded towards 0 that far, because from there on
// nothing cancels. Rounding of the first term, of r and of its square is carried along, so that the last sum decides.
template <class T>
[[gnu::always_inline]] inline T expm1mx_of(T x) {
    using F = Format<T>;
    const bool over = x > F::kLargestExponent, under = x < T(-40);  // e^-40 is lost beside 39
    const T capped = over ? F::kLargestExponent : x, y = under ? T(-40) : capped;
    const T n = (fused(y, T(1.4426950408889634074), against(x, T(0.2215))) + F::kRound) - F::kRound;
    const T reduced = y - n * F::kLog2High, r = reduced - n * F::kLog2Low, r_low = (reduced - r) - n * F::kLog2Low;
    const T square = r * r, lost = remainder_of(square, r, r);
    T cubic;
    if constexpr (sizeof(T) == 8) cubic = horner(r, coefficients::kExpCubicDouble);
    else cubic = horner(r, coefficients::kExpCubicFloat);
    const T rest = fused(square, r * cubic, fused(r_low, T(1) + r, T(-0.5) * lost));
    // Scaled by 1/2 against overflow of 2^n.
    const T scale = power_of_two(n - T(1)), whole = scale - T(0.5);
    const T start = whole - T(0.5) * y, start_low = (whole - start) - T(0.5) * y;
    const T value = T(2) * (fused(scale, r, start) + fused(scale, fused(T(0.5), square, rest), start_low));
    return over ? kInfinity<T> : (under ? T(-1) - x : value);
}

}  // namespace kullback::KULLBACK_SET
