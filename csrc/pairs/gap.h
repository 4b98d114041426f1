// Bregman divergences of log Gamma at (a, b) and at the larger (a0, b0) = (a+s, b+t): differences without cancellation.
//
// Where s << a and t << b the two nearly agree. With N = b a0 - b0 a, which the caller knows exactly, u = (b-a)/a, v =
// (b0-a0)/a0 and z = N/(a b0):
//
//   u - v = N/(a a0),   log(b/a) - log(b0/a0) = log(1+z),   h(1+u) - h(1+v) = z v - [log(1+z) - z],   h(r) = r - 1 - log r.
//
// As in stirling.h arguments below 8 are raised, the eight terms differenced one by one.
#pragma once

#include "stirling.h"

namespace kullback::KULLBACK_SET {

struct Corners {
    double a, b, a0, b0;
    double gap, gap0;      // b - a and b0 - a0
    double s, t, gap_s;    // a0 - a, b0 - b, t - s
    double n;              // b a0 - b0 a

    // Whether (a, b) outweighs what is added to it under q; under p it always does. Otherwise nothing cancels.
    bool outweighed() const { return t <= b; }

    Corners raised(double k) const { return {a + k, b + k, a0 + k, b0 + k, gap, gap0, s, t, gap_s, n - k * gap_s}; }
};

// log(1 + x) and log(1 + x) - x for x > -0.6. Within [-0.29, 0.41] the remainder stands alone; outside it is a seventh of
// the logarithm at least.
struct Logarithm {
    double log, remainder;
};

inline Logarithm log1p_with_remainder(double x) {
    using F = Format<double>;
    const Log1pParts<double> l = split_log1p(x);
    const double log = l.k * F::kLog2High + (l.f + (l.tail + l.k * F::kLog2Low));
    return {log, l.k == 0 ? l.tail : log - x};
}

// For 1 + z = x/y and z = gap/y; where that is below 1/2 and has lost digits, from the inverse ratio.
inline Logarithm logarithm_of_ratio(double x, double y, double gap) {
    const bool plain = gap > -0.5 * y;
    const Logarithm l = log1p_with_remainder((plain ? gap : -gap) / (plain ? y : x));
    return {plain ? l.log : -l.log, plain ? l.remainder : -l.log - gap / y};
}

inline Logarithm logarithm(const Corners& c) { return logarithm_of_ratio(c.b * c.a0, c.a * c.b0, c.n); }

// h(b/a) - h(b0/a0) = z v - [log(1+z) - z], which is N/(a a0) - log(1+z).
inline double h_difference(const Corners& c) {
    const bool plain = c.n > -0.5 * (c.a * c.b0);
    const double x = (plain ? c.n : -c.n) / (plain ? c.a * c.b0 : c.b * c.a0);
    const Logarithm l = log1p_with_remainder(x);
    return plain ? x * (c.gap0 / c.a0) - l.remainder : c.n / (c.a * c.a0) + l.log;
}

// (b-a)/a^2 - (b0-a0)/a0^2 and (b-a)/(a b) - (b0-a0)/(a0 b0), over one denominator each.
inline double inverse_square_difference(const Corners& c) {
    return (c.n * c.a0 + c.gap0 * c.s * c.a) / ((c.a * c.a0) * (c.a * c.a0));
}

inline double inverse_product_difference(const Corners& c) {
    const double joined = c.n * c.b0 + c.gap0 * c.t * c.a, plain = c.gap * (c.a0 * c.b0) - c.gap0 * (c.a * c.b);
    return (c.outweighed() ? joined : plain) / ((c.a * c.b) * (c.a0 * c.b0));
}

// Where a, b, s and t are at least kDirectFrom: R, about 1/(12x), is too small beside what s and t contribute for rounding
// errors of its values to matter in their difference.
struct DirectGap {
    // D_S(a, b) - D_S(a0, b0).
    static double stirling(const Corners& c) {
        return 0.5 * h_difference(c) + (binet_bregman_above(c.a, c.b, c.gap) - binet_bregman_above(c.a0, c.b0, c.gap0));
    }

    // (b-a) psi'(a) - (b0-a0) psi'(a0).
    static double slope_p(const Corners& c) {
        const double rest = c.gap * binet_curvature(c.a) - c.gap0 * binet_curvature(c.a0);
        return c.n / (c.a * c.a0) + (0.5 * inverse_square_difference(c) + rest);
    }

