// Entropy, cross-entropy and the log of the sum of the weights of a row, in one pass over memory.
//
// With a and b the log-weights of p and q, each less the largest of its side,
//
//     -sum p log q = sum e^a (-b) / sum e^a + log(sum e^b),
//
// two terms that are not negative. One class of weight 1 is left out of each sum: log1p of the others keeps its digits where a row
// is all but certain. The entropy is the same with q = p. The derivative with respect to log p is -p (b - E_p b), to log q it is
// that of KL(p || q).
#pragma once

#include "gradient.h"

namespace kullback::KULLBACK_SET {

// The largest log-weight of a side met so far, and the sum of all other weights relative to it.
template <class T, bool kLinear>
class Peak {
  public:
    double top = -kInfinity<double>;
    double others = 0;  // sum of e^(a - top) over all classes but one that attains the top
    double factor = 1;  // of the last block: by which the weights before it shrank
    double rise = 0;    // and by how much the top rose, if there was one

    double total() const { return top > -kInfinity<double> ? 1 + others : 0; }

    // largest: of a block, as the row gives it.
    void raise(T largest) {
        factor = 1, rise = 0, raised_ = false;
        const double log = kLinear ? std::log(double(largest)) : double(largest);
        if (!(log > top)) return;
        if (top > -kInfinity<double>) rise = log - top, factor = std::exp(-rise);
        else factor = 0;
        top = log, raised_ = true, largest_ = largest;
        if (kLinear) high_ = T(top), low_ = T(top - double(high_)), over_ = T(1) / largest;
    }

    void add(double below, double ties) {
        others = raised_ ? (total() * factor + below) + (ties - 1) : others + (below + ties);
    }

    Mask<T> present(Vector<T> x) const { return x > (kLinear ? T(0) : -kInfinity<T>); }
    Mask<T> at_top(Vector<T> x) const { return x == largest_; }

    // e^(a - top); NaN for NaN. The difference is kept exactly: its rounding would count where the term has a large factor.
    Vector<T> weight(Vector<T> x) const {
        if constexpr (kLinear) return x * over_;
        else {
            const Difference<Vector<T>> a = exact_difference(x, fill(largest_));
            const Vector<T> e = scaled_exp<T>(a.high, Vector<T>{});
            return present(x) | (x != x) ? (e + e * a.low) + (x - x) : Vector<T>{};
        }
    }

    // top - a, for a class that is present.
    Vector<T> below(Vector<T> x) const {
        if constexpr (kLinear) {
            const FloatLog log = log_lanes(x);
            return (high_ - log.high) + (low_ - log.low);
        } else {
            return largest_ - x;
        }
    }

