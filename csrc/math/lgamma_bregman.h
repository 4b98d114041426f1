// B(a, b) = log Gamma(b) - log Gamma(a) - (b-a) psi(a) >= 0 for a, b > 0, and its slopes.
//
// From 1 on it is Stirling's main part b log(b/a) - b + a + h(b/a)/2, h(r) = r - 1 - log r, and the divergence of Binet's
// remainder; below, B(a, b) = h(b/a) + B(a+1, b+1). Every term is non-negative. In double; for a float result the
// polynomials are shorter.
#pragma once

#include "binet.h"
#include "gamma.h"

namespace kullback::KULLBACK_SET {

template <class T>
[[gnu::always_inline]] inline double atanh_remainder_for(double z) {
    if constexpr (sizeof(T) == 8) return horner(z, coefficients::kAtanhDouble);
    else return horner(z, coefficients::kAtanhFloat);
}

// log(b/a) in parts for numbers whose difference is known better than b - a gives it.
struct LogQuotient {
    bool near;              // within a factor of 2.5: k = 0, s = gap/(a+b)
    double k, s, curve;     // log(b/a) = k log 2 + 2 s + s curve
};

template <class T>
[[gnu::always_inline]] inline LogQuotient log_quotient(double a, double b, double gap) {
    const bool near = are_near(a, b);
    const Scaled<double> a2 = split_log(a), b2 = split_log(b);
    const double s = (near ? gap : b2.mantissa - a2.mantissa) / (near ? a + b : b2.mantissa + a2.mantissa);
    const double z = s * s, curve = 2 * z * atanh_remainder_for<T>(z);
    const double k = near ? 0.0 : b2.exponent - a2.exponent;
    return {near, k, s, curve};
}

[[gnu::always_inline]] inline double log_of(const LogQuotient& l) {
    return l.k * Format<double>::kLog2High + (2 * l.s + (l.s * l.curve + l.k * Format<double>::kLog2Low));
}

// d log(b/a) - gap, far: the logarithm in two words, because the two cancel.
[[gnu::always_inline]] inline double product_less(double d, const LogQuotient& l, double gap) {
    const double multiple = l.k * Format<double>::kLog2High, high = multiple + 2 * l.s;
    const double low = (2 * l.s - (high - multiple)) + (l.s * l.curve + l.k * Format<double>::kLog2Low);
    return product_plus(d, high, -gap, d * low);
}

// h(b/a), w = b/a - 1: near, w - 2 s is exactly s w; elsewhere what is exact cancels first.
[[gnu::always_inline]] inline double log_bregman(const LogQuotient& l, double w) {
    const double far = ((w - l.k * Format<double>::kLog2High) - 2 * l.s) - (l.s * l.curve + l.k * Format<double>::kLog2Low);
    return l.near ? l.s * (w - l.curve) : far;
}

// R(b) - R(a) - (b-a) R'(a) over (b-a)^2/(a^2 b) for a, b >= 1, given s = 1/a and t = 1/b: with R = P(u)/x and u = 1 - 2/x
//   P(u_a) + 4 t^2 P[u_a, u_a, u_b] - 2 (s+t) P'(u_a).
template <class T>
[[gnu::always_inline]] inline double scaled_binet_divergence(double s, double t) {
    Expansion p;
    if constexpr (sizeof(T) == 8) p = expand(coefficients::kBinetFromOne0Double, 1 - 2 * s, 1 - 2 * t);
    else p = expand(coefficients::kBinetFromOne0Float, 1 - 2 * s, 1 - 2 * t);
    return p.value + (4 * t * t * p.second - 2 * (s + t) * p.slope);
}

// R'(b) - R'(a) over (b-a)/(a b): with R' = -S(u)/x^2, (s+t) S(u_a) - 2 t^2 S[u_a, u_b].
template <class T>
[[gnu::always_inline]] inline double scaled_binet_slope(double s, double t) {
    Expansion p;
    if constexpr (sizeof(T) == 8) p = expand_once(coefficients::kBinetFromOne1Double, 1 - 2 * s, 1 - 2 * t);
    else p = expand_once(coefficients::kBinetFromOne1Float, 1 - 2 * s, 1 - 2 * t);
    return (s + t) * p.value - 2 * t * t * p.slope;
}

// For a gap b - a that is known better than a and b give it.
template <class T>
[[gnu::always_inline]] inline double lgamma_bregman_of_gap(double a, double b, double gap) {
    const bool raise = (a < b ? a : b) < 1;
    const double step = log_bregman(log_quotient<T>(a, b, gap), gap / a);
    const double c = raise ? a + 1 : a, d = raise ? b + 1 : b;
    const LogQuotient l = log_quotient<T>(c, d, gap);
    const double s = 1 / c, t = 1 / d, w = gap * s;
    const double main = l.near ? gap * l.s + d * (l.s * l.curve) : product_less(d, l, gap);
    const double large = main + (0.5 * log_bregman(l, w) + w * (w * t) * scaled_binet_divergence<T>(s, t));
    return on_positive(a, b, raise ? large + step : large, kInfinity<double>);
}

template <class T>
[[gnu::always_inline]] inline T lgamma_bregman_of(T narrow_a, T narrow_b) {
    const double a = double(narrow_a), b = double(narrow_b);
    return T(lgamma_bregman_of_gap<T>(a, b, b - a));
}

template <class T>
[[gnu::always_inline]] inline T lgamma_bregman_slope_a(T narrow_a, T narrow_b) {
    const double a = double(narrow_a), b = double(narrow_b);
    // trigamma(a) is 1/a^2 there, which overflows where its product with the gap does not.
    const double inside = a < 1e-100 ? -((b - a) / a) / a : -(b - a) * trigamma_positive(a);
    const double value = on_positive(a, b, inside, 0.0);
    return T(a == kInfinity<double> ? 0.0 : value);
}

// psi(b) - psi(a), for a gap b - a that is known better than a and b give it.
template <class T>
[[gnu::always_inline]] inline double digamma_difference(double a, double b, double gap) {
    const bool raise = (a < b ? a : b) < 1;
    const double c = raise ? a + 1 : a, d = raise ? b + 1 : b;
    const LogQuotient l = log_quotient<T>(c, d, gap);
    const double s = 1 / c, t = 1 / d;
    const double large = log_of(l) + gap * s * t * (0.5 + scaled_binet_slope<T>(s, t));
    const double value = on_positive(a, b, raise ? large + gap / a / b : large, 0.0);
    return b == kInfinity<double> ? 0.0 : value;
}

template <class T>
[[gnu::always_inline]] inline T lgamma_bregman_slope_b(T narrow_a, T narrow_b) {
    const double a = double(narrow_a), b = double(narrow_b);
    return T(digamma_difference<T>(a, b, b - a));
}

}  // namespace kullback::KULLBACK_SET
