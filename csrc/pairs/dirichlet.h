// KL(Dir(alpha) || Dir(beta)) over rows of concentrations: beta.h for any number of classes.
//
//   b0 KL(b/b0 || a/a0) + sum over i != m of D_S(a_i, b_i) + [D_S(a_m, b_m) - D_S(a0, b0)],   m the largest a_i
//
// The sums carry their rounding errors along, so that N_i = b_i a0 - a_i b0 is right to the last digit.
#pragma once

#include "../blocks.h"
#include "dirichlet_call.h"
#include "../math/exact.h"
#include "gap.h"

namespace kullback::KULLBACK_SET {

struct Row {
    int64_t classes, top;
    const double *a, *b;
    Pair a0, b0, gap0;
    Corners corners;  // of the top
    bool holds;       // no concentration is negative or NaN
    bool direct;      // none is small

    // b_i a0 - a_i b0 for a class other than the top; every part is zero at equality, however products are contracted. Near
    // it as (b_i - a_i) a0 - a_i (b0 - a0), where the small differences are not lost beside large sums.
    double cross(int64_t i) const {
        const Pair gap = two_difference(b[i], a[i]);
        const bool near = (magnitude(gap.high) < 0.5 * a[i]) & (magnitude(gap0.high) < 0.5 * a0.high);
        const Pair left = two_product(near ? gap.high : b[i], a0.high), right = two_product(a[i], near ? gap0.high : b0.high);
        const double close = gap.high * a0.low + gap.low * a0.high - a[i] * gap0.low;
        const double apart = gap.high * a0.low + a[i] * (a0.low - b0.low);
        return (left.high - right.high) + ((left.low - right.low) + (near ? close : apart));
    }
};

inline Pair plus(Pair sum, double x) {
    const Pair next = two_sum(sum.high, x);
    return {next.high, sum.low + next.low};
}

template <class S>
Row read_row(const DirichletCall& call, int64_t row, double* scratch) {
    const int64_t k = call.classes;
    const S *alpha = static_cast<const S*>(call.alpha) + row * k, *beta = static_cast<const S*>(call.beta) + row * k;
    double *a = scratch, *b = scratch + k + 8;
    int64_t top = 0;
    double least = kInfinity<double>;
    for (int64_t i = 0; i < k; ++i) {
        a[i] = double(alpha[i]), b[i] = double(beta[i]);
        if (a[i] > a[top]) top = i;
        least = a[i] >= least || least != least ? least : a[i];
        least = b[i] >= least || least != least ? least : b[i];
    }
    Pair s{0, 0}, t{0, 0}, gap_s{0, 0};
    for (int64_t i = 0; i < k; ++i) {
        if (i == top) continue;
        const Pair difference = two_difference(b[i], a[i]);
        s = plus(s, a[i]), t = plus(t, b[i]), gap_s = plus(gap_s, difference.high);
        gap_s.low += difference.low;
    }
    const Pair gap = two_difference(b[top], a[top]), whole = two_sum(gap.high, gap_s.high);
    Pair a0 = two_sum(a[top], s.high), b0 = two_sum(b[top], t.high);
    a0.low += s.low, b0.low += t.low;
    const Pair gap0 = two_sum(whole.high, whole.low + (gap.low + gap_s.low));
    const Pair left = two_product(b[top], s.high), right = two_product(a[top], t.high);
    const double n = (left.high - right.high) + ((left.low - right.low) + (gap.high * s.low + a[top] * (s.low - t.low)));
    const Corners corners{a[top], b[top], a0.high, b0.high, gap.high, gap0.high, s.high, t.high, gap_s.high + gap_s.low, n};
    return {k, top, a, b, a0, b0, gap0, corners, least >= 0, least >= kDirectFrom};
}

template <class Stirling>
KULLBACK_FLAT void class_terms(const Row& r, double* __restrict out) {
    const double a0 = r.a0.high, b0 = r.b0.high;
    for (int64_t i = 0; i < r.classes; ++i) {
        const double a = r.a[i], b = r.b[i];
        const double categorical = -b * logarithm_of_ratio(a * b0, b * a0, -r.cross(i)).remainder;
        out[i] = categorical + Stirling::bregman(a, b, b - a);
    }
}

template <class Stirling, class Gap>
double dirichlet_value(const Row& r, double* scratch) {
    class_terms<Stirling>(r, scratch);
    const Corners& c = r.corners;
    const double at_top = -c.b * logarithm_of_ratio(c.a * c.b0, c.b * c.a0, -c.n).remainder;
    double sum = 0;
    for (int64_t i = 0; i < r.classes; ++i) sum += i == r.top ? at_top : scratch[i];
    sum += r.classes > 1 ? Gap::stirling(c) : 0.0;
    return sum > 0 ? sum : (sum <= 0 ? 0.0 : sum);
}

template <class Stirling>
KULLBACK_FLAT void class_slopes(const Row& r, double* __restrict to_p, double* __restrict to_q) {
    const double a0 = r.a0.high, b0 = r.b0.high;
    const double gap0 = r.gap0.high, curved0 = gap0 * Stirling::curvature(a0), slope0 = Stirling::slope(a0, b0, gap0);
    for (int64_t i = 0; i < r.classes; ++i) {
        const double a = r.a[i], b = r.b[i], gap = b - a, n = r.cross(i);
        to_p[i] = -n / (a * a0) - (gap * Stirling::curvature(a) - curved0);
        to_q[i] = logarithm_of_ratio(b * a0, a * b0, n).log + (Stirling::slope(a, b, gap) - slope0);
    }
}

template <class Stirling, class Gap>
void dirichlet_slopes(const Row& r, double* to_p, double* to_q) {
    class_slopes<Stirling>(r, to_p, to_q);
    to_p[r.top] = r.classes > 1 ? -Gap::slope_p(r.corners) : 0.0;
    to_q[r.top] = r.classes > 1 ? Gap::slope_q(r.corners) : 0.0;
}

template <class S>
void dirichlet_forward(const DirichletCall& call, int64_t row, double* scratch) {
    const Row r = read_row<S>(call, row, scratch);
    double* terms = scratch + 2 * (call.classes + 8);
    const double value = r.direct ? dirichlet_value<Direct, DirectGap>(r, terms) : dirichlet_value<Raised, RaisedGap>(r, terms);
    static_cast<S*>(call.value)[row] = S(r.holds ? value : kNaN<double>);
}

template <class S>
void dirichlet_backward(const DirichletCall& call, int64_t row, double* scratch) {
    const Row r = read_row<S>(call, row, scratch);
    double *to_p = scratch + 2 * (call.classes + 8), *to_q = to_p + call.classes + 8;
    if (r.direct) dirichlet_slopes<Direct, DirectGap>(r, to_p, to_q);
    else dirichlet_slopes<Raised, RaisedGap>(r, to_p, to_q);
    const double grad = r.holds ? double(static_cast<const S*>(call.grad)[row]) : kNaN<double>;
    S *alpha = static_cast<S*>(call.to_alpha), *beta = static_cast<S*>(call.to_beta);
    for (int64_t i = 0; i < r.classes; ++i) {
        if (alpha != nullptr) alpha[row * r.classes + i] = S(grad == 0 ? 0.0 : grad * to_p[i]);
        if (beta != nullptr) beta[row * r.classes + i] = S(grad == 0 ? 0.0 : grad * to_q[i]);
    }
}

}  // namespace kullback::KULLBACK_SET