  private:
    T largest_ = 0, high_ = 0, low_ = 0, over_ = 0;
    bool raised_ = false;
};

// The same for rows of floats that are far from certain, without infinite log-weights: with c the largest log-weight of q in the first
// block and D = log sum e^b - c, the value is D - E_p (b - c), which is accurate where the direct form of KL is (kl.h). False
// elsewhere, and where a gradient will follow for which KL is not accurate.
template <bool kSame>
bool sum_entropy_directly(const RowPair<float>& row, const RowsCall& call, RowStatistics& s) {
    using V = FloatVector;
    constexpr int kCount = Lanes<float>::kCount;
    ScaledTotal<float> p, q;
    Accumulator<float> below, cross;  // sum e^a (c - b), sum e^a (b - a)
    float origin = 0;
    bool in_range = true;
    row.each_block<false>([&](const float* a, const float* b, int64_t count, int64_t at) {
        const int64_t padded = rounded_up<float>(count);
        const float top_p = largest_in(a, padded), top_q = kSame ? top_p : largest_in(b, padded);
        double shrink_p = 1, shrink_q = 1;
        in_range = in_range && p.raise(top_p, shrink_p) && (kSame || q.raise(top_q, shrink_q));
        if (!in_range) return;
        if (shrink_p != 1.0) below.scale(shrink_p), cross.scale(shrink_p);
        if (at == 0) origin = top_q;
        const V scale_p = fill(p.scale), scale_q = fill(q.scale);
        const float from = origin;
        Accumulator<float> block_p, block_q, block_below, block_cross;
        for (int64_t i = 0; i < padded; i += kGroup<float>) {
            V sum_p{}, sum_q{}, sum_below{}, sum_cross{};
            prefetch_group(a + i + kAhead<float>);
            if constexpr (!kSame) prefetch_group(b + i + kAhead<float>);
#pragma GCC unroll 4
            for (int64_t k = i; k < i + kGroup<float>; k += kCount) {
                const V x = load_lanes(a + k), y = kSame ? x : load_lanes(b + k), e_p = scaled_exp<float>(x, scale_p);
                sum_p += e_p, sum_below += e_p * (from - y);
                if constexpr (!kSame) sum_q += scaled_exp<float>(y, scale_q), sum_cross += e_p * (y - x);
            }
            block_p.add(sum_p), block_below.add(sum_below);
            if constexpr (!kSame) block_q.add(sum_q), block_cross.add(sum_cross);
        }
        p.total.add(block_p), below.add(block_below);
        if constexpr (!kSame) q.total.add(block_q), cross.add(block_cross);
    });
    if constexpr (kSame) q = p;
    const RowSums sums{double(p.scale), double(q.scale), p.total.total(), q.total.total(), cross.total(), false};
    if (!in_range || !sums.usable()) return false;
    const double mean = below.total() / sums.total_p;
    const double gap = (sums.scale_q * 0.6931471805599453 - double(origin)) + std::log(sums.total_q), value = gap + mean;
    if (!direct_form_is_accurate(value, gap)) return false;
    s = RowStatistics{};
    describe_row(sums, s);
    if (!kSame && call.statistics != nullptr && !direct_form_is_accurate(s.kl, s.gap)) return false;
    const Difference<double> centre = exact_difference(double(origin), mean);
    s.mean[0] = centre.high, s.mean[1] = centre.low, s.value = value;
    return true;
}

struct PeakedSums {
    double top[2], total[2], others[2];
    double mean;  // E_p (top of q - b)
    bool leaks;   // q is zero where p is not

    bool usable() const {
        const auto finite = [](double x) { return magnitude(x) < kInfinity<double>; };
        return finite(top[0]) && finite(total[0]) && (leaks || (finite(top[1]) && finite(total[1]) && finite(mean)));
    }
};

// kSame: q is p. kLinearP, kLinearQ: the row gives this side's weights, floats; subnormal ones make the sums unusable.
template <class T, bool kSame, bool kLinearP = false, bool kLinearQ = false>
PeakedSums sum_peaked_row(const RowPair<T>& row) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    [[maybe_unused]] constexpr T kSmallest = Format<T>::kSmallestNormal;
    Peak<T, kLinearP> p;
    Peak<T, kLinearQ> q;
    double cross = 0;
    M leaks{}, broken{};
    row.template each_block<true, kLinearP, kLinearQ>([&](const T* a, const T* b, int64_t count, int64_t) {
        const int64_t padded = rounded_up<T>(count);
        const double before = p.total();
        const bool seen = p.top > -kInfinity<double>;
        p.raise(largest_in(a, padded));
        if constexpr (!kSame) q.raise(largest_in(b, padded));
        // In registers: what is found may not be written while what is given is read.
        const Peak<T, kLinearP> of_p = p;
        const Peak<T, kLinearQ> of_q = q;
        Accumulator<T> below_p, ties_p, below_q, ties_q, block_cross;
        M leaks_here{}, broken_here{};
        for (int64_t i = 0; i < padded; i += kGroup<T>) {
            V sum_p{}, even_p{}, sum_q{}, even_q{}, sum_cross{};
            prefetch_group(a + i + kAhead<T>);
            if constexpr (!kSame) prefetch_group(b + i + kAhead<T>);
#pragma GCC unroll 4
            for (int64_t k = i; k < i + kGroup<T>; k += kCount) {
                const V x = load_lanes(a + k);
                const V e_p = of_p.weight(x);
                const M in_p = of_p.present(x), top_p = of_p.at_top(x);
                if constexpr (kLinearP) broken_here |= ~((x >= kSmallest) | (x == T(0)));
                sum_p += top_p ? V{} : e_p, even_p += top_p ? fill(T(1)) : V{};
                if constexpr (kSame) {
                    sum_cross += in_p ? e_p * of_p.below(x) : V{};
                } else {
                    const V y = load_lanes(b + k), e_q = of_q.weight(y);
                    const M in_q = of_q.present(y), top_q = of_q.at_top(y);
                    if constexpr (kLinearQ) broken_here |= ~((y >= kSmallest) | (y == T(0)));
                    sum_q += top_q ? V{} : e_q, even_q += top_q ? fill(T(1)) : V{};
                    leaks_here |= in_p & ~in_q;
                    sum_cross += in_p & in_q ? e_p * of_q.below(y) : V{};
                }
            }
            below_p.add(sum_p), ties_p.add(even_p), block_cross.add(sum_cross);
            if constexpr (!kSame) below_q.add(sum_q), ties_q.add(even_q);
        }
        leaks |= leaks_here, broken |= broken_here;
        if (seen) cross = (cross + (kSame ? p.rise : q.rise) * before) * p.factor;
        cross += block_cross.total();
        p.add(below_p.total(), ties_p.total());
        if constexpr (!kSame) q.add(below_q.total(), ties_q.total());
    });
    const double mean = any(broken) ? kNaN<double> : cross / p.total();
    if constexpr (kSame) return {{p.top, p.top}, {p.total(), p.total()}, {p.others, p.others}, mean, false};
    return {{p.top, q.top}, {p.total(), q.total()}, {p.others, q.others}, mean, any(leaks)};
}

