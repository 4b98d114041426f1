// KL(Gamma(a, r) || Gamma(b, t)) = [b log(b/M) - b + M] + D_S(a, b), M = a t/r: what the means cost, and what is left of the
// log-gammas (stirling.h). Both are non-negative; the textbook form's terms cancel among each other at large concentration.
//
// Near equal means M - b = (a t - b r)/r is right to the last digit only with exact products.
#pragma once

#include "../math/exact.h"
#include "stirling.h"

namespace kullback::KULLBACK_SET {

template <class Stirling>
struct GammaBy {
    using Single = double;
    static constexpr int kArity = 4;

    static bool holds(const double (&x)[4]) { return x[0] >= 0 && x[1] >= 0 && x[2] >= 0 && x[3] >= 0; }

    struct Means {
        double rate_p, mean;    // the rate of p scaled into [sqrt(1/2), sqrt(2)), and M
        double excess;          // a t - b r with both rates scaled so
        bool near;
        double s, log;          // log(M/b), 2 atanh(s) where near
    };

    static Means means(const double (&x)[4]) {
        const double a = x[0], b = x[2];
        const Scaled<double> p2 = split_log(x[1]), q2 = split_log(x[3]);
        const double k = q2.exponent - p2.exponent;
        // 2^k in two steps: the ratio of the rates may be out of range.
        const double bounded = k > 1100 ? 1100.0 : (k < -1100 ? -1100.0 : k);
        const double half = (0.5 * bounded + Format<double>::kRound) - Format<double>::kRound;
        const double rate_q = q2.mantissa * power_of_two(half) * power_of_two(bounded - half);
        const Pair u = two_product(a, rate_q), v = two_product(b, p2.mantissa);
        const bool near = are_near(u.high, v.high);
        const double gap = u.high - v.high, low = u.low - v.low;
        const double excess = near ? gap + low : gap;
        const double s = near ? excess / (u.high + v.high) : 0.0;
        const double close = 2 * s + 2 * s * (s * s) * atanh_remainder(s * s);
        return {p2.mantissa, u.high / p2.mantissa, excess, near, s, near ? close : log_of_means(a, b, p2, q2)};
    }

    // log(a t/(b r)) by exponents and mantissas.
    static double log_of_means(double a, double b, Scaled<double> p2, Scaled<double> q2) {
        const Scaled<double> a2 = split_log(a), b2 = split_log(b);
        const Scaled<double> above = split_log(a2.mantissa * q2.mantissa), below = split_log(b2.mantissa * p2.mantissa);
        const double k = (a2.exponent + q2.exponent + above.exponent) - (b2.exponent + p2.exponent + below.exponent);
        const double s = (above.mantissa - below.mantissa) / (above.mantissa + below.mantissa);
        return log_of(LogRatio{k, s, atanh_remainder(s * s)});
    }

    static double value(const double (&x)[4]) {
        const double a = x[0], b = x[2];
        const Means m = means(x);
        const double change = m.excess / m.rate_p;  // M - b
        // b (y - log(1+y)) with y = change/b: y - 2 s is exactly s y.
        const double z = m.s * m.s;
        const double close = m.s * (change - b * (2 * z * atanh_remainder(z)));
        const double cost = m.near ? close : change - b * m.log;
        const double sum = cost + Stirling::bregman(a, b, b - a);
        return m.mean == kInfinity<double> ? m.mean : sum;
    }

    static void slopes(const double (&x)[4], double (&d)[4]) {
        const double a = x[0], b = x[2], gap = b - a;
        const Means m = means(x);
        const bool finite = m.mean < kInfinity<double>;
        const double ratio = finite ? m.excess / m.rate_p : 0.0;
        d[0] = finite ? ratio / a - gap * Stirling::curvature(a) : 0.0;
        d[1] = -ratio / x[1];
        d[2] = finite ? Stirling::slope(a, b, gap) - m.log : 0.0;
        d[3] = ratio / x[3];
    }
};

struct Gamma : GammaBy<Direct> {
    using Rare = GammaBy<Raised>;

    static bool is_rare(const double (&x)[4]) { return !((x[0] < x[2] ? x[0] : x[2]) >= kDirectFrom); }
};

}  // namespace kullback::KULLBACK_SET
