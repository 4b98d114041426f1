// Vectors of the width this instruction set has, and the few functions of them that the row kernels need.
//
// The vectors are those of GCC and Clang: arithmetic, comparison and selection are operators, so that the code reads as
// it does for one number. Only what the compilers do not find by themselves is spelled with intrinsics.
#pragma once

#include "../math/bits.h"
#include "../math/coefficients.h"

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace kullback::KULLBACK_SET {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

typedef float FloatVector __attribute__((vector_size(kVectorBytes)));
typedef float HalfFloatVector __attribute__((vector_size(kVectorBytes / 2)));
typedef int32_t FloatMask __attribute__((vector_size(kVectorBytes)));
typedef uint32_t FloatBits __attribute__((vector_size(kVectorBytes)));
typedef double DoubleVector __attribute__((vector_size(kVectorBytes)));
typedef int64_t DoubleMask __attribute__((vector_size(kVectorBytes)));
typedef uint64_t DoubleBits __attribute__((vector_size(kVectorBytes)));

template <class T>
struct Lanes;

template <>
struct Lanes<float> {
    using Vector = FloatVector;
    using Mask = FloatMask;
    using Bits = FloatBits;
    static constexpr int kCount = kVectorBytes / 4;
};

template <>
struct Lanes<double> {
    using Vector = DoubleVector;
    using Mask = DoubleMask;
    using Bits = DoubleBits;
    static constexpr int kCount = kVectorBytes / 8;
};

template <class T>
using Vector = typename Lanes<T>::Vector;
template <class T>
using Mask = typename Lanes<T>::Mask;
template <class T>
using Bits = typename Lanes<T>::Bits;  // sums of bit patterns wrap around

template <class T>
inline Vector<T> load_lanes(const T* source) {
    Vector<T> v;
    __builtin_memcpy(&v, source, sizeof(v));
    return v;
}

template <class T>
inline void store_lanes(Vector<T> v, T* target) {
    __builtin_memcpy(target, &v, sizeof(v));
}

inline bool may_stream(const float* target) { return (reinterpret_cast<uintptr_t>(target) & 63) == 0; }

// The same past the caches, where may_stream.
inline void stream_lanes(FloatVector v, float* target) {
#if defined(__AVX512F__)
    _mm512_stream_ps(target, (__m512)v);
#elif defined(__AVX2__)
    _mm256_stream_ps(target, (__m256)v);
#else
    store_lanes<float>(v, target);
#endif
}

// Streamed values are not ordered with later stores: without this another thread may hear that a row is written before it is.
inline void finish_streams() {
#if defined(__AVX2__)
    _mm_sfence();
#endif
}

template <class T>
inline Vector<T> fill(T x) {
    return x - Vector<T>{};
}

// x > y ? x : y, which is y where either is NaN.
inline FloatVector larger(FloatVector x, FloatVector y) {
#if defined(__AVX512F__)
    return (FloatVector)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined(__AVX2__)
    return (FloatVector)_mm256_max_ps((__m256)x, (__m256)y);
#else
    return x > y ? x : y;
#endif
}

inline DoubleVector larger(DoubleVector x, DoubleVector y) {
#if defined(__AVX512F__)
    return (DoubleVector)_mm512_max_pd((__m512d)x, (__m512d)y);
#elif defined(__AVX2__)
    return (DoubleVector)_mm256_max_pd((__m256d)x, (__m256d)y);
#else
    return x > y ? x : y;
#endif
}

inline FloatVector magnitude_of(FloatVector x) { return (FloatVector)((FloatMask)x & INT32_MAX); }
inline DoubleVector magnitude_of(DoubleVector x) { return (DoubleVector)((DoubleMask)x & INT64_MAX); }

inline bool any(FloatMask mask) {
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_epi8((__m256i)mask) != 0;
#else
    uint64_t words[2];
    __builtin_memcpy(words, &mask, sizeof(words));
    return (words[0] | words[1]) != 0;
#endif
}

inline bool any(DoubleMask mask) { return any((FloatMask)mask); }

template <class T>
inline T largest_of(Vector<T> v) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return _mm512_reduce_max_ps((__m512)v);
    else return _mm512_reduce_max_pd((__m512d)v);
#else
    T m = v[0];
    for (int i = 1; i < Lanes<T>::kCount; ++i) m = v[i] > m ? v[i] : m;
    return m;
#endif
}

