// KL(Bernoulli || Bernoulli), each side given by its probability or by its log-odds.
//
// With outcome probabilities p1, p0 and q1, q0 it is the sum of the two generalised divergences p log(p/q) - p + q, both
// non-negative. All that matters near equality is the gap q1 - p1: of probabilities it is exact; of log-odds a and b it is
// p1 q0 expm1(b - a), in which nothing cancels (and nothing overflows, with the roles exchanged where b > a). The log-ratios
// of outcomes further apart are differences of logarithms; those of log-odds do not underflow.
//
// Certainty is read from the parameter, not from an underflowed probability. To a probability of p that is exactly 0 or 1 the
// derivative is 0 by convention, where its limit is infinite.
#pragma once

#include "../math/exp.h"
#include "stirling.h"

namespace kullback::KULLBACK_SET {

struct Chance {
    double p1, p0;
    double main1, main0, decay;  // the logarithms of p1 and p0 are main1 and main0, less log(1 + decay)
    bool never, always;
};

// log((1 + to)/(1 + from)) for decays between 0 and 1: one logarithm in place of two.
[[gnu::always_inline]] inline double log_of_decays(double from, double to) {
    const double s = (to - from) / (2 + (from + to));
    return 2 * s + 2 * s * (s * s) * atanh_remainder(s * s);
}

template <bool kLogits>
inline Chance chance_of(double x) {
    if constexpr (kLogits) {
        const double decay = exp_of(-magnitude(x)), large = 1 / (1 + decay), small = decay * large;
        const bool up = x >= 0;
        return {up ? large : small, up ? small : large, up ? 0.0 : x, up ? -x : 0.0, decay,
                x == -kInfinity<double>, x == kInfinity<double>};
    } else {
        return {x, 1 - x, log_of(x), log1p_of(-x), 0.0, x == 0, x == 1};
    }
}

template <bool kLogitsP, bool kLogitsQ>
struct Bernoulli {
    using Single = double;
    static constexpr int kArity = 2;
    static constexpr bool kPlain = !kLogitsP && !kLogitsQ;

    static bool holds(const double (&x)[2]) {
        const bool p = kLogitsP ? x[0] == x[0] : x[0] >= 0 && x[0] <= 1, q = kLogitsQ ? x[1] == x[1] : x[1] >= 0 && x[1] <= 1;
        return p && q;
    }

    struct Change {
        Chance p, q;
        double gap, delta;  // q1 - p1; the log-odds of q less those of p
        bool infinite;      // q lacks an outcome that p has
    };

    static Change change_of(const double (&x)[2]) {
        const Chance p = chance_of<kLogitsP>(x[0]), q = chance_of<kLogitsQ>(x[1]);
        const bool infinite = (q.never & !p.never) | (q.always & !p.always);
        if constexpr (kPlain) {
            return {p, q, x[1] - x[0], 0.0, infinite};
        } else {
            const double of_p = kLogitsP ? x[0] : p.main1 - p.main0, of_q = kLogitsQ ? x[1] : q.main1 - q.main0;
            const double delta = of_p == of_q ? 0.0 : of_q - of_p;
            const double shrunk = expm1_of(-magnitude(delta));
            return {p, q, delta < 0 ? p.p1 * q.p0 * shrunk : -(q.p1 * p.p0 * shrunk), delta, infinite};
        }
    }

    // log(q/p) of one outcome, from the gap where that is small.
    static double log_of_outcome(double p, double q, double gap, double far) {
        const bool near = are_near(p, q);
        const double s = near ? gap / (p + q) : 0.0;
        const double close = 2 * s + 2 * s * (s * s) * atanh_remainder(s * s);
        return near ? close : (kPlain ? log_of_far_ratio(q, p) : far);
    }

    // p log(p/q) - p + q of one outcome.
    static double term(double p, double q, double gap, double far) {
        const bool near = are_near(p, q);
        const double s = near ? gap / (p + q) : 0.0;
        const double close = s * (gap - p * (2 * (s * s) * atanh_remainder(s * s)));
        const double log_ratio = kPlain ? log_of_far_ratio(q, p) : far;
        return near ? close : (p == 0 ? gap : gap - p * log_ratio);
    }

    static double value(const double (&x)[2]) {
        const Change c = change_of(x);
        const double rest = kPlain ? 0.0 : log_of_decays(c.p.decay, c.q.decay);
        const double inside = term(c.p.p1, c.q.p1, c.gap, (c.q.main1 - c.p.main1) - rest) +
                              term(c.p.p0, c.q.p0, -c.gap, (c.q.main0 - c.p.main0) - rest);
        // Less the logarithm of the one outcome that p has; its decay is 0.
        const double sure = rest - (c.p.never ? c.q.main0 : c.q.main1);
        const double finite = !kPlain && (c.p.never | c.p.always) ? sure : inside;
        return c.infinite ? kInfinity<double> : finite;
    }

    static void slopes(const double (&x)[2], double (&d)[2]) {
        const Change c = change_of(x);
        const bool sure = c.p.never | c.p.always;
        double delta = c.delta;
        if constexpr (kPlain) {
            delta = log_of_outcome(c.p.p1, c.q.p1, c.gap, 0.0) - log_of_outcome(c.p.p0, c.q.p0, -c.gap, 0.0);
        }
        const double to_p = kLogitsP ? -(c.p.p1 * c.p.p0) * delta : -delta;
        d[0] = sure | c.infinite ? 0.0 : to_p;
        const double edge = c.p.never ? 1 / c.q.p0 : -1 / c.q.p1;
        const double to_q = kLogitsQ ? c.gap : (sure ? edge : c.gap / c.q.p1 / c.q.p0);
        d[1] = c.infinite ? 0.0 : to_q;
    }
};

}  // namespace kullback::KULLBACK_SET
