// KL(Geometric || Geometric) = KL(Bernoulli || Bernoulli)/p: 1/p trials are expected, each of which costs that of one trial.
// Called by pairs.cpp.
#pragma once

#include "bernoulli.h"

namespace kullback::KULLBACK_SET {

template <bool kLogitsP, bool kLogitsQ>
struct Geometric {
    using Single = double;
    using Trial = Bernoulli<kLogitsP, kLogitsQ>;
    static constexpr int kArity = 2;
    // Where both probabilities are so small that products underflow the answer is e^d - 1 - d, d the difference of log-odds.
    static bool is_faint(const Chance& p, const Chance& q) { return p.p1 < 1e-290 && q.p1 < 1e-17; }

    static bool holds(const double (&x)[2]) { return Trial::holds(x); }

    static double value(const double (&x)[2]) {
        const auto c = Trial::change_of(x);
        const double faint = c.p.never ? (c.q.never ? 0.0 : kInfinity<double>) : expm1mx_of(c.delta);
        const double usual = Trial::value(x) / c.p.p1;
        return is_faint(c.p, c.q) | c.p.never ? (c.infinite ? kInfinity<double> : faint) : usual;
    }

    // With log0 = log(q0/p0) the slope in p is log0/p^2, and (q - p)/(p q (1-q)) that in q.
    static void slopes(const double (&x)[2], double (&s)[2]) {
        const auto c = Trial::change_of(x);
        const bool sure = c.p.never | c.p.always, faint = is_faint(c.p, c.q);
        const double rest = Trial::kPlain ? 0.0 : log_of_decays(c.p.decay, c.q.decay);
        const double log0 = Trial::log_of_outcome(c.p.p0, c.q.p0, -c.gap, (c.q.main0 - c.p.main0) - rest);
        const double grown = expm1_of(c.delta), by_odds = faint ? -grown : log0 * (c.p.p0 / c.p.p1);
        s[0] = sure | c.infinite ? 0.0 : (kLogitsP ? by_odds : log0 / c.p.p1 / c.p.p1);
        double of_trial[2];
        Trial::slopes(x, of_trial);
        s[1] = c.infinite | c.p.never ? 0.0 : (faint ? grown : of_trial[1] / c.p.p1);
    }
};

}  // namespace kullback::KULLBACK_SET
