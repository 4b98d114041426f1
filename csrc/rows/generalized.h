// sum p log(p/q) - p + q of a row of weights p = e^a and q = e^b that need not sum to 1, and its gradients.
//
// With d = b - a every term is p phi(d) >= 0, phi(x) = e^x - 1 - x, or q where p is zero. The derivatives are -p d with respect to a
// and q - p with respect to b; per weight -d and 1 - p/q.
#pragma once

#include "gradient.h"

namespace kullback::KULLBACK_SET {

// A larger logarithm has a weight that is too large for the precision.
template <class T>
inline constexpr T kLargestLog = T(sizeof(T) == 4 ? 88 : 709);

template <class T>
inline Vector<T> weight_of(Vector<T> log) {
    return log > kLargestLog<T> ? fill(kInfinity<T>) : scaled_exp<T>(log, Vector<T>{});
}

template <class T>
inline Vector<T> log_weight_difference(Vector<T> a, Vector<T> b, [[maybe_unused]] Vector<T> missing) {
    if constexpr (sizeof(T) == 4) {
        return b - a;
    } else {
        const Difference<Vector<T>> d = exact_difference(b, a);
        return d.high + (d.low + missing);
    }
}

// False where a row of floats wants double, and where a pass without masks meets an infinite logarithm.
template <class T, bool kHasMask>
bool sum_generalized(const RowPair<T>& row, RowStatistics& s) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    Accumulator<T> sum, total_p, total_q;
    V top = fill(-kInfinity<T>);
    M leaks{};
    row.template each_exact_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t, const T* low) {
        Accumulator<T> block, block_p, block_q;
        for (int64_t i = 0; i < rounded_up<T>(count); i += kGroup<T>) {
            V terms{}, sum_p{}, sum_q{};
            prefetch_group(a + i + kAhead<T>), prefetch_group(b + i + kAhead<T>);
#pragma GCC unroll 4
            for (int64_t k = i; k < i + kGroup<T>; k += kCount) {
                const V x = load_lanes(a + k), y = load_lanes(b + k), d = log_weight_difference<T>(x, y, missing_at(low, k));
                const V p = weight_of<T>(x), q = weight_of<T>(y), weighted = p * d;
                V term = magnitude_of(d) > T(1) ? q - (p + weighted) : weighted * d * exp_remainder<T>(d);
                if constexpr (kHasMask) {
                    const M in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
                    leaks |= in_p & ~in_q;
                    term = in_p & in_q ? term : in_p ? V{} : q;
                    // A NaN is in no comparison: it must reach the sum.
                    term = (x != x) | (y != y) ? fill(kNaN<T>) : term;
                }
                top = larger(larger(x, y), top);
                terms += term, sum_p += p, sum_q += q;
            }
            block.add(terms), block_p.add(sum_p), block_q.add(sum_q);
        }
        sum.add(block), total_p.add(block_p), total_q.add(block_q);
    });
    s.value = any(leaks) ? kInfinity<double> : sum.total();
    s.total[0] = total_p.total(), s.total[1] = total_q.total();
    s.state = (kHasMask ? kMasked : kClean) | (sizeof(T) == 8 ? kDouble : kClean) | (any(leaks) ? kInfinite : kClean);
    if (sizeof(T) == 8 && kHasMask) {
        if (s.value != s.value) s.state |= kUndefined;
        return true;
    }
    if (any(leaks)) return true;
    // A sum this small has terms that are no longer normal numbers in float.
    return (sizeof(T) == 8 || (s.value >= 1e-25 && largest_of<T>(top) < kLargestLog<T>)) && s.value < kInfinity<double>;
}

template <class T, bool kHasMask, bool kToP, bool kToQ>
void generalized_gradient_row(const RowPair<T>& row, const RowsCall& call, T grad, const Writer<T>& to_p, const Writer<T>& to_q) {
    using V = Vector<T>;
    using M = Mask<T>;
    const bool p_linear = call.sides[0].linear != 0, q_linear = call.sides[1].linear != 0;
    write_gradients<T, kHasMask, kToP, kToQ>(row, grad, to_p, to_q, [&](V x, V y, V missing) {
        Entries<T> to;
        const V d = log_weight_difference<T>(x, y, missing);
        M in_p = ~M{}, in_q = ~M{};
        if constexpr (kHasMask) in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
        if constexpr (kToP) {
            const V g = p_linear ? -d : -weight_of<T>(x) * d;
            to.p.written = kHasMask ? (in_p & in_q ? g : V{}) : g;
        }
        if constexpr (kToQ) {
            const PowerOfE<T> below = exp_below<T>(-magnitude_of(d));
            V g;
            if (q_linear) g = d > T(0) ? -below.less_one : below.less_one / below.value;
            else g = d > T(0) ? -weight_of<T>(y) * below.less_one : weight_of<T>(x) * below.less_one;
            if constexpr (kHasMask) {
                const V alone = q_linear ? fill(T(1)) : in_q ? weight_of<T>(y) : V{};
                g = in_p & in_q ? g : in_p ? V{} : alone;
            }
            to.q.written = g;
        }
        return to;
    });
}

}  // namespace kullback::KULLBACK_SET