inline double log_of_sum(const PeakedSums& sums, int side) { return sums.top[side] + std::log1p(sums.others[side]); }

// The value, and what the checks of a row and a backward pass need; the centre E_p b, relative to the shift of q, in `mean`.
inline void describe_entropy(const PeakedSums& sums, const RowsCall& call, RowStatistics& s) {
    for (int i = 0; i < 2; ++i) {
        // Logarithms of weights are not shifted when they are read.
        const bool linear = call.sides[i].linear != 0;
        s.scale[i] = linear && sums.usable() ? std::ceil(sums.top[i] / 0.6931471805599453) : 0;
        s.shift[i] = linear ? 0 : sums.top[i];
        s.total[i] = linear ? sums.total[i] * std::exp(sums.top[i] - s.scale[i] * 0.6931471805599453) : sums.total[i];
    }
    const Difference<double> centre = exact_difference(sums.top[1] - s.shift[1], sums.mean);
    s.mean[0] = centre.high, s.mean[1] = centre.low;
    if (sums.leaks) s.value = kInfinity<double>, s.state |= kInfinite;
    else if (call.function == int64_t(RowFunction::kLogSum)) s.value = log_of_sum(sums, 0);
    else s.value = sums.mean + std::log1p(sums.others[1]);
}

// The derivative with respect to p, of log-weights. kOfSum: that of the log of the sum.
template <class T, bool kHasMask, bool kOfSum>
Balance<T> entropy_gradient_pass(const RowPair<T>& row, const RowStatistics& s, const Difference<double>& centre, T grad,
                                 const Writer<T>& to_p, bool p_linear) {
    using V = Vector<T>;
    const Normalised<T> is(s);
    const Centre<T> mean(centre);
    const T per_p = one_over_sum<T>(s, 0);
    return write_gradients<T, kHasMask, true, false>(row, grad, to_p, to_p, [&](V x, V y, V) {
        V p = is.p(x), w = kOfSum ? fill(T(-1)) : mean.less(y);
        if constexpr (kHasMask) p = x > -kInfinity<T> ? p : V{}, w = kOfSum || y > -kInfinity<T> ? w : V{};
        const V g = p * w;
        return Entries<T>{{g, p_linear ? w : g, -(p_linear ? w * per_p : g)}, {}};
    }).p;
}

template <class T, bool kHasMask>
void entropy_gradient_row(const RowPair<T>& row, const RowsCall& call, const RowStatistics& s, T grad, const Writer<T>& to_p) {
    const bool p_linear = call.sides[0].linear != 0;
    Difference<double> centre{s.mean[0], s.mean[1]};
    if (call.function == int64_t(RowFunction::kLogSum)) {
        entropy_gradient_pass<T, kHasMask, true>(row, s, centre, grad, to_p, p_linear);
        return;
    }
    // A class with all but a trace of p is that trace from the centre: found when all else is exact.
    for (int round = 0; round < 5; ++round) {
        const Balance<T> found = entropy_gradient_pass<T, kHasMask, false>(row, s, centre, grad, to_p, p_linear);
        if (found.holds(p_linear ? 1 : 1 / s.total[0])) return;
        centre = moved(centre.high, centre.low, found.excess());
    }
}

}  // namespace kullback::KULLBACK_SET
