// Digamma, trigamma and tetragamma, and Binet's remainder by its asymptotic series. In double: float32 answers need it.
#pragma once

#include <cmath>

#include "log.h"
#include "reflection.h"

namespace kullback::KULLBACK_SET {

constexpr int kRaise = 8;  // the series is used from here on: 14 terms reach 1e-18 of each sum it enters

inline constexpr int kBinetTerms = int(sizeof(coefficients::kBinetDouble) / sizeof(double));

// Sum of B_2k/(2k(2k-1)) (2k-1)(2k)...(2k-2+order) t^(k-1): the order-th derivative of Binet's remainder without its
// sign and without the factor x^-(order+1), t = 1/x^2.
template <int order>
inline double binet_series(double t) {
    double sum = 0;
#pragma GCC unroll 16
    for (int k = kBinetTerms - 1; k >= 0; --k) {
        double factor = coefficients::kBinetDouble[k];
        for (int i = 0; i < order; ++i) factor *= 2 * k + 1 + i;
        sum = sum * t + factor;
    }
    return sum;
}

// The polynomials, shorter for a float result.
template <class T>
struct Digamma {
    static constexpr auto& kNear = coefficients::kDigammaDouble;
    static constexpr auto& kFar = coefficients::kBinetFromThree1Double;
    static constexpr auto& kAtanh = coefficients::kAtanhNearDouble;
    static constexpr auto& kTrigamma = coefficients::kBinetFromOne2Double;
};

template <>
struct Digamma<float> {
    static constexpr auto& kNear = coefficients::kDigammaFloat;
    static constexpr auto& kFar = coefficients::kBinetFromThree1Float;
    static constexpr auto& kAtanh = coefficients::kAtanhNearFloat;
    static constexpr auto& kTrigamma = coefficients::kBinetFromOne2Float;
};

// digamma for x > 0, accurate relative to itself at its root 1.4616 too.
template <class T>
[[gnu::always_inline]] inline T digamma_positive(T narrow) {
    const double x = double(narrow);
    // Up to 3: the root divided out. Below 1, digamma(x) = digamma(x + 1) - 1/x; the rounding of x + 1 is put back.
    const bool below_one = x < 1;
    const double moved = below_one ? x + 1 : x;
    const double lost = below_one ? x - (moved - 1) : 0.0;
    const double near_x = moved > 3 ? 3.0 : moved;
    const double beyond = (near_x - coefficients::kDigammaRoot) + (lost - coefficients::kDigammaRootLow);
    const double inverse = 1 / x;
    const double near = beyond * horner(near_x - 2, Digamma<T>::kNear) - (below_one ? inverse : 0.0);
    // Above 3: log(x) - 1/(2x) + R'(x), R Binet's remainder; log(x) = k log 2 + log(m), of which k log 2 is exact.
    const Scaled<double> x2 = split_log(x);
    const double f = x2.mantissa - 1;
    const double ratio = f / (x2.mantissa + 1);
    const double z = ratio * ratio;
    const double tail = ratio * (2 * z * horner(z, Digamma<T>::kAtanh) - f) + x2.exponent * Format<double>::kLog2Low;
    const double below = inverse * (0.5 + inverse * horner(1 - 6 * inverse, Digamma<T>::kFar));
    const double large = (x2.exponent * Format<double>::kLog2High + f) + (tail - below);
    const double far = x == kInfinity<double> ? x : large;
    return T(x <= 3 ? near : far);
}

// Sum of n! (x+i)^-(n+1) for i < 8, n = 1 or 2, two terms over one denominator; the first stands alone because its
// square may be infinite or subnormal.
template <int order>
inline double reciprocal_powers(double x) {
    const double first = 1 / x;
    double sum = 0;
#pragma GCC unroll 8
    for (int i = kRaise - 1; i >= 2; i -= 2) {
        const double a = x + i, b = x + (i - 1);
        const double a2 = a * a, b2 = b * b;
        sum += order == 1 ? (a2 + b2) / (a2 * b2) : 2 * (a2 * a + b2 * b) / (a2 * b2 * (a * b));
    }
    const double c = 1 / (x + 1);
    return order == 1 ? (sum + c * c) + first * first : (sum + 2 * c * c * c) + 2 * first * first * first;
}

// 1/x + 1/(2 x^2) + R''(x) from 1 on, R Binet's remainder; below, one step of the recurrence.
template <class T>
[[gnu::always_inline]] inline T trigamma_positive(T narrow) {
    const double x = double(narrow);
    const bool raise = x < 1;
    const double t = 1 / (raise ? x + 1 : x), first = 1 / x;
    const double tail = t * (1 + t * (0.5 + t * horner(1 - 2 * t, Digamma<T>::kTrigamma)));
    return T(raise ? first * first + tail : tail);
}

// -psi''(x) > 0.
inline double minus_tetragamma_positive(double x) {
    const bool raise = x < kRaise;
    const double y = raise ? x + kRaise : x;
    const double t = 1 / y;
    const double tail = t * t * (1 + t * (1 + t * binet_series<3>(t * t)));
    return raise ? reciprocal_powers<2>(x) + tail : tail;
}

// x < 0 by reflection; scalar, because it is rare.
inline double digamma_negative(double x) {
    if (x == std::nearbyint(x)) return kNaN<double>;
    return digamma_positive(1 - x) - kPi * reflect(x).cotangent;
}

inline double trigamma_negative(double x) {
    const Pair pole = reflect(x).pole;
    return (pole.high - trigamma_positive(1 - x)) + pole.low;
}

inline double tetragamma_negative(double x) {
    const Reflection r = reflect(x);
    return -2 * kPi * rounded(r.pole) * r.cotangent - minus_tetragamma_positive(1 - x);
}

// log(b/a) for positive numbers at least a factor of 2 apart: nothing cancels, however the mantissas compare.
inline double log_of_far_ratio(double b, double a) {
    const Scaled<double> a2 = split_log(a), b2 = split_log(b);
    const double s = (b2.mantissa - a2.mantissa) / (b2.mantissa + a2.mantissa);
    return log_of(LogRatio{b2.exponent - a2.exponent, s, atanh_remainder(s * s)});
}

// Within a factor of 2.5 of each other. One comparison: conditions joined by && keep the loops from vectorising.
inline bool are_near(double a, double b) {
    const double smaller = a < b ? a : b, larger = a < b ? b : a;
    return smaller > 0.4 * larger;
}

// R(b) - R(a) - (b-a) R'(a) and R'(b) - R'(a) of Binet's remainder for a, b >= 8. With s = 1/a, t = 1/b each power of
// the series gives a polynomial with positive terms:
//   t^m - s^m + m d s^(m+1) = d^2 s^2 t sum (m-i) s^(m-1-i) t^i,   s^(m+1) - t^(m+1) = d s t sum s^(m-i) t^i.
struct Tail {
    double divergence, slope;
};

// Terms of the series before `kFirst` are left out.
template <int kFirst = 0>
inline Tail binet_bregman(double a, double b, double gap) {
    const double s = 1 / a, t = 1 / b;
    double power = 1, homogeneous = 1, weighted = 1, divergence = 0, slope = 0;
    unrolled<2 * kBinetTerms - 1>([&](auto index) {
        constexpr int m = index + 1;
        power *= t;
        const double following = s * homogeneous + power;
        if constexpr (m % 2 == 1 && m / 2 >= kFirst) {
            divergence += coefficients::kBinetDouble[m / 2] * weighted;
            slope += (coefficients::kBinetDouble[m / 2] * m) * following;
        }
        homogeneous = following;
        weighted = s * weighted + homogeneous;
    });
    return {(gap * s) * ((gap * t) * s) * divergence, (gap * s) * t * slope};
}

// One end of the domain against its inside is infinitely far; both arguments at one end have no limit.
inline double on_positive(double a, double b, double inside, double infinite) {
    const bool within = a > 0 && b > 0 && a < kInfinity<double> && b < kInfinity<double>;
    return within ? inside : (a >= 0 && b >= 0 && a != b ? infinite : kNaN<double>);
}

}  // namespace kullback::KULLBACK_SET
