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
    constexpr T kSmallest = Format<T>::kSmallestNormal;
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
template <class T, bool kOfSum>
Balance<T> entropy_gradient_pass(const RowPair<T>& row, const RowStatistics& s, const Difference<double>& centre, T grad,
                                 const Writer<T>& to_p, bool p_linear) {
    using V = Vector<T>;
    const Normalised<T> is(s);
    const Centre<T> mean(centre);
    const T per_p = one_over_sum<T>(s, 0);
    return write_gradients<T, true, true, false>(row, grad, to_p, to_p, [&](V x, V y, V) {
        const V p = x > -kInfinity<T> ? is.p(x) : V{};
        const V w = kOfSum ? fill(T(-1)) : y > -kInfinity<T> ? mean.less(y) : V{}, g = p * w;
        return Entries<T>{{g, p_linear ? w : g, -(p_linear ? w * per_p : g)}, {}};
    }).p;
}

template <class T>
void entropy_gradient_row(const RowPair<T>& row, const RowsCall& call, const RowStatistics& s, T grad, const Writer<T>& to_p) {
    const bool p_linear = call.sides[0].linear != 0;
    Difference<double> centre{s.mean[0], s.mean[1]};
    if (call.function == int64_t(RowFunction::kLogSum)) {
        entropy_gradient_pass<T, true>(row, s, centre, grad, to_p, p_linear);
        return;
    }
    // A class with all but a trace of p is that trace from the centre: found when all else is exact.
    for (int round = 0; round < 5; ++round) {
        const Balance<T> found = entropy_gradient_pass<T, false>(row, s, centre, grad, to_p, p_linear);
        if (found.holds(p_linear ? 1 : 1 / s.total[0])) return;
        centre = moved(centre.high, centre.low, found.excess());
    }
}

}  // namespace kullback::KULLBACK_SET
