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

// The series of e^x - 1 - x is used from -1 to here. Beyond, e^x has to outweigh 1 + x by enough that the cancellation stays
// within two ulp; float, which has no bits to spare, goes further.
template <class T>
inline constexpr T kSeriesTo = sizeof(T) == 8 ? T(1) : T(1.6);

// The square is not rounded, so that two roundings are left.
template <class T>
[[gnu::always_inline]] inline T exp_tail_in_series(T x) {
    const T square = x * x, lost = remainder_of(square, x, x);
    T polynomial;
    if constexpr (sizeof(T) == 8) polynomial = horner(x, coefficients::kExpFarDouble);
    else polynomial = horner(x, coefficients::kExpWideFloat);
    return fused(square, polynomial, -lost * polynomial);
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

// e^x - 1 - x >= 0.
template <class T>
[[gnu::always_inline]] inline T expm1mx_of(T x) {
    const T below = x > Format<T>::kLargestExponent ? Format<T>::kLargestExponent : x;
    const ExpParts<T> e = split_exp(below < T(-40) ? T(-40) : below);  // e^-40 is lost beside 39
    // 2^n - 1 - x and 2^n r cancel partly but are exact where that matters; scaled by 1/2 against overflow of 2^n.
    const T scale = power_of_two(e.n - T(1)), rest = e.tail + (e.lost + e.lost * e.r);
    const T positive = T(2) * (scale * rest + fused(scale, e.r, (scale - T(0.5)) - T(0.5) * x));
    // Below -1, e^x and -1 - x are both positive.
    const T negative = (scale + scale) * ((e.r + rest) + T(1)) + (T(-1) - x);
    const T far = x > T(0) ? positive : negative;
    // Near 0 the first two terms are gone from the series.
    const T near = exp_tail_in_series(x);
    const T value = (x < T(0) ? -kSeriesTo<T> * x : x) <= kSeriesTo<T> ? near : far;
    return x > Format<T>::kLargestExponent ? kInfinity<T> : value;
}

}  // namespace kullback::KULLBACK_SET
