// log(Phi(b) - Phi(a)) for a <= b, and its slopes phi(b)/(Phi(b) - Phi(a)) and -phi(a)/(Phi(b) - Phi(a)).
//
// The interval is mirrored so that a + b <= 0, and then lies in the lower tail, is narrow, or contains 0. All three masses
// are evaluated without branches and one is chosen.
#pragma once

#include "normal.h"

namespace kullback::KULLBACK_SET {

struct Interval {
    double mass;              // Phi(b) - Phi(a) relative to e^log_scale
    double log_scale;
    double log_correction;    // of log(mass), where its rounding matters
    double exponent, factor;  // phi(a)/(Phi(b) - Phi(a)) = factor e^exponent
    double high;              // phi(b)/(Phi(b) - Phi(a))
};

// Mean over 0 <= t <= 1 of e^(-y t^2) cosh(x t), given q = x^2 <= 1/4 and y <= 1/8: the sum over m of (-y)^m/m! times
// the sum over k of q^k/((2k)! (2k+2m+1)).
inline double narrow_mean(double q, double y) {
    double total = 0;
    unrolled<11>([&](auto index) {
        constexpr int m = 10 - index, terms = 8 - m / 2;
        double inner = 0;
        unrolled<terms>([&](auto inner_index) {
            constexpr int k = terms - 1 - inner_index;
            double factorial = 1;
            for (int i = 2; i <= 2 * k; ++i) factorial *= i;
            inner = inner * q + 1 / (factorial * (2 * k + 2 * m + 1));
        });
        total = inner - total * y * (1.0 / (m + 1));
    });
    return total;
}

// -(s^2 - t^2)/2 for s >= t >= 0 as a number and its correction: a large exponent needs more digits than it has.
struct Exponent {
    double high, low;
};

inline double leading_half(double x) { return bit_cast<double>(bit_cast<uint64_t>(x) & 0xfffffffff8000000); }

inline Exponent half_square_difference(double s, double t) {
    const double gap = s - t, gap_low = (s - gap) - t;
    const double sum = s + t, sum_low = (s - sum) + t;
    const double gap1 = leading_half(gap), sum1 = leading_half(sum), gap2 = gap - gap1, sum2 = sum - sum1;
    const double product = gap * sum;
    const double lost = ((gap1 * sum1 - product) + (gap1 * sum2 + gap2 * sum1)) + gap2 * sum2;
    const double low = -0.5 * (lost + (gap * sum_low + gap_low * sum));
    return {-0.5 * product, magnitude(low) < 1 ? low : 0.0};  // beyond, e^(-product/2) is 0
}

inline double exp_of(Exponent e) { return exp_times(e.high, 1 + e.low); }

// For a <= b, a + b <= 0.
inline Interval interval(double a, double b) {
    const double s = -a, t = magnitude(b), width = b - a, centre = 0.5 * a + 0.5 * b, lean = width * magnitude(centre);
    const double mills_s = mills(s), mills_t = mills(t);
    // Both ends in the lower tail: phi(b) [M(|b|) - phi(a)/phi(b) M(|a|)].
    const Exponent fall = half_square_difference(s, t);
    const double tail = mills_t - exp_of(fall) * mills_s;
    // 0 inside: one minus two tails.
    const double density_s = normal_density(s), density_t = normal_density(t);
    const double outside = gaussian(s, central_mills(s)) + gaussian(t, central_mills(t));
    const double central = 1 - outside;
    // Narrow: phi(centre) times the width times a mean.
    const double narrow = width * narrow_mean(0.25 * lean * lean, 0.125 * width * width);
    const double bend = 0.125 * width * width;

    const bool is_narrow = (width <= 1 ? lean : width) <= 1, is_tail = b <= 0;
    const double far_high = t > 1e100 ? t : 1 / tail;  // 1/M(t) is t there, which may be larger than the fit allows
    const double far_square = is_tail ? t * t : 0.0;
    const double far_mass = is_tail ? kDensityAtZero * tail : central;
    const double far_correction = is_tail ? 0.0 : (1 - central - outside) / central;
    const double far_exponent = is_tail ? fall.high : 0.0;
    const double far_factor = is_tail ? (1 + fall.low) / tail : density_s / central;
    return {is_narrow ? kDensityAtZero * narrow : far_mass,
            -0.5 * (is_narrow ? centre * centre : far_square),
            is_narrow ? 0.0 : far_correction,
            is_narrow ? -0.5 * lean - bend : far_exponent,
            is_narrow ? 1 / narrow : far_factor,
            is_narrow ? exp_of(0.5 * lean - bend) / narrow : (is_tail ? far_high : density_t / central)};
}

inline double log_ndtr_diff_of(double a, double b) {
    const bool mirrored = a + b > 0;
    const Interval i = interval(mirrored ? -b : a, mirrored ? -a : b);
    const double value = log_of(i.mass) + (i.log_correction + i.log_scale);
    return a < b ? value : (a == b ? -kInfinity<double> : kNaN<double>);
}

// The slopes in a and b; an infinite end has no density left.
inline double log_ndtr_diff_slope_a(double a, double b) {
    const bool mirrored = a + b > 0;
    const Interval i = interval(mirrored ? -b : a, mirrored ? -a : b);
    const double value = mirrored ? -i.high : -exp_times(i.exponent, i.factor);
    const double inside = magnitude(a) == kInfinity<double> ? 0.0 : value;
    return a <= b ? inside : kNaN<double>;
}

inline double log_ndtr_diff_slope_b(double a, double b) {
    const bool mirrored = a + b > 0;
    const Interval i = interval(mirrored ? -b : a, mirrored ? -a : b);
    const double value = mirrored ? exp_times(i.exponent, i.factor) : i.high;
    const double inside = magnitude(b) == kInfinity<double> ? 0.0 : value;
    return a <= b ? inside : kNaN<double>;
}

}  // namespace kullback::KULLBACK_SET
