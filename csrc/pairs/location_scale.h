// KL of two Laplace, two Cauchy and two Gumbel distributions, parameters (loc_p, scale_p, loc_q, scale_q); a Weibull's minus
// logarithm is a Gumbel. Called by pairs.cpp.
#pragma once

#include "../math/exp.h"
#include "../math/lgamma_bregman.h"
#include "scales.h"

namespace kullback::KULLBACK_SET {

// [w - log(1+w)] + (1+w) phi(-d), 1 + w = b_p/b_q, d = |mu_p - mu_q|/b_p, phi(x) = e^x - 1 - x. No term is negative.
struct Laplace {
    using Single = double;
    static constexpr int kArity = 4;

    static bool holds(const double (&x)[4]) { return x[1] >= 0 && x[3] >= 0; }

    static double value(const double (&x)[4]) {
        const Ratio r = ratio_of(x[1], x[3]);
        const double distance = magnitude(x[0] - x[2]), d = distance / x[1];
        // b_p phi(-d)/b_q; far apart it is all but (|dmu| - b_p)/b_q, where d may overflow.
        const double moved = d < 40 ? (x[1] / x[3]) * expm1mx_of(-d) : (distance - x[1]) / x[3];
        return x[1] == 0 ? kInfinity<double> : r.gap + moved;
    }

    static void slopes(const double (&x)[4], double (&s)[4]) {
        const double difference = x[0] - x[2], d = magnitude(difference) / x[1], inverse = 1 / x[3];
        const double w = (x[1] - x[3]) * inverse, ratio = x[1] * inverse;
        const double near = d < 40 ? d : 40, phi = expm1mx_of(-near), shrunk = expm1_of(-near);
        s[0] = (difference < 0 ? shrunk : -shrunk) * inverse;
        s[2] = -s[0];
        const double far = d < 700 ? d : 700, decayed = (1 + far) * exp_of(-far);
        // (1+d) e^-d b_p/b_q - 1, for small d by (1+d) e^-d - 1, which is small then.
        const double close = w + ratio * ((1 + near) * phi - near * near), apart = ratio * decayed - 1;
        s[1] = (near < 1 ? close : apart) / x[1];
        const double moved = d < 40 ? ratio * phi : magnitude(difference) * inverse - ratio;
        s[3] = -(w + moved) * inverse;
    }
};

// log(1 + (dgamma^2 + dmu^2)/(4 gamma_p gamma_q)), symmetric in p and q (Chyzak & Nielsen, arXiv 1905.10965).
struct Cauchy {
    using Single = double;
    static constexpr int kArity = 4;

    static bool holds(const double (&x)[4]) { return x[1] >= 0 && x[3] >= 0; }

    static double value(const double (&x)[4]) {
        const double width = x[1] - x[3], shift = x[0] - x[2];
        const double squares = 0.5 * (width / x[1]) * (0.5 * width / x[3]) + 0.5 * (shift / x[1]) * (0.5 * shift / x[3]);
        return x[1] == 0 ? kInfinity<double> : log1p_of(squares);
    }

    // With the sum of scales t: d/dscale_p = (scale_p^2 - scale_q^2 - dmu^2)/(scale_p (t^2 + dmu^2)), d/dmu = 2 dmu/(t^2 + dmu^2).
    static void slopes(const double (&x)[4], double (&s)[4]) {
        const double sum = x[1] + x[3], width = (x[1] - x[3]) / sum, shift = (x[0] - x[2]) / sum, square = shift * shift;
        const double whole = 1 + square;
        const bool far = !(square < 1e300);
        s[0] = far ? 0.0 : 2 * shift / whole / sum;
        s[2] = -s[0];
        s[1] = (far ? -1.0 : (width - square) / whole) / x[1];
        s[3] = (far ? -1.0 : (-width - square) / whole) / x[3];
    }
};

// phi(L) + B(1, r), r = b_p/b_q, L = (mu_q - mu_p)/b_q + log Gamma(1+r), B the Bregman divergence of log Gamma: e^L = E e^-z.
struct GumbelTerms {
    double value, to_shift, to_ratio;
};

// By w = r - 1, which r does not tell exactly near 1, and shift = (mu_q - mu_p)/b_q.
template <bool kSlopes>
[[gnu::always_inline]] inline GumbelTerms gumbel_terms(double r, double w, double shift) {
    constexpr double kEuler = 0.5772156649015329;
    const double bregman = lgamma_bregman_of_gap<double>(1.0, r, w);
    const double log_r = log_of(log_quotient<double>(1.0, r, w));
    const double l = shift + ((bregman - kEuler * w) + log_r), value = expm1mx_of(l) + bregman;
    if constexpr (!kSlopes) {
        return {r > 0 ? (value != value ? kInfinity<double> : value) : kInfinity<double>, 0, 0};
    } else {
        const bool finite = r > 0 && r < kInfinity<double> && value < kInfinity<double>;
        const double e = expm1_of(l), psi = digamma_difference<double>(1.0, r, w);
        return {value, finite ? e : 0.0, finite ? psi + e * ((psi - kEuler) + 1 / r) : 0.0};
    }
}

struct Gumbel {
    using Single = double;
    static constexpr int kArity = 4;

    static bool holds(const double (&x)[4]) { return x[0] == x[0] && x[1] >= 0 && x[2] == x[2] && x[3] >= 0; }

    static double value(const double (&x)[4]) {
        return gumbel_terms<false>(x[1] / x[3], (x[1] - x[3]) / x[3], (x[2] - x[0]) / x[3]).value;
    }

    static void slopes(const double (&x)[4], double (&s)[4]) {
        const double inverse = 1 / x[3], r = x[1] / x[3], shift = (x[2] - x[0]) * inverse;
        const GumbelTerms t = gumbel_terms<true>(r, (x[1] - x[3]) * inverse, shift);
        s[2] = t.to_shift * inverse;
        s[0] = -s[2];
        s[1] = t.to_ratio * inverse;
        s[3] = t.to_shift == 0 && t.to_ratio == 0 ? 0.0 : -(t.to_ratio * r + t.to_shift * shift) * inverse;
    }
};

// Parameters (scale_p, k_p, scale_q, k_q): Gumbels of locations -log(scale) and scales 1/k.
struct Weibull {
    using Single = double;
    static constexpr int kArity = 4;

    static bool holds(const double (&x)[4]) { return x[0] >= 0 && x[1] >= 0 && x[2] >= 0 && x[3] >= 0; }

    static double value(const double (&x)[4]) {
        const double shift = x[3] * log_of(split_log_ratio(x[0], x[2]));
        return gumbel_terms<false>(x[3] / x[1], (x[3] - x[1]) / x[1], shift).value;
    }

    static void slopes(const double (&x)[4], double (&s)[4]) {
        const double log = log_of(split_log_ratio(x[0], x[2])), r = x[3] / x[1];
        const GumbelTerms t = gumbel_terms<true>(r, (x[3] - x[1]) / x[1], x[3] * log);
        s[0] = t.to_shift * (x[3] / x[0]);
        s[2] = -t.to_shift * (x[3] / x[2]);
        s[1] = t.to_ratio == 0 ? 0.0 : -t.to_ratio * r / x[1];
        s[3] = t.to_ratio / x[1] + (t.to_shift == 0 ? 0.0 : t.to_shift * log);
    }
};

}  // namespace kullback::KULLBACK_SET
