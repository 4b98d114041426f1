// The first pass over a row: sum e^a, sum e^b and sum e^a (b - a), each reading memory once. A side that holds weights needs no
// exponential here, but a logarithm.
//
// Sums are scaled by 2^-scale, the scale following the largest log-weight met so far, block by block. Scaling by a power of
// two is exact, so a later block that raises it costs no accuracy.
#pragma once

#include <cmath>

#include "load.h"

namespace kullback::KULLBACK_SET {

struct RowSums {
    double scale_p, scale_q;  // powers of two
    double total_p, total_q;  // sum e^a / 2^scale_p, sum e^b / 2^scale_q
    double cross;             // sum e^a (b - a) / 2^scale_p over the classes that both have
    bool leaks;               // q is zero where p is not; masked pass only

    // A pass without masks makes its sums NaN or infinite where it meets an infinite log-weight.
    [[gnu::always_inline]] bool usable() const {
        const auto positive = [](double x) { return (x > 0) & (x < kInfinity<double>); };
        return positive(total_p) & (leaks | positive(total_q)) & (magnitude(cross) < kInfinity<double>);
    }
};

template <class T>
[[gnu::always_inline]] inline T largest_in(const T* values, int64_t padded) {
    Vector<T> top[4];
    for (int j = 0; j < 4; ++j) top[j] = load_lanes(values + j * Lanes<T>::kCount);
    for (int64_t i = kGroup<T>; i < padded; i += kGroup<T>) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) top[j] = larger(load_lanes(values + i + j * Lanes<T>::kCount), top[j]);
    }
    return largest_of<T>(larger(larger(top[0], top[1]), larger(top[2], top[3])));
}

// How far ahead of its use memory is asked for: two blocks of floats, which the first-level cache holds beside the one that
// is computed. One block ahead the last lines were still on their way when the search for the maximum came for them.
template <class T>
inline constexpr int64_t kAhead = 2 * kBlock * int64_t(sizeof(float)) / int64_t(sizeof(T));

// Brings a group of a later block, or of a later row, closer while this one is computed: the search for the maximum that
// comes first would otherwise wait for memory, and the exponentials after it leave memory idle. Always inlined: to GCC a function that
// only prefetches does nothing, and calls of it are removed.
template <class T>
[[gnu::always_inline]] inline void prefetch_group(const T* group) {
#pragma GCC unroll 4
    for (int64_t byte = 0; byte < kGroup<T> * int64_t(sizeof(T)); byte += 64) {
        __builtin_prefetch(reinterpret_cast<const char*>(group) + byte);
    }
}

// The sums of one side's exponentials, and the scale they are held at.
template <class T>
struct ScaledTotal {
    T scale = -kLargestScale<T>;
    Accumulator<T> total{};

    // Raise the scale so that e^top fits; returns the factor by which sums shrink. False: out of range.
    [[gnu::always_inline]] bool raise(T top, double& factor) {
        factor = 1.0;
        const T needed = std::ceil(top * T(1.4426950408889634074));
        if (needed <= scale || !(top > -kInfinity<T>)) return true;
        if (!(needed <= kLargestScale<T>)) return false;
        if (scale > -kLargestScale<T>) {
            factor = std::ldexp(1.0, int(scale - needed));
            total.scale(factor);
        }
        scale = needed;
        return true;
    }
};

// b - a, where a side may be given by its weights.
template <class T, bool kLinearP, bool kLinearQ>
inline Vector<T> log_weight_ratio(Vector<T> x, Vector<T> y) {
    if constexpr (kLinearP && kLinearQ) {
        const FloatLog a = log_lanes(x), b = log_lanes(y);
        return (b.high - a.high) + (b.low - a.low);
    } else if constexpr (kLinearP) {
        const FloatLog a = log_lanes(x);
        return (y - a.high) - a.low;
    } else if constexpr (kLinearQ) {
        const FloatLog b = log_lanes(y);
        return (b.high - x) + b.low;
    } else {
        return y - x;
    }
}

// What else the first pass finds, for the function that follows KL.
enum class Extra { kNothing, kExponentials, kReverse, kSquares, kRoots };
constexpr bool is_sum(Extra extra) { return extra != Extra::kNothing && extra != Extra::kExponentials; }

// Where the exponentials of a row are left for a second pass.
template <class T>
struct KeptExponentials {
    T *p, *q;
};

// What is found in a block whose scales are known.
template <class T>
struct BlockSums {
    Accumulator<T> p, q, cross;
    // sum e^b (b - a) / 2^scale_q for kReverse, sum e^(2a - b) / 2^(2 scale_p - scale_q) for kSquares, which is no number where e^b is too
    // small for that, and sum e^((a + b)/2) / 2^((scale_p + scale_q)/2) for kRoots.
    Accumulator<T> extra;
    Mask<T> leaks, broken;
};

