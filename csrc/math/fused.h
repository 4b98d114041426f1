// a b + c with one rounding where the machine has an instruction for it, and the exact remainder of a product.
#pragma once

#include "bits.h"

#if defined(__FMA__) || defined(__FP_FAST_FMA) || defined(__aarch64__)
#define KULLBACK_HAS_FMA
#endif

namespace kullback::KULLBACK_SET {

// Without the instruction a library call would keep the loop from vectorising: then two roundings.
template <class T>
[[gnu::always_inline]] inline T fused(T a, T b, T c) {
#if defined(KULLBACK_HAS_FMA)
    if constexpr (sizeof(T) == 8) return __builtin_fma(a, b, c);
    else return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

// c - a b for c close to a b, where the difference is exact.
template <class T>
[[gnu::always_inline]] inline T remainder_of(T c, T a, T b) {
#if defined(KULLBACK_HAS_FMA)
    return fused(-a, b, c);
#else
    if constexpr (sizeof(T) == 4) return T(double(c) - double(a) * double(b));
    else {
        // Halves of 26 and 27 bits by masking, whose products are exact but the last. They are subtracted one by one, because
        // the sum of the middle two needs 54 bits: rounding it left 2^-77 of a b, which rows that differ by 1e-14 show.
        const T a1 = bit_cast<T>(bit_cast<uint64_t>(a) & 0xfffffffff8000000), a2 = a - a1;
        const T b1 = bit_cast<T>(bit_cast<uint64_t>(b) & 0xfffffffff8000000), b2 = b - b1;
        return (((c - a1 * b1) - a1 * b2) - a2 * b1) - a2 * b2;
    }
#endif
}

// a b + c + rest, where a b and c may cancel and the rest is small beside both.
template <class T>
[[gnu::always_inline]] inline T product_plus(T a, T b, T c, T rest) {
#if defined(KULLBACK_HAS_FMA)
    return fused(a, b, c) + rest;
#else
    const T product = a * b, lost = remainder_of(product, a, b);
    return (product + c) + (rest - (magnitude(lost) < kInfinity<T> ? lost : T(0)));  // infinite or NaN after an overflow
#endif
}

}  // namespace kullback::KULLBACK_SET
