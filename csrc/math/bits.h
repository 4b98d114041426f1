// Floating-point numbers as bit patterns: exponent arithmetic without library calls, so that loops vectorise.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

// The same source is compiled once per instruction set, each in its own namespace: an inline function shared between them
// would be linked once, perhaps as compiled for a set this machine does not have.
#ifndef KULLBACK_SET
#define KULLBACK_SET baseline
#endif

// Functions that stand in loops are always_inline: a loop with one call left in it is not vectorised, and what the compiler
// inlines by itself depends on how much else the file holds.
namespace kullback::KULLBACK_SET {

template <class To, class From>
[[gnu::always_inline]] inline To bit_cast(From value) {
    static_assert(sizeof(To) == sizeof(From), "same width");
    To result;
    std::memcpy(&result, &value, sizeof(To));
    return result;
}

template <class T>
struct Format;

template <>
struct Format<double> {
    using Int = int64_t;
    using Bits = uint64_t;
    static constexpr int kFraction = 52;
    static constexpr Int kOne = 0x3ff0000000000000;       // bits of 1
    static constexpr Int kRootHalf = 0x3fe6a09e667f3bcd;  // bits of sqrt(1/2)
    static constexpr Int kBias = 1023;
    static constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    static constexpr double kSmallestNormal = 2.2250738585072014e-308;
    static constexpr double kUpscale = 18014398509481984.0;  // 2^54, lifts subnormals into the normal range
    static constexpr int kUpscaleBits = 54;
    // log(2) = high + low; high ends in zeros, so that k * high is exact for every exponent k.
    static constexpr double kLog2High = 0x1.62e42feep-1;
    static constexpr double kLog2Low = 0x1.a39ef35793c76p-33;
    static constexpr double kLargestExponent = 709.782712893384;
    static constexpr double kSmallestExponent = -745.2;
};

template <>
struct Format<float> {
    using Int = int32_t;
    using Bits = uint32_t;
    static constexpr int kFraction = 23;
    static constexpr Int kOne = 0x3f800000;
    static constexpr Int kRootHalf = 0x3f3504f3;
    static constexpr Int kBias = 127;
    static constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
    static constexpr float kSmallestNormal = 1.17549435e-38f;
    static constexpr float kUpscale = 33554432.0f;  // 2^25
    static constexpr int kUpscaleBits = 25;
    static constexpr float kLog2High = 0x1.62ep-1f;
    static constexpr float kLog2Low = 0x1.0bfbe8p-15f;
    static constexpr float kLargestExponent = 88.72283f;
    static constexpr float kSmallestExponent = -104.0f;
};

template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

// A sum, the second part small beside the first.
template <class T>
struct Sum {
    T high, low;
};

template <class T>
[[gnu::always_inline]] inline T magnitude(T x) {
    return x < T(0) ? -x : x;
}

// 2^n for an integer-valued n in the normal range.
template <class T>
[[gnu::always_inline]] inline T power_of_two(T n) {
    using F = Format<T>;
    using Bits = typename F::Bits;
    const Bits shifted = bit_cast<Bits>(n + F::kRound) - bit_cast<Bits>(F::kRound);
    return bit_cast<T>((shifted + Bits(F::kBias)) << F::kFraction);
}

// body(0), body(1), ..., body(N - 1), each with its index as a constant: a loop inside a loop would keep the outer one
// from vectorising, and the compiler does not unroll large bodies by itself.
template <int N, int K = 0, class F>
[[gnu::always_inline]] inline void unrolled(F&& body) {
    if constexpr (K < N) {
        body(std::integral_constant<int, K>{});
        unrolled<N, K + 1>(body);
    }
}

// sum of coefficients[k] * x^k, constant first.
template <class T, class C, int N>
[[gnu::always_inline]] inline T horner(T x, const C (&coefficients)[N]) {
    T sum = T(coefficients[N - 1]);
#pragma GCC unroll 64
    for (int k = N - 2; k >= 0; --k) sum = sum * x + T(coefficients[k]);
    return sum;
}

}  // namespace kullback::KULLBACK_SET
