// KL(Beta(a1, a2) || Beta(b1, b2)) = B(a1, b1) + B(a2, b2) - B(a0, b0) with B the Bregman divergence of log Gamma and index 0
// for sums. The terms cancel among each other; rearranged exactly they do not:
//
//   b0 KL(b/b0 || a/a0) + D_S(a_o, b_o) + [D_S(a_m, b_m) - D_S(a0, b0)]
//
// The first is Stirling's main part of all three, the divergence of two Bernoulli laws; D_S is the rest (stirling.h); m is
// the larger concentration of p, o the other one, and the bracket is differenced analytically (gap.h). Everything follows
// from N = b_m a_o - a_m b_o and the differences of the concentrations, which carry their rounding errors along: near
// equality at concentrations of 1e12 they decide the answer.
#pragma once

#include "../math/exact.h"
#include "gap.h"

namespace kullback::KULLBACK_SET {

template <class Stirling, class Gap>
struct BetaBy {
    using Single = double;
    static constexpr int kArity = 4;

    static bool holds(const double (&x)[4]) { return x[0] >= 0 && x[1] >= 0 && x[2] >= 0 && x[3] >= 0; }

    static Corners corners(double a, double s, double b, double t) {
        const Pair gap = two_difference(b, a), gap_s = two_difference(t, s), sum = two_sum(gap.high, gap_s.high);
        const Pair left = two_product(b, s), right = two_product(a, t);
        const double exact = (left.high - right.high) + (left.low - right.low);
        const double gap0 = sum.high + (sum.low + (gap.low + gap_s.low));
        return {a, b, a + s, b + t, gap.high, gap0, s, t, gap_s.high, exact};
    }

    static double value(const double (&x)[4]) {
        const bool swap = x[1] > x[0];
        const double a = swap ? x[1] : x[0], s = swap ? x[0] : x[1], b = swap ? x[3] : x[2], t = swap ? x[2] : x[3];
        const Corners c = corners(a, s, b, t);
        // b_i [y - log(1+y)] with 1 + y = a_i b0/(a0 b_i).
        const double categorical = -b * logarithm_of_ratio(a * c.b0, b * c.a0, -c.n).remainder -
                                   t * logarithm_of_ratio(s * c.b0, t * c.a0, c.n).remainder;
        const double sum = categorical + (Stirling::bregman(s, t, c.gap_s) + Gap::stirling(c));
        return sum > 0 ? sum : (sum <= 0 ? 0.0 : sum);
    }

    static void slopes(const double (&x)[4], double (&d)[4]) {
        const bool swap = x[1] > x[0];
        const double a = swap ? x[1] : x[0], s = swap ? x[0] : x[1], b = swap ? x[3] : x[2], t = swap ? x[2] : x[3];
        const Corners c = corners(a, s, b, t);
        const double top_p = -Gap::slope_p(c), top_q = Gap::slope_q(c);
        // The same for o, which the sums outweigh.
        const double log_ratio = logarithm_of_ratio(t * c.a0, s * c.b0, -c.n).log;
        const double curved = c.gap_s * Stirling::curvature(s) - c.gap0 * Stirling::curvature(c.a0);
        const double other_p = c.n / (s * c.a0) - curved;
        const double other_q = log_ratio + (Stirling::slope(s, t, c.gap_s) - Stirling::slope(c.a0, c.b0, c.gap0));
        d[0] = swap ? other_p : top_p;
        d[1] = swap ? top_p : other_p;
        d[2] = swap ? other_q : top_q;
        d[3] = swap ? top_q : other_q;
    }
};

struct Beta : BetaBy<Direct, DirectGap> {
    using Rare = BetaBy<Raised, RaisedGap>;

    static bool is_rare(const double (&x)[4]) {
        const double p = x[0] < x[1] ? x[0] : x[1], q = x[2] < x[3] ? x[2] : x[3];
        return !((p < q ? p : q) >= kDirectFrom);
    }
};

}  // namespace kullback::KULLBACK_SET
