// e^x, e^x - 1 and e^x - 1 - x without branches.
//
// x = n log 2 + r with |r| <= log(2)/2, and e^r = 1 + r + tail with tail = r^2 * polynomial. The leading terms stay
// apart until the end, so that whichever of them cancel do so before anything was rounded.
#pragma once

#include "bits.h"
#include "coefficients.h"

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

template <class T>
[[gnu::always_inline]] inline T exp_tail_in_series(T x) {
    const double square = double(x) * double(x);
    if constexpr (sizeof(T) == 8) return square * horner(x, coefficients::kExpFarDouble);
    else return T(square * double(horner(x, coefficients::kExpWideFloat)));
}

template <class T>
struct ExpParts {
    T n, r, tail;  // e^x = 2^n (1 + r + tail)
};

// For |x| small enough that n fits the exponent; callers clamp. A NaN passes through r.
template <class T>
[[gnu::always_inline]] inline ExpParts<T> split_exp(T x) {
    using F = Format<T>;
    const T n = (x * T(1.4426950408889634074) + F::kRound) - F::kRound;
    const T r = (x - n * F::kLog2High) - n * F::kLog2Low;
    return {n, r, exp_tail(r)};
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
    const T clamped = clamp_exponent(x);
    const ExpParts<T> e = split_exp(clamped);
    // x <= -1: e^x and -1 - x are both non-negative, nothing cancels (and e^x may have underflowed).
    const T grown = ((e.r + e.tail) + T(1)) * power_of_two(e.n < T(-100) ? T(-100) : e.n - T(1));
    const T negative = T(2) * grown + (T(-1) - x);
    // x >= 1: 2^n r - x and 2^n - 1 cancel partly but are nearly exact; scaled by 1/2 against overflow of 2^n.
    const T scale = power_of_two(e.n < T(-100) ? T(-100) : e.n - T(1));
    const T positive = T(2) * (scale * e.tail + ((scale * e.r - T(0.5) * clamped) + (scale - T(0.5))));
    // Near 0 the first two terms are gone from the series.
    const T near = exp_tail_in_series(x);
    const T far = x > T(0) ? positive : negative;
    const T value = (x < T(0) ? -kSeriesTo<T> * x : x) <= kSeriesTo<T> ? near : far;
    return x > Format<T>::kLargestExponent ? kInfinity<T> : value;
}

}  // namespace kullback::KULLBACK_SET
