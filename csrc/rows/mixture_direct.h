// Mixtures of rows that are far apart, in half the time: floats, no masks, no gradient.
//
// With P the larger probability of a class, s <= 1 the lesser over P, x = log s and y = m/P,
//
//     A p log(p/m) + B q log(q/m) = P (B' s (x - log y) - A' log y),
//
// one exponential for s, one for P and one logarithm. Terms of both signs cancel within a class: log y is off by up to 1e-7,
// which moves the sum by at most 1e-7 (A + B). A value that this does not change by 1e-6 of itself stands.
#pragma once

#include "mixture.h"

namespace kullback::KULLBACK_SET {

inline bool direct_mixture_is_accurate(double value, const RowsCall& call) {
    return value > 0.1 * (call.weights[0] + call.weights[1]);
}

inline bool mix_row_directly(const RowPair<float>& row, const RowsCall& call, RowStatistics& s) {
    using V = FloatVector;
    // Half of KL(p || q) is about the most that its mixtures come to while it is small.
    if (!direct_mixture_is_accurate(0.5 * s.kl, call)) return false;
    constexpr int kCount = Lanes<float>::kCount;
    const Normalised<float> is(s);
    const Mixture<float> of(call);
    Accumulator<float> value;
    row.each_block<false>([&](const float* a, const float* b, int64_t count, int64_t) {
        Accumulator<float> block;
        for (int64_t i = 0; i < rounded_up<float>(count); i += kGroup<float>) {
            V sum{};
#pragma GCC unroll 4
            for (int64_t k = i; k < i + kGroup<float>; k += kCount) {
                const V p = load_lanes(a + k), q = load_lanes(b + k), v = is.log_ratio(p, q);
                const FloatMask turned = v > 0.0f;
                const V alpha = turned ? fill(of.rest) : fill(of.share), beta = turned ? fill(of.share) : fill(of.rest);
                const V weight = turned ? fill(of.weight_q) : fill(of.weight_p);
                const V other = turned ? fill(of.weight_p) : fill(of.weight_q);
                const V larger_one = scaled_exp<float>(turned ? q : p, turned ? fill(is.scale_q) : fill(is.scale_p)) *
                                     (turned ? fill(is.over_q) : fill(is.over_p));
                const V x = -magnitude_of(v), lesser = scaled_exp<float>(x, V{});
                const FloatLog of_y = log_lanes(alpha + beta * lesser);
                const V log_y = of_y.high + of_y.low;
                sum += larger_one * (other * lesser * (x - log_y) - weight * log_y);
            }
            block.add(sum);
        }
        value.add(block);
    });
    s.value = value.total();
    return direct_mixture_is_accurate(s.value, call);
}

}  // namespace kullback::KULLBACK_SET