// kLinearP, kLinearQ: the block gives this side's weights, floats, not their logarithms. Subnormal ones make the sums unusable, and
// so does, without masks, a q of zero where p is not. ahead: of what is asked of memory meanwhile.
template <class T, bool kHasMask, bool kLinearP = false, bool kLinearQ = false, Extra kExtra = Extra::kNothing>
[[gnu::always_inline]] inline BlockSums<T> sum_block(const T* a, const T* b, int64_t padded, T power_p, T power_q, int64_t ahead,
                                                     [[maybe_unused]] KeptExponentials<T> kept = {}) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    constexpr T kSmallest = Format<T>::kSmallestNormal, kNoWeight = -kInfinity<T>;
    const V scale_p = fill(power_p), scale_q = fill(power_q);
    Accumulator<T> block_p, block_q, block_cross, block_extra;
    M leaks{}, broken{};
    for (int64_t i = 0; i < padded; i += kGroup<T>) {
        V sum_p{}, sum_q{}, sum_cross{}, sum_extra{};
        prefetch_group(a + i + ahead), prefetch_group(b + i + ahead);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            const V x = load_lanes(a + i + j * kCount), y = load_lanes(b + i + j * kCount);
            V e_p = x, e_q = y, u = log_weight_ratio<T, kLinearP, kLinearQ>(x, y);
            if constexpr (!kLinearP) e_p = scaled_exp<T>(x, scale_p);
            if constexpr (!kLinearQ) e_q = scaled_exp<T>(y, scale_q);
            if constexpr (kLinearP) broken |= ~((x >= kSmallest) | (x == T(0)));
            if constexpr (kLinearQ) {
                M absent = y == T(0);
                if constexpr (!kHasMask) absent = kLinearP ? (x == T(0)) & (y >= T(0)) : M{};
                broken |= ~((y >= kSmallest) | absent);
            }
            if constexpr (kHasMask) {
                const M in_p = x > (kLinearP ? T(0) : kNoWeight), in_q = y > (kLinearQ ? T(0) : kNoWeight);
                leaks |= in_p & ~in_q;
                // A NaN is in no comparison: it must reach the sums.
                if constexpr (!kLinearP) e_p = in_p | (x != x) ? e_p + (x - x) : V{};
                if constexpr (!kLinearQ) e_q = in_q | (y != y) ? e_q + (y - y) : V{};
                u = in_p & in_q ? u : V{};
            }
            if constexpr (kExtra == Extra::kExponentials) store_lanes(e_p, kept.p + i + j * kCount), store_lanes(e_q, kept.q + i + j * kCount);
            sum_p += e_p, sum_q += e_q, sum_cross += e_p * u;
            if constexpr (kExtra == Extra::kReverse) sum_extra += e_q * u;
            if constexpr (kExtra == Extra::kSquares) {
                const V over_q = e_q < kSmallest ? fill(kNaN<T>) : reciprocal(e_q);
                sum_extra += e_p > T(0) ? e_p * (e_p * over_q) : V{};
            }
            if constexpr (kExtra == Extra::kRoots) sum_extra += square_root(e_p * e_q);
        }
        block_p.add(sum_p), block_q.add(sum_q), block_cross.add(sum_cross);
        if constexpr (is_sum(kExtra)) block_extra.add(sum_extra);
    }
    return {block_p, block_q, block_cross, block_extra, leaks, broken};
}

struct LookAtNothing {
    template <class... Block>
    void operator()(const Block&...) const {}
};

// look(a, b, largest of a, of b, count, at) sees each block.
template <class T, bool kHasMask, bool kLinearP = false, bool kLinearQ = false, class Look = LookAtNothing>
RowSums sum_row(const RowPair<T>& row, Look&& look = {}) {
    ScaledTotal<T> p, q;
    if (kLinearP) p.scale = 0;
    if (kLinearQ) q.scale = 0;
    Accumulator<T> cross;
    bool in_range = true;
    Mask<T> leaks{}, broken{};
    row.template each_block<kHasMask, kLinearP, kLinearQ>([&](const T* a, const T* b, int64_t count, int64_t at) {
        const int64_t padded = rounded_up<T>(count);
        double shrink_p = 1, shrink_q = 1;
        const T top_p = kLinearP ? T(0) : largest_in(a, padded), top_q = kLinearQ ? T(0) : largest_in(b, padded);
        in_range = in_range && (kLinearP || p.raise(top_p, shrink_p)) && (kLinearQ || q.raise(top_q, shrink_q));
        if (!in_range) return;
        look(a, b, top_p, top_q, count, at);
        if (shrink_p != 1.0) cross.scale(shrink_p);
        const BlockSums<T> block = sum_block<T, kHasMask, kLinearP, kLinearQ>(a, b, padded, p.scale, q.scale, kAhead<T>);
        p.total.add(block.p), q.total.add(block.q), cross.add(block.cross);
        leaks |= block.leaks, broken |= block.broken;
    });
    const double cross_total = in_range && !any(broken) ? cross.total() : kNaN<double>;
    return {double(p.scale), double(q.scale), p.total.total(), q.total.total(), cross_total, any(leaks)};
}

}  // namespace kullback::KULLBACK_SET