    // [psi(b) - psi(a)] - [psi(b0) - psi(a0)].
    static double slope_q(const Corners& c) {
        const double inner = binet_slope_difference_above(c.a, c.b, c.gap);
        const double rest = inner - binet_slope_difference_above(c.a0, c.b0, c.gap0);
        return logarithm(c).log + (0.5 * inverse_product_difference(c) + rest);
    }
};

// For all arguments.
struct RaisedGap {
    // D_S(a, b) - D_S(a0, b0) for a, b >= 8: h/2, the first term 1/(12x) of Binet's series, and the rest of it.
    static double large(const Corners& c) {
        const double u = c.gap / c.a, v = c.gap0 / c.a0;
        const double joined = c.n / (c.a * c.a0) * (u + v) + v * v * (c.t / c.b0);
        const double first = (c.outweighed() ? joined : u * u - v * v * (c.b / c.b0)) / (12 * c.b);
        const double rest = binet_bregman<1>(c.a, c.b, c.gap).divergence - binet_bregman<1>(c.a0, c.b0, c.gap0).divergence;
        return 0.5 * h_difference(c) + (first + rest);
    }

    // M(a, b) - M(a0, b0) of Stirling's main part M(a, b) = b log(b/a) - b + a, whose first order cancels.
    static double main_difference(const Corners& c) {
        const double v = c.gap0 / c.a0;
        const double first = c.n / c.a * (c.n / (c.a0 * c.b0)) - c.gap_s * v;
        return first + c.b * logarithm(c).remainder - c.t * logarithm_of_ratio(c.b0, c.a0, c.gap0).remainder;
    }

    // D_S(a, b) - D_S(a0, b0), any size.
    static double stirling(const Corners& c) {
        const bool raise = (c.a < c.b ? c.a : c.b) < kRaise;
        const Corners last = c.raised(raise ? double(kRaise) : 0.0);
        const double at_last = large(last);
        double steps = 0;
        unrolled<kRaise>([&](auto index) { steps += h_difference(c.raised(double(kRaise - 1 - index))); });
        // The change of the main part: close together from second-order forms, apart without anything of size a or b in it.
        const double close = main_difference(last) - main_difference(c);
        const double log_first = logarithm(c).log, log_last = logarithm(last).log;
        const double outer = log_of(split_log_ratio(last.b0, last.a0)) - log_of(split_log_ratio(c.b0, c.a0));
        const double apart = kRaise * log_last + c.b * (log_last - log_first) - c.t * outer;
        const bool near = are_near(c.a, c.b) & are_near(c.a0, c.b0);
        return raise ? at_last + (steps + (near ? close : apart)) : at_last;
    }

    static double slope_p(const Corners& c) {
        const bool raise = c.a < kRaise;
        const Corners d = c.raised(raise ? double(kRaise) : 0.0);
        const double apart = d.n / (d.a * d.a0), v = d.gap0 / d.a0, i = 1 / d.a, i0 = 1 / d.a0;
        const double inverse = d.s / (d.a * d.a0);  // 1/a - 1/a0
        // psi'(x) = 1/x + 1/(2x^2) + 1/(6x^3) + the rest of the series.
        const double third = (apart * (i * i) + v * inverse * (i + i0)) * (1.0 / 6);
        const double rest = d.gap * (i * i * i) * (binet_series<2>(i * i) - 1.0 / 6) -
                            d.gap0 * (i0 * i0 * i0) * (binet_series<2>(i0 * i0) - 1.0 / 6);
        const double at_last = apart + 0.5 * inverse_square_difference(d) + (third + rest);
        double steps = 0;
        unrolled<kRaise>([&](auto index) { steps += inverse_square_difference(c.raised(double(kRaise - 1 - index))); });
        return raise ? at_last + steps : at_last;
    }

    static double slope_q(const Corners& c) {
        const bool raise = (c.a < c.b ? c.a : c.b) < kRaise;
        const Corners d = c.raised(raise ? double(kRaise) : 0.0);
        const double half = inverse_product_difference(d), outer = d.gap0 / (d.a0 * d.b0);
        const double first = half * (1 / d.a + 1 / d.b) + outer * (d.s / (d.a * d.a0) + d.t / (d.b * d.b0));
        const double rest = binet_bregman<1>(d.a, d.b, d.gap).slope - binet_bregman<1>(d.a0, d.b0, d.gap0).slope;
        const double log_ratio = logarithm(d).log;
        const double at_last = log_ratio + (0.5 * half + (first * (1.0 / 12) + rest));
        double steps = 0;
        unrolled<kRaise>([&](auto index) { steps += inverse_product_difference(c.raised(double(kRaise - 1 - index))); });
        return raise ? at_last + steps : at_last;
    }
};

}  // namespace kullback::KULLBACK_SET
