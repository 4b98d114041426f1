// Binet's remainder R(x) = log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2 for x > 0: its derivatives of order 0 to 4,
// its Bregman divergence, and the difference of its slope. R is completely monotone: the derivatives alternate in sign.
//
// Above 1/4 (1/2 from order 2 on) a derivative is P(u)/x^(order+1) with a polynomial P that hardly varies, u = 1 - k/(x+c);
// below, the poles and the logarithm stand alone and a polynomial makes up the rest. Nothing in either sum cancels by
// more than a factor of three.
#pragma once

#include <cmath>

#include "log.h"

namespace kullback::KULLBACK_SET {

template <int order>
constexpr auto& scaled_coefficients() {
    if constexpr (order == 0) return coefficients::kScaled0;
    else if constexpr (order == 1) return coefficients::kScaled1;
    else if constexpr (order == 2) return coefficients::kScaled2;
    else if constexpr (order == 3) return coefficients::kScaled3;
    else return coefficients::kScaled4;
}

template <int order>
constexpr auto& regular_coefficients() {
    if constexpr (order == 0) return coefficients::kRegular0;
    else if constexpr (order == 1) return coefficients::kRegular1;
    else if constexpr (order == 2) return coefficients::kRegular2;
    else if constexpr (order == 3) return coefficients::kRegular3;
    else return coefficients::kRegular4;
}

template <int order>
inline bool is_above(double x) {
    return x >= coefficients::kScaledFrom[order];
}

// u = 1 - k v with v = 1/(x+c), k = 2 (x0 + c).
template <int order>
struct BinetPoint {
    static constexpr double kShift = coefficients::kShifts[order];
    static constexpr double kScale = 2 * (coefficients::kScaledFrom[order] + kShift);
    double v, u;
    explicit BinetPoint(double x) : v(1 / (x + kShift)), u(1 - kScale * v) {}
};

inline double regular_point(double x) { return x * (2 / coefficients::kRegularTo) - 1; }

// What rounding took from x * x, relative to it; 0 where the square overflows or underflows.
inline double lost_in_square(double x) {
    const double leading = bit_cast<double>(bit_cast<uint64_t>(x) & 0xfffffffff8000000);  // 26 bits: its square is exact
    const double square = x * x;
    const double lost = ((leading * leading - square) + (x - leading) * (x + leading)) / square;
    return x < 1e150 && x > 1e-140 ? lost : 0.0;
}

// y/x^(order+1) with no power that overflows or underflows before the quotient does. The square enters twice from order 3
// on, and so would its rounding error.
template <int order>
inline double over_power(double y, double x) {
    if constexpr (order == 0) return y / x;
    else if constexpr (order == 1) return y / x / x;
    else if constexpr (order == 2) return y / (x * x) / x;
    const double corrected = y - y * (2 * lost_in_square(x));
    const double quotient = corrected / (x * x) / (x * x);
    return order == 3 ? quotient : quotient / x;
}

template <int order>
inline double binet_above(double x) {
    const double value = over_power<order>(horner(BinetPoint<order>(x).u, scaled_coefficients<order>()), x);
    return order % 2 == 0 ? value : -value;
}

// For x <= 3/4; infinite at 0 with the sign of every value, NaN below.
template <int order>
inline double binet_below(double x) {
    const double rest = horner(regular_point(x), regular_coefficients<order>());
    double value;
    if constexpr (order == 0) value = rest - (x + 0.5) * log_of(4 * x);
    else if constexpr (order == 1) value = (rest - log_of(4 * x)) - 0.5 / x;
    else if constexpr (order == 2) value = rest + (0.5 - x) / (x * x);
    else if constexpr (order == 3) value = rest + over_power<2>(x - 1, x);
    else value = rest + over_power<3>(3 - 2 * x, x);
    const double limit = order % 2 == 0 ? kInfinity<double> : -kInfinity<double>;
    return x > 0 ? value : (x == 0 ? limit : kNaN<double>);
}

template <int order>
inline double binet_of(double x) {
    return is_above<order>(x) ? binet_above<order>(x) : binet_below<order>(x);
}

// P(a), P'(a) and the second divided difference P[a, a, b] by synthetic division.
struct Expansion {
    double value, slope, second;
};

template <class C, int N>
[[gnu::always_inline]] inline Expansion expand(const C (&coefficients)[N], double a, double b) {
    double value = double(coefficients[N - 1]), slope = 0, second = 0;
#pragma GCC unroll 64
    for (int k = N - 2; k >= 0; --k) {
        second = second * b + slope;
        slope = slope * a + value;
        value = value * a + double(coefficients[k]);
    }
    return {value, slope, second};
}

// P(a) and the divided difference P[a, b].
template <class C, int N>
[[gnu::always_inline]] inline Expansion expand_once(const C (&coefficients)[N], double a, double b) {
    double value = double(coefficients[N - 1]), slope = 0;
#pragma GCC unroll 64
    for (int k = N - 2; k >= 0; --k) {
        slope = slope * b + value;
        value = value * a + double(coefficients[k]);
    }
    return {value, slope, 0};
}

// D(a, b) = R(b) - R(a) - (b-a) R'(a) >= 0 for a, b >= 0.22 at any ratio (P holds that far). With R = P(u)/x and d = b - a,
//   D = d^2/(a^2 b) {P(u_a) + k a v_a^2 v_b [k a v_b P[u_a, u_a, u_b] - (a+b+c) P'(u_a)]},
// where the bracket is less than half of what it corrects.
// A caller may know d better than b - a gives it.
inline double binet_bregman_above(double a, double b, double gap) {
    using Point = BinetPoint<0>;
    const Point at_a(a), at_b(b);
    const double k = Point::kScale;
    const Expansion p = expand(scaled_coefficients<0>(), at_a.u, at_b.u);
    const double weight = k * (a * at_a.v) * at_a.v;
    const double sum = (a + Point::kShift) * at_b.v + b * at_b.v;
    const double braces = p.value + weight * (k * (a * at_b.v) * at_b.v * p.second - sum * p.slope);
    return (gap / a) * (gap / b / a) * braces;
}

inline double binet_bregman_above(double a, double b) { return binet_bregman_above(a, b, b - a); }

// The same for arguments up to 3/4: half the divergence h(b/a) of -log x, less that of
// x log x, and the divergence of the regular part.
inline double binet_bregman_below(double a, double b) {
    const double gap = b - a, w = gap / a, scale = 2 / coefficients::kRegularTo;
    const Expansion p = expand(regular_coefficients<0>(), regular_point(a), regular_point(b));
    const double rest = gap * scale * (gap * scale) * p.second;
    const double s = gap / (a + b);
    if (s * s <= 0.25) {
        // With log(b/a) = 2 atanh(s) the leading terms w - 2 s and b 2 s - gap are exactly s w and gap s.
        const double remainder = 2 * (s * s) * atanh_remainder(s * s);
        return rest + s * ((0.5 - a) * w - remainder * (0.5 + b));
    }
    const LogRatio l = split_log_ratio(b, a);
    // A factor of three apart, h(b/a) and the divergence of x log x cancel each other and outweigh the rest: everything
    // carries what rounding took from it. log(b/a) = high + 2 q + low with q the quotient of the mantissas.
    const double high = l.k * Format<double>::kLog2High, q = l.s;
    const double m = split_log(b).mantissa, n = split_log(a).mantissa, sum = m + n;
    const double sum_low = m < n ? m - (sum - n) : n - (sum - m);
    const double q_low = (std::fma(-q, sum, m - n) - q * sum_low) / sum / (1 - q * q);
    const double low = 2 * (q_low + q * q * q * l.remainder) + l.k * Format<double>::kLog2Low;
    const double gap_low = gap < 0 ? b - (a + gap) : (b - gap) - a;
    const double w_low = (std::fma(-w, a, gap) + gap_low) / a;
    const double half_h = 0.5 * (((w - high) - 2 * q) + (w_low - low));
    const double log_ratio = high + 2 * q, log_low = low + (2 * q - (log_ratio - high));
    return (half_h + (std::fma(-b, log_ratio, gap) + (gap_low - b * log_low))) + rest;
}

// Where binet_bregman_above does not hold, or is less accurate than binet_bregman_below; infinite arguments included.
inline bool is_binet_exception(double a, double b) {
    const double smaller = a < b ? a : b, larger = a < b ? b : a;
    const double least = larger <= coefficients::kRegularTo ? 0.4 : 0.22;
    return !(smaller >= least && larger < kInfinity<double>);
}

// At an end of the domain: infinite against its inside, R(b) as a -> inf, no limit for both arguments at one end.
inline double binet_bregman_exception(double a, double b) {
    if (!(a >= 0 && b >= 0 && a != b)) return a > 0 && a < kInfinity<double> && a == b ? 0.0 : kNaN<double>;
    if (a == 0 || b == 0 || b == kInfinity<double>) return kInfinity<double>;
    if (a == kInfinity<double>) return binet_of<0>(b);
    if ((b - a) / a == kInfinity<double>) return kInfinity<double>;
    if (a <= coefficients::kRegularTo && b <= coefficients::kRegularTo) return binet_bregman_below(a, b);
    return (binet_of<0>(b) - binet_of<0>(a)) - (b - a) * binet_of<1>(a);
}

// R'(b) - R'(a) for a, b >= 0.22. With R' = -S(u)/x^2: d/(a b^2) {(a+b)/a S(u_a) - k a v_a v_b S[u_a, u_b]}.
inline double binet_slope_difference_above(double a, double b, double gap) {
    using Point = BinetPoint<1>;
    const Point at_a(a), at_b(b);
    const Expansion s = expand_once(scaled_coefficients<1>(), at_a.u, at_b.u);
    const double braces = (1 + b / a) * s.value - Point::kScale * (a * at_a.v) * at_b.v * s.slope;
    return (gap / b / a) * (braces / b);
}

inline double binet_slope_difference_above(double a, double b) { return binet_slope_difference_above(a, b, b - a); }

inline double binet_slope_difference_below(double a, double b) {
    const double gap = b - a, scale = 2 / coefficients::kRegularTo;
    const Expansion p = expand_once(regular_coefficients<1>(), regular_point(a), regular_point(b));
    return (0.5 * (gap / a / b) - log_of(split_log_ratio(b, a))) + gap * scale * p.slope;
}

// Derivatives: at an infinite argument 0 in that argument, at an end where the value is infinite 0 in both.
inline double binet_bregman_slope_b_exception(double a, double b) {
    if (!(a >= 0 && b >= 0)) return kNaN<double>;
    if (b == kInfinity<double>) return 0.0;
    if (a == 0 || b == 0) return a == b ? kNaN<double> : 0.0;
    if (a == kInfinity<double>) return binet_of<1>(b);
    if (a <= coefficients::kRegularTo && b <= coefficients::kRegularTo) return binet_slope_difference_below(a, b);
    return binet_of<1>(b) - binet_of<1>(a);
}

// -(b-a) R''(a), below 1/2 by parts because R'' overflows where the product does not.
inline double binet_bregman_slope_a_exception(double a, double b) {
    if (!(a >= 0 && b >= 0)) return kNaN<double>;
    if (a == kInfinity<double>) return 0.0;
    if (a == 0 || b == 0) return a == b ? kNaN<double> : 0.0;
    if (b == kInfinity<double>) return 0.0;
    const double gap = b - a;
    if (gap == 0) return 0.0;  // before R'' overflows
    if (is_above<2>(a)) return -gap * binet_above<2>(a);
    return -((gap / a) * ((0.5 - a) / a) + gap * horner(regular_point(a), regular_coefficients<2>()));
}

}  // namespace kullback::KULLBACK_SET
