// Mixtures of rows that are far apart, in half the time: floats, no masks, no gradient.
//
// With r = e^v = q/p and y = alpha + beta r = m/p,
//
//     A p log(p/m) + B q log(q/m) = p (B r (v - log y) - A log y),
//
// two exponentials and one logarithm a class. Terms of both signs cancel, in a class and between classes: log y is off by up to
// 1e-7, which moves the sum by at most 1e-7 (A + B). A value that this does not change by 1e-6 of itself stands. An error of v
// cancels in v - log y where r is large; it remains as that of q = p r, which is why v is limited.
#pragma once

#include "mixture.h"

namespace kullback::KULLBACK_SET {

inline bool direct_mixture_is_accurate(double value, const RowsCall& call) {
    return value > 0.1 * (call.weights[0] + call.weights[1]);
}

inline constexpr float kLargestDirectRatio = 16;  // its last bit is 5e-7 times 1 / 2

inline bool mix_row_directly(const RowPair<float>& row, const RowsCall& call, RowStatistics& s) {
    using V = FloatVector;
    // Half of KL(p || q) is about the most that its mixtures come to while it is small.
    if (!direct_mixture_is_accurate(0.5 * s.kl, call)) return false;
    constexpr int kCount = Lanes<float>::kCount;
    const Centre<float> gap({s.gap, s.gap_low});
    const float scale = float(s.scale[0]), share = float(call.share), rest = float(1 - call.share);
    const float weight_p = float(call.weights[0]), weight_q = float(call.weights[1]);
    Accumulator<float> value;
    V largest = fill(-kInfinity<float>);
    row.each_block<false>([&](const float* a, const float* b, int64_t count, int64_t) {
        // In registers: what is found may not be written while what is given is read.
        const Centre<float> centre = gap;
        const V scale_p = fill(scale), alpha = fill(share), beta = fill(rest), of_p = fill(weight_p), of_q = fill(weight_q);
        V top = largest;
        Accumulator<float> block;
        for (int64_t i = 0; i < rounded_up<float>(count); i += kGroup<float>) {
            V sum{};
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const V x = load_lanes(a + i + j * kCount), y = load_lanes(b + i + j * kCount);
                const V v = centre.log_ratio_unless_tied(x, y);
                const V ratio = scaled_exp<float>(v, V{});
                const FloatLog log_y = log_lanes(alpha + beta * ratio);
                const V to_q = (v - log_y.high) - log_y.low, to_p = log_y.high + log_y.low;
                sum += scaled_exp<float>(x, scale_p) * (of_q * ratio * to_q - of_p * to_p);
                top = larger(v, top);
            }
            block.add(sum);
        }
        value.add(block), largest = top;
    });
    s.value = value.total() / s.total[0];
    return largest_of<float>(largest) <= kLargestDirectRatio && direct_mixture_is_accurate(s.value, call);
}

}  // namespace kullback::KULLBACK_SET