inline double sum_of(DoubleVector v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_pd((__m512d)v);
#else
    double sum = v[0];
    for (int i = 1; i < Lanes<double>::kCount; ++i) sum += v[i];
    return sum;
#endif
}

// sum of coefficients[k] x^k, constant first.
template <class T, int N>
inline Vector<T> polynomial(Vector<T> x, const T (&coefficients)[N]) {
    Vector<T> sum = fill(coefficients[N - 1]);
#pragma GCC unroll 16
    for (int k = N - 2; k >= 0; --k) sum = sum * x + coefficients[k];
    return sum;
}

// x as n log 2 + r, |r| <= log(2)/2 and n an integer. `carrier` is n less the scale in the lowest bits of a large number: shifted
// into place, it is the exponent of e^x / 2^scale.
template <class T>
struct Reduced {
    Vector<T> carrier, r;
};

// origin: the large number less the scale.
template <class T>
inline Reduced<T> reduce(Vector<T> x, Vector<T> origin) {
    using F = Format<T>;
    const Vector<T> carrier = x * T(1.4426950408889634074) + origin, n = carrier - origin;
    return {carrier, (x - n * F::kLog2High) - n * F::kLog2Low};
}

// x times the power of two that the carrier holds, by adding to the exponent.
template <class T>
inline Vector<T> scale_by_carrier(Vector<T> x, Vector<T> carrier) {
    return (Vector<T>)((Bits<T>)x + ((Bits<T>)carrier << Format<T>::kFraction));
}

// e^r - 1 for |r| <= log(2)/2. The float coefficients are those of make_coefficients.py for a target of 2e-7 in
// (e^r - 1 - r)/r^2, which is 1.2e-8 in e^r.
template <class T>
inline Vector<T> expm1_reduced(Vector<T> r) {
    constexpr float kFloat[] = {0.5f, 0.16666577f, 0.0416665546f, 0.00836317763f, 0.00139261818f};
    if constexpr (sizeof(T) == 4) return (polynomial<T>(r, kFloat) * r + T(1)) * r;
    else return (polynomial<T>(r, coefficients::kExpNearDouble) * r + T(1)) * r;
}

// e^x / 2^scale for x <= scale log 2; zero where that is below the normal numbers (they would cost a hundred cycles each), and for
// NaN. The multiple of log 2 nearest to x is taken out of x itself, exactly, and the scale out of the exponent: no difference of
// logits is rounded. |scale| <= kLargestScale.
template <class T>
inline Vector<T> scaled_exp_from(Vector<T> x, Vector<T> origin) {
    using F = Format<T>;
    const Reduced<T> e = reduce<T>(x, origin);
    const Vector<T> value = scale_by_carrier<T>(expm1_reduced<T>(e.r) + T(1), e.carrier);
    return e.carrier >= F::kRound + T(2 - F::kBias) ? value : Vector<T>{};
}

template <class T>
inline Vector<T> scaled_exp(Vector<T> x, Vector<T> scale) {
    return scaled_exp_from<T>(x, Format<T>::kRound - scale);
}

// n * kLog2High is exact for |n| <= 4096 (float, 12 bits) and 2^21 (double, 32 bits).
template <class T>
inline constexpr T kLargestScale = T(sizeof(T) == 4 ? 3900 : 2000000);

// (e^x - 1 - x)/x^2 for |x| <= 1.
template <class T>
inline Vector<T> exp_remainder(Vector<T> x) {
    if constexpr (sizeof(T) == 4) return polynomial<T>(x, coefficients::kExpFarFloat);
    else return polynomial<T>(x, coefficients::kExpFarDouble);
}

// 1/x for a normal x, to a rounding or two.
inline FloatVector reciprocal(FloatVector x) {
#if defined(__AVX512F__)
    const FloatVector rough = (FloatVector)_mm512_rcp14_ps((__m512)x);
    return rough * (2.0f - x * rough);
#else
    return 1.0f / x;
#endif
}

