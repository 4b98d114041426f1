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
#include "strip.h"

namespace kullback::KULLBACK_SET {

inline bool direct_mixture_is_accurate(double value, const RowsCall& call) {
    return value > 0.1 * (call.weights[0] + call.weights[1]);
}

// Of v: half its last bit is then 5e-7. And e to this power.
inline constexpr float kLargestDirectLog = 16, kLargestDirectRatio = 8.886e6f;

template <bool kKept, bool kSmallGap = false, bool kOnlyP = false>
class DirectMixture {
    using V = FloatVector;

  public:
    DirectMixture(const RowsCall& call, const RowStatistics& s)
        : gap_({s.gap, s.gap_low}),
          scale_p_(fill(float(s.scale[0]))),
          alpha_(fill(float(call.share))),
          beta_(fill(float(1 - call.share))),
          weight_p_(fill(float(call.weights[0]))),
          weight_q_(fill(float(call.weights[1]))),
          per_ratio_(fill(float(s.total[0] / s.total[1]))) {}

    [[gnu::always_inline]] void add(const float* a, const float* b, int64_t padded, [[maybe_unused]] KeptExponentials<float> kept = {}) {
        constexpr int kCount = Lanes<float>::kCount;
        // In registers: what is found may not be written while what is given is read.
        const Centre<float> centre = gap_;
        const V scale_p = scale_p_, alpha = alpha_, beta = beta_, of_p = weight_p_, of_q = weight_q_, per_ratio = per_ratio_;
        V top = largest_;
        Accumulator<float> block;
        for (int64_t i = 0; i < padded; i += kGroup<float>) {
            V sum{};
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const V x = load_lanes(a + i + j * kCount), y = load_lanes(b + i + j * kCount);
                const V v = kSmallGap ? centre.less(y - x) : centre.log_ratio_unless_tied(x, y);
                V p, ratio;
                if constexpr (kKept) {
                    p = load_lanes(kept.p + i + j * kCount);
                    ratio = load_lanes(kept.q + i + j * kCount) * reciprocal(larger(p, fill(1e-37f))) * per_ratio;
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
        value_.add(block), largest_ = top;
    }

    // The value; false where it is not accurate.
    bool finish(const RowsCall& call, RowStatistics& s) const {
        s.value = value_.total() / s.total[0];
        const float limit = kOnlyP ? kLargestDirectRatio : kLargestDirectLog;
        return largest_of<float>(largest_) <= limit && direct_mixture_is_accurate(s.value, call);
    }

  private:
    Centre<float> gap_;
    V scale_p_, alpha_, beta_, weight_p_, weight_q_, per_ratio_;
    Accumulator<float> value_{};
    V largest_ = fill(-kInfinity<float>);
};

// Half of KL(p || q) is about the most that its mixtures come to while it is small.
inline bool direct_mixture_may_do(const RowsCall& call, const RowStatistics& s) { return direct_mixture_is_accurate(0.5 * s.kl, call); }

inline bool mix_row_directly(const RowPair<float>& row, const RowsCall& call, RowStatistics& s) {
    if (!direct_mixture_may_do(call, s)) return false;
    DirectMixture<false> mixture(call, s);
    row.each_block<false>([&](const float* a, const float* b, int64_t count, int64_t) { mixture.add(a, b, rounded_up<float>(count)); });
    return mixture.finish(call, s);
}

// Rows of a strip, from the exponentials that the first pass has left: those of its rows for which is_one(i).
template <bool kSmallGap, bool kOnlyP, class IsOne>
void mix_kept_rows(const RowsCall& call, Strip<float>& strip, int64_t count, RowStatistics* of, bool* done, IsOne&& is_one) {
    for (int64_t i = 0; i < count; ++i) {
        if (!is_one(i)) continue;
        DirectMixture<true, kSmallGap, kOnlyP> mixture(call, of[i]);
        strip.each_part(i, [&](const float* a, const float* b, int64_t part, int64_t at) {
            mixture.add(a, b, part, strip.kept(i, at));
        });
        done[i] = mixture.finish(call, of[i]);
    }
}

// of: what is known of each row. Sets done where the value is found.
inline void mix_kept_rows(const RowsCall& call, Strip<float>& strip, int64_t count, RowStatistics* of, bool* done) {
    const auto may_do = [&](int64_t i) {
        return !(of[i].state & (kMasked | kDouble | kUndefined | kAbsent)) && direct_mixture_may_do(call, of[i]);
    };
    if (call.weights[1] == 0) {
        mix_kept_rows<true, true>(call, strip, count, of, done, may_do);
    } else {
        mix_kept_rows<true, false>(call, strip, count, of, done, [&](int64_t i) { return may_do(i) && magnitude(of[i].gap) <= 1; });
        mix_kept_rows<false, false>(call, strip, count, of, done, [&](int64_t i) { return may_do(i) && !(magnitude(of[i].gap) <= 1); });
    }
}

}  // namespace kullback::KULLBACK_SET
