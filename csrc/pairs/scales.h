// KL of two Exponential, two HalfNormal and two Pareto distributions: functions of ratios of parameters. Called by pairs.cpp.
#pragma once

#include "../math/log.h"

namespace kullback::KULLBACK_SET {

// x/y = 1 + w, and w - log(1+w) >= 0.
struct Ratio {
    double w, gap;
};

// The difference of numbers near each other is exact, so w is; log(1+w) = 2 atanh(s), s = w/(2+w), and w - 2 s is exactly w s.
[[gnu::always_inline]] inline Ratio ratio_of(double x, double y) {
    const double w = (x - y) / y;
    const LogRatio l = split_log_ratio(x, y);
    const double near = l.s * (w - 2 * (l.s * l.s) * l.remainder);
    return {w, l.k == 0 ? near : w - log_of(l)};
}

// Parameters (rate_p, rate_q): w - log(1+w), 1 + w = rate_q/rate_p.
struct Exponential {
    using Single = double;
    static constexpr int kArity = 2;

    static bool holds(const double (&x)[2]) { return x[0] >= 0 && x[1] >= 0; }

    static double value(const double (&x)[2]) { return x[1] == 0 ? kInfinity<double> : ratio_of(x[1], x[0]).gap; }

    static void slopes(const double (&x)[2], double (&s)[2]) {
        const double w = (x[1] - x[0]) / x[0];
        s[0] = -w / x[0];
        s[1] = w / x[1];
    }
};

// Parameters (scale_p, scale_q): w^2/2 + [w - log(1+w)], 1 + w = scale_p/scale_q, that of the Normals.
struct HalfNormal {
    using Single = double;
    static constexpr int kArity = 2;

    static bool holds(const double (&x)[2]) { return x[0] >= 0 && x[1] >= 0; }

    static double value(const double (&x)[2]) {
        const Ratio r = ratio_of(x[0], x[1]);
        return x[0] == 0 ? kInfinity<double> : 0.5 * r.w * r.w + r.gap;
    }

    static void slopes(const double (&x)[2], double (&s)[2]) {
        const double w = (x[0] - x[1]) / x[1], excess = w * (2 + w);
        s[0] = excess / x[0];
        s[1] = -excess / x[1];
    }
};

// Parameters (scale_p, alpha_p, scale_q, alpha_q): [w - log(1+w)] + alpha_q log(scale_p/scale_q), 1 + w = alpha_q/alpha_p;
// infinite where p begins below q.
struct Pareto {
    using Single = double;
    static constexpr int kArity = 4;

    static bool holds(const double (&x)[4]) { return x[0] >= 0 && x[1] >= 0 && x[2] >= 0 && x[3] >= 0; }

    static double value(const double (&x)[4]) {
        const double rise = x[3] * log_of(split_log_ratio(x[0], x[2]));
        return x[0] < x[2] || x[3] == 0 ? kInfinity<double> : ratio_of(x[3], x[1]).gap + rise;
    }

    static void slopes(const double (&x)[4], double (&s)[4]) {
        const double w = (x[3] - x[1]) / x[1], log = log_of(split_log_ratio(x[0], x[2]));
        const double inside = x[0] < x[2] ? 0.0 : 1.0;
        s[0] = inside * (x[3] / x[0]);
        s[1] = inside * (-w / x[1]);
        s[2] = inside * (-x[3] / x[2]);
        s[3] = inside == 0 ? 0.0 : w / x[3] + log;
    }
};

}  // namespace kullback::KULLBACK_SET
