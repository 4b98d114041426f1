// Digamma, trigamma and the Bregman divergence of log Gamma. All in double: their float32 answers need it.
//
// Small arguments are raised by the recurrence to where the asymptotic series holds; sums have terms of one sign.
#pragma once

#include <cmath>

#include "log.h"

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

// digamma for x > 0, accurate relative to itself at its root 1.4616 too.
inline double digamma_positive(double x) {
    // Up to 3: the root divided out. Below 1, digamma(x) = digamma(x + 1) - 1/x; the rounding of x + 1 is put back.
    const bool below_one = x < 1;
    const double moved = below_one ? x + 1 : x;
    const double lost = below_one ? x - (moved - 1) : 0.0;
    const double near_x = moved > 3 ? 3.0 : moved;
    const double beyond = (near_x - coefficients::kDigammaRoot) + (lost - coefficients::kDigammaRootLow);
    const double inverse_x = 1 / x;
    const double near = beyond * horner(near_x - 2, coefficients::kDigammaDouble) - (below_one ? inverse_x : 0.0);
    // Above 3: raise by 6. The sum of 1/(x+i) is P'/P of P = x(x+1)...(x+5), with u = x^2 + 5x:
    // P = u (u+4) (u+6) and P' = (2x+5) (3u^2 + 20u + 24), all coefficients positive.
    const bool raise = x < 9;
    const double y = raise ? x + 6 : x;
    const double inverse = 1 / y;
    const double u = (raise ? x : 9.0) * ((raise ? x : 9.0) + 5);
    const double fall = (2 * (raise ? x : 9.0) + 5) * (u * (3 * u + 20) + 24) / (u * (u + 4) * (u + 6));
    // log(y) = k log 2 + log(m) in its parts: k log 2 is exact and takes the fall before anything is rounded.
    const Scaled<double> y2 = split_log(y);
    const double f = y2.mantissa - 1;
    const double ratio = f / (y2.mantissa + 1);
    const double z = ratio * ratio;
    const double tail = ratio * (2 * z * atanh_remainder_near(z) - f) + y2.exponent * Format<double>::kLog2Low;
    const double below = inverse * (0.5 + inverse * binet_series<1>(inverse * inverse));
    const double start = y2.exponent * Format<double>::kLog2High - (raise ? fall : 0.0);
    const double large = (start + f) + (tail - below);
    const double far = y == kInfinity<double> ? y : large;
    return x <= 3 ? near : far;
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

inline double trigamma_positive(double x) {
    const bool raise = x < kRaise;
    const double y = raise ? x + kRaise : x;
    const double t = 1 / y;
    const double tail = t * (1 + t * (0.5 + t * binet_series<2>(t * t)));
    return raise ? reciprocal_powers<1>(x) + tail : tail;
}

// -psi''(x) > 0.
inline double minus_tetragamma_positive(double x) {
    const bool raise = x < kRaise;
    const double y = raise ? x + kRaise : x;
    const double t = 1 / y;
    const double tail = t * t * (1 + t * (1 + t * binet_series<3>(t * t)));
    return raise ? reciprocal_powers<2>(x) + tail : tail;
}

// x < 0 by reflection (DLMF 5.5.4), with the integer part removed exactly; scalar, because it is rare.
struct Reflection {
    double sine, cotangent;
};

inline Reflection reflect(double x) {
    constexpr double pi = 3.141592653589793238;
    const double part = x - std::nearbyint(x);
    const double complement = std::copysign(0.5 - std::fabs(part), part);
    // Near the half-integers the tangent of the complement keeps the zero of the cotangent exact.
    const double cotangent = std::fabs(part) > 0.25 ? std::tan(pi * complement) : 1 / std::tan(pi * part);
    return {std::sin(pi * part), cotangent};
}

inline double digamma_negative(double x) {
    if (x == std::nearbyint(x)) return kNaN<double>;
    return digamma_positive(1 - x) - 3.141592653589793238 * reflect(x).cotangent;
}

inline double trigamma_negative(double x) {
    const double csc = 3.141592653589793238 / reflect(x).sine;
    return csc * csc - trigamma_positive(1 - x);
}

inline double tetragamma_negative(double x) {
    const Reflection r = reflect(x);
    const double csc = 3.141592653589793238 / r.sine;
    return -2 * 3.141592653589793238 * csc * csc * r.cotangent - minus_tetragamma_positive(1 - x);
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

// h(b/a) = b/a - 1 - log(b/a) >= 0 for positive a, b whose difference is known better than b - a gives it.
inline double log_bregman(double a, double b, double gap) {
    const double w = gap / a;
    const bool direct = are_near(a, b);
    const Scaled<double> a2 = split_log(a), b2 = split_log(b);
    const double s = (direct ? gap : b2.mantissa - a2.mantissa) / (direct ? a + b : b2.mantissa + a2.mantissa);
    const double z = s * s;
    const double remainder = 2 * z * atanh_remainder(z);
    // With log(b/a) = 2 atanh(s) and s = gap/(a+b), w - 2 s is exactly s w.
    const double near = s * (w - remainder);
    const double k = b2.exponent - a2.exponent;
    const double log_ratio = k * Format<double>::kLog2High + (2 * s + (s * remainder + k * Format<double>::kLog2Low));
    return direct ? near : w - log_ratio;
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

// B(a, b) = log Gamma(b) - log Gamma(a) - (b-a) psi(a) = sum over k of h((b+k)/(a+k)): eight terms, then Stirling's
// main part b log(b/a) - b + a + h(b/a)/2 and Binet's remainder, every one non-negative.
inline double lgamma_bregman_of(double a, double b) {
    const double gap = b - a;
    double sum = 0;
    const bool raise = (a < b ? a : b) < kRaise;
    const double a_last = raise ? a + kRaise : a, b_last = raise ? b + kRaise : b;
    unrolled<kRaise>([&](auto index) {
        constexpr int k = kRaise - 1 - index;
        sum += log_bregman(a + k, b + k, gap);
    });
    // Stirling's main part is a h*(b/a) with h*(r) = r log r - r + 1, near: gap s + 2 b s^3 remainder.
    const bool direct = are_near(a_last, b_last);
    const double s = gap / (a_last + b_last), w = gap / a_last;
    const double remainder = 2 * (s * s) * atanh_remainder(s * s), log_ratio = log_of_far_ratio(b_last, a_last);
    const double near = gap * s + b_last * (s * remainder) + 0.5 * (s * (w - remainder));
    const double far = (b_last * log_ratio - gap) + 0.5 * (w - log_ratio);
    const double stirling = (direct ? near : far) + binet_bregman(a_last, b_last, gap).divergence;
    return on_positive(a, b, raise ? stirling + sum : stirling, kInfinity<double>);
}

inline double lgamma_bregman_slope_a(double a, double b) {
    const double value = on_positive(a, b, -(b - a) * trigamma_positive(a), 0.0);
    return a == kInfinity<double> ? 0.0 : value;
}

// psi(b) - psi(a).
inline double lgamma_bregman_slope_b(double a, double b) {
    const double gap = b - a;
    const bool raise = (a < b ? a : b) < kRaise;
    const double a_last = raise ? a + kRaise : a, b_last = raise ? b + kRaise : b;
    double sum = 0;
    unrolled<kRaise>([&](auto index) {
        constexpr int k = kRaise - 1 - index;
        sum += (gap / (a + k)) / (b + k);
    });
    const bool direct = are_near(a_last, b_last);
    const double s = gap / (a_last + b_last);
    const double near = 2 * s + 2 * s * (s * s) * atanh_remainder(s * s), far = log_of_far_ratio(b_last, a_last);
    const double log_ratio = direct ? near : far;
    const double large = log_ratio + (0.5 * (gap / a_last) / b_last + binet_bregman(a_last, b_last, gap).slope);
    const double value = on_positive(a, b, raise ? large + sum : large, 0.0);
    return b == kInfinity<double> ? 0.0 : value;
}

}  // namespace kullback::KULLBACK_SET
