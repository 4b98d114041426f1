// Mixtures of rows that are far apart, in a third of the time: floats, no masks, no gradient.
//
// With r = e^v = q/p and y = alpha + beta r = m/p,
//
//     A p log(p/m) + B q log(q/m) = p (B r (v - log y) - A log y),
//
// one logarithm a class, and two exponentials unless the first pass has left them. Terms of both signs cancel, in a class and
// between classes: log y is off by up to 1e-7, which moves the sum by at most 1e-7 (A + B). A value that this does not change by
// 1e-6 of itself stands. v is limited: it is off by half its last bit, and so is q = p r. Where D is small, a log-ratio is taken as
// b - a - D with one more rounding; where B is 0, it is not needed.
#pragma once

#include "mixture.h"

namespace kullback::KULLBACK_SET {

inline bool direct_mixture_is_accurate(double value, const RowsCall& call) {
    return value > 0.1 * (call.weights[0] + call.weights[1]);
}

// Of v: half its last bit is then 5e-7. And e to this power.
inline constexpr float kLargestDirectLog = 16, kLargestDirectRatio = 8.886e6f;

template <bool kKept, bool kSmallGap = false, bool kOnlyP = false>
bool mix_row_directly(const RowPair<float>& row, const RowsCall& call, RowStatistics& s,
                      [[maybe_unused]] const KeptExponentials* kept) {
    using V = FloatVector;
    // Half of KL(p || q) is about the most that its mixtures come to while it is small.
    if (!direct_mixture_is_accurate(0.5 * s.kl, call)) return false;
    constexpr int kCount = Lanes<float>::kCount;
    const Centre<float> gap({s.gap, s.gap_low});
    const float scale = float(s.scale[0]), share = float(call.share), rest = float(1 - call.share);
    const float weight_p = float(call.weights[0]), weight_q = float(call.weights[1]);
    Accumulator<float> value;
    V largest = fill(-kInfinity<float>);
    int64_t index = 0;
    row.each_block<false>([&](const float* a, const float* b, int64_t count, [[maybe_unused]] int64_t at) {
        // In registers: what is found may not be written while what is given is read.
        const Centre<float> centre = gap;
        const V scale_p = fill(scale), alpha = fill(share), beta = fill(rest), of_p = fill(weight_p), of_q = fill(weight_q);
        V top = largest, per_ratio{};
        double factor = 1;
        if constexpr (kKept) {
            const double lower_p = double(kept->scale_p[index]) - s.scale[0], lower_q = double(kept->scale_q[index]) - s.scale[1];
            per_ratio = fill(float(std::ldexp(s.total[0] / s.total[1], int(lower_q - lower_p))));
            factor = std::ldexp(1.0, int(lower_p)), ++index;
        }
        Accumulator<float> block;
        for (int64_t i = 0; i < rounded_up<float>(count); i += kGroup<float>) {
            V sum{};
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const V x = load_lanes(a + i + j * kCount), y = load_lanes(b + i + j * kCount);
                const V v = kSmallGap ? centre.less(y - x) : centre.log_ratio_unless_tied(x, y);
                V p, ratio;
                if constexpr (kKept) {
                    p = load_lanes(kept->p + at + i + j * kCount);
                    ratio = load_lanes(kept->q + at + i + j * kCount) * reciprocal(larger(p, fill(1e-37f))) * per_ratio;
                } else {
                    p = scaled_exp<float>(x, scale_p), ratio = scaled_exp<float>(v, V{});
                }
                const FloatLog log_y = log_lanes(alpha + beta * ratio);
                const V to_q = (v - log_y.high) - log_y.low, to_p = log_y.high + log_y.low;
                if constexpr (kOnlyP) sum -= p * (of_p * to_p), top = larger(ratio, top);
                else sum += p * (of_q * ratio * to_q - of_p * to_p), top = larger(v, top);
            }
            block.add(sum);
        }
        if constexpr (kKept) block.scale(factor);
        value.add(block), largest = top;
    });
    s.value = value.total() / s.total[0];
    return largest_of<float>(largest) <= (kOnlyP ? kLargestDirectRatio : kLargestDirectLog) && direct_mixture_is_accurate(s.value, call);
}

}  // namespace kullback::KULLBACK_SET