// The root of x >= 0 to a rounding or two; of a number below the normal ones about 1e-19.
inline FloatVector square_root(FloatVector x) {
#if defined(__AVX512F__)
    const FloatVector normal = larger(x, fill(Format<float>::kSmallestNormal));
    const FloatVector rough = (FloatVector)_mm512_rsqrt14_ps((__m512)normal), root = normal * rough;
    return root + 0.5f * root * (1.0f - root * rough);
#elif defined(__AVX2__)
    return (FloatVector)_mm256_sqrt_ps((__m256)x);
#else
    for (int i = 0; i < Lanes<float>::kCount; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

// A logarithm as a multiple of log 2, rounded to few digits so that it is exact, and the rest.
struct FloatLog {
    FloatVector high, low;
};

// log x for a normal positive x; |low| <= 0.35 is off by 3e-8 at most. A finite number for x = 0, nonsense for others. On
// [sqrt(1/2), sqrt(2)) log(1 + f) = f - f^2/2 + f^3 P(f), P a least-maximum fit to 7e-9 in the logarithm.
inline FloatLog log_lanes(FloatVector x) {
    using F = Format<float>;
    constexpr float kTail[] = {0.333341509f,  -0.250016928f, 0.199553058f, -0.165647864f,
                               0.149745822f, -0.143755883f, 0.0867658257f};
    const FloatBits bits = (FloatBits)x;
    const FloatMask power = (FloatMask)(bits - uint32_t(F::kRootHalf)) >> F::kFraction;
    const FloatVector f = (FloatVector)(bits - ((FloatBits)power << F::kFraction)) - 1.0f;
    const FloatVector exponent = __builtin_convertvector(power, FloatVector);
    const FloatVector rest = f * f * (f * polynomial<float>(f, kTail) - 0.5f) + f;
    return {exponent * F::kLog2High, exponent * F::kLog2Low + rest};
}

template <class T>
struct PowerOfE {
    Vector<T> value, less_one;
};

template <class T>
inline constexpr T kLeastPowerOfE = T(sizeof(T) == 4 ? -80 : -600);

// e^x and e^x - 1 for x <= 0, each with relative accuracy; all below e^-80 is e^-80 in float and below e^-600 is e^-600 in
// double, as good as nothing.
template <class T>
inline PowerOfE<T> exp_below(Vector<T> x) {
    const Reduced<T> e = reduce<T>(larger(x, fill(kLeastPowerOfE<T>)), fill(Format<T>::kRound));
    // 2^n e^r - 1 = 2^n (e^r - 1) + (2^n - 1); 2^n - 1 is exact, or all there is.
    const Vector<T> power = scale_by_carrier<T>(fill(T(1)), e.carrier), scaled = power * expm1_reduced<T>(e.r);
    return {scaled + power, scaled + (power - T(1))};
}

template <class T>
inline Vector<T> expm1_below(Vector<T> x) {
    return exp_below<T>(x).less_one;
}

// x - y = high + low exactly (Knuth).
template <class V>
struct Difference {
    V high, low;
};

template <class V>
inline Difference<V> exact_difference(V x, V y) {
    const V high = x - y;
    const V taken = high - x;
    return {high, (x - (high - taken)) - (y + taken)};
}

// A sum that does not round noticeably: vectors of T, added in double.
template <class T>
class Accumulator;

template <>
class Accumulator<float> {
  public:
    void add(FloatVector v) {
#if defined(__AVX512F__)
        first_ += (DoubleVector)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
        second_ += (DoubleVector)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
#elif defined(__AVX2__)
        first_ += (DoubleVector)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
        second_ += (DoubleVector)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
#else
        HalfFloatVector halves[2];
        __builtin_memcpy(halves, &v, sizeof(v));
        first_ += __builtin_convertvector(halves[0], DoubleVector);
        second_ += __builtin_convertvector(halves[1], DoubleVector);
#endif
    }
    void add(const Accumulator& other) { first_ += other.first_, second_ += other.second_; }
    void scale(double factor) { first_ *= factor, second_ *= factor; }
    double total() const { return sum_of(first_ + second_); }

  private:
    DoubleVector first_{}, second_{};
};

template <>
class Accumulator<double> {
  public:
    void add(DoubleVector v) { sum_ += v; }
    void add(const Accumulator& other) { sum_ += other.sum_; }
    void scale(double factor) { sum_ *= factor; }
    double total() const { return sum_of(sum_); }

  private:
    DoubleVector sum_{};
};

}  // namespace kullback::KULLBACK_SET
