// What log Gamma has beyond x log x - x: S(x) = -1/2 log x + R(x), R Binet's remainder.
//
// Its Bregman divergence S(b) - S(a) - (b-a) S'(a) = h(b/a)/2 + D_R(a, b), h(r) = r - 1 - log r, is what is left of the
// divergence of two Gamma laws of equal mean. `Direct` takes R as binet.h gives it for arguments that are not small.
//
// `Raised` serves all: below 8 the arguments are raised by the recurrence of log Gamma, whose eight terms h((b+k)/(a+k)) are
// joined by the change of Stirling's main part M(a, b) = b log(b/a) - b + a from a, b to a+8, b+8. That change is smaller
// than the terms by a factor of 16 at most, so relative accuracy survives:
//
//   within a factor of 2.5:  each M in its relatively accurate form, from s = (b-a)/(a+b);
//   further apart:           8 log((b+8)/(a+8)) + b [log((b+8)/(a+8)) - log(b/a)], nothing of size a or b in it.
#pragma once

#include "../math/binet.h"
#include "../math/gamma.h"

namespace kullback::KULLBACK_SET {

// log(b/a) = 2 s + s remainder from the exact difference, or by exponents and mantissas.
struct Quotient {
    bool direct;
    double s, w, remainder, log;  // s = gap/(a+b), w = gap/a, remainder = 2 s^2 atanh_remainder(s^2)
};

inline Quotient quotient_of(double a, double b, double gap) {
    const bool direct = are_near(a, b);
    const double s = direct ? gap / (a + b) : 0.0;
    const double remainder = 2 * (s * s) * atanh_remainder(s * s);
    const double near = 2 * s + s * remainder;
    return {direct, s, gap / a, remainder, direct ? near : log_of_far_ratio(b, a)};
}

// h(b/a).
inline double log_bregman_of(const Quotient& t) { return t.direct ? t.s * (t.w - t.remainder) : t.w - t.log; }

// x (x+1) ... (x+7) in two halves, and the sum of their reciprocals, from u = x (x + 7).
struct Rising {
    double outer, inner, reciprocals;
};

inline Rising rising_of(double x) {
    const double u = x * (x + 7), v = u + 6, y = u + 10, z = u + 12;
    // 1/u + 1/v and 1/y + 1/z, times 2x + 7.
    return {u * v, y * z, (2 * x + 7) * ((u + v) / (u * v) + (y + z) / (y * z))};
}

// R''(x) = R''(x+1) + 1/(2 x^2 (x+1)^2), which keeps the polynomial of binet.h in its range.
inline double binet_curvature(double x) {
    const double i = 1 / (x * (x + 1));
    return binet_above<2>(x + 1) + 0.5 * (i * i);
}

// For arguments of at least kDirectFrom.
struct Direct {
    // D_S(a, b).
    static double bregman(double a, double b, double gap) {
        return 0.5 * log_bregman_of(quotient_of(a, b, gap)) + binet_bregman_above(a, b, gap);
    }

    // S'(b) - S'(a) = psi(b) - psi(a) - log(b/a).
    static double slope(double a, double b, double gap) {
        return 0.5 * (gap / a) / b + binet_slope_difference_above(a, b, gap);
    }

    // S''(x) = psi'(x) - 1/x > 0.
    static double curvature(double x) { return 0.5 / x / x + binet_curvature(x); }
};

inline constexpr double kDirectFrom = 0.22;

struct Raised {
    static double bregman(double a, double b, double gap) {
        const bool raise = (a < b ? a : b) < kRaise;
        const double a_last = raise ? a + kRaise : a, b_last = raise ? b + kRaise : b;
        const Quotient first = quotient_of(a, b, gap), last = quotient_of(a_last, b_last, gap);
        const double tail = 0.5 * log_bregman_of(last) + binet_bregman(a_last, b_last, gap).divergence;
        double close = 0;
        unrolled<kRaise>([&](auto index) {
            constexpr int k = kRaise - 1 - index;
            // s and w = gap/(a+k) over one denominator.
            const double base = a + k, sum = base + (b + k), t = gap / (base * sum);
            const double s = t * base, z = s * s;
            close += s * (t * sum - 2 * z * atanh_remainder(z));
        });
        close += (gap * last.s + b_last * (last.s * last.remainder)) - (gap * first.s + b * (first.s * first.remainder));
        const Rising of_a = rising_of(a), of_b = rising_of(b);
        const double outer = log_of(split_log_ratio(of_b.outer, of_a.outer));
        const double terms = gap * of_a.reciprocals - (outer + log_of(split_log_ratio(of_b.inner, of_a.inner)));
        const double apart = terms + (kRaise * last.log + b * (last.log - first.log));
        return raise ? tail + (first.direct ? close : apart) : tail;
    }

    static double slope(double a, double b, double gap) {
        const bool raise = (a < b ? a : b) < kRaise;
        const double a_last = raise ? a + kRaise : a, b_last = raise ? b + kRaise : b;
        const Quotient first = quotient_of(a, b, gap), last = quotient_of(a_last, b_last, gap);
        const double tail = 0.5 * (gap / a_last) / b_last + binet_bregman(a_last, b_last, gap).slope;
        double sum = 0;
        unrolled<kRaise>([&](auto index) {
            constexpr int k = kRaise - 1 - index;
            sum += (gap / (a + k)) / (b + k);
        });
        return raise ? tail + (sum + (last.log - first.log)) : tail;
    }

    static double curvature(double x) {
        const bool raise = x < kRaise;
        const double t = 1 / (raise ? x + kRaise : x);
        const double tail = t * t * (0.5 + t * binet_series<2>(t * t));
        return raise ? reciprocal_powers<1>(x) + (tail + (t - 1 / x)) : tail;
    }
};

}  // namespace kullback::KULLBACK_SET
