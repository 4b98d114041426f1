// KL(p || q) of one row, and the statistics from which every gradient and every mixture follows.
//
// With a and b the log-weights, u = b - a and D = log sum e^b - log sum e^a, the log-ratio is v = log q/p = u - D, and
//
//     KL = D - E_p u                                                        the direct form: one pass,
//     KL = sum_{p>0} p phi(v) + sum_{p=0} q,   phi(x) = e^x - 1 - x >= 0     every term non-negative: a second pass.
//
// The direct form is off by the rounding of its terms. A row of floats is summed with a relative error of at most about
// 1e-7 in e^a and e^b, which moves KL by 1e-7 (1 + E_p|v|), and of 6e-8 |u| in E_p u; E_p|v| <= KL + sqrt(2 KL) and
// |u| <= |v| + |D|. All of that is below 1e-6 KL where KL >= (1 + |D|/4)/4. The second form is taken elsewhere. An error d of D
// changes it by phi(d) only, and E = sum p v = d - KL, found on the way, tells d = log1p(X + E): X - phi(d) is the result.
#pragma once

#include "sums.h"

namespace kullback::KULLBACK_SET {

inline bool direct_form_is_accurate(double kl, double gap) { return kl >= 0.25 + 0.0625 * magnitude(gap); }

// A centre that is held to 32 digits, in the precision of a row.
template <class T>
struct Centre {
    T high, low;
    T unknown;  // a difference that is no larger than what is missing from the centre is 0

    explicit Centre(const Difference<double>& centre)
        : high(T(centre.high)), low(T((centre.high - double(high)) + centre.low)), unknown(T(1e-30 * magnitude(centre.high))) {}

    Vector<T> less(Vector<T> x) const { return (x - high) - low; }

    // b - a less the centre. b - a is kept exactly: where both sides carry a large common shift, its rounding would take the
    // result away.
    Vector<T> log_ratio(Vector<T> a, Vector<T> b, Vector<T> missing = Vector<T>{}) const {
        const Vector<T> v = log_ratio_unless_tied(a, b, missing);
        return magnitude_of(v) <= unknown ? Vector<T>{} : v;
    }

    // missing: what b - a lacks; nothing in a row of floats.
    Vector<T> log_ratio_unless_tied(Vector<T> a, Vector<T> b, [[maybe_unused]] Vector<T> missing = Vector<T>{}) const {
        const Difference<Vector<T>> u = exact_difference(b, a);
        if constexpr (sizeof(T) == 4) return (u.high - high) + (u.low - low);
        else return (u.high - high) + ((u.low + missing) - low);
    }

    // The same of a row of floats with what its rounding leaves.
    Difference<Vector<T>> exact_log_ratio(Vector<T> a, Vector<T> b) const {
        const Difference<Vector<T>> u = exact_difference(b, a), v = exact_difference(u.high, fill(high));
        return exact_difference(v.high, -(v.low + (u.low - low)));
    }
};

// A power of e by an exponent in two parts: a float exponent alone is off by 6e-8 of itself, which is what the power is off by.
template <class T>
struct Exponent {
    Vector<T> high, low;

    // e^(high + low) by a value of e^high.
    Vector<T> of(Vector<T> power) const {
        if constexpr (sizeof(T) == 8) return power;
        else return power + power * low;
    }
};

// A constant that multiplies log-ratios, in two parts of which the first has 12 bits.
template <class T>
class Factor {
  public:
    explicit Factor(double factor) : whole_(T(factor)), coarse_(T(upper_half(factor))), fine_(T(factor - double(coarse_))) {}

    T value() const { return whole_; }

    Exponent<T> times(const Centre<T>& centre, Vector<T> a, Vector<T> b, Vector<T> missing = Vector<T>{}) const {
        if constexpr (sizeof(T) == 8) {
            return {whole_ * centre.log_ratio(a, b, missing), Vector<T>{}};
        } else {
            const Difference<Vector<T>> v = centre.exact_log_ratio(a, b);
            const Vector<T> upper = (FloatVector)((FloatBits)v.high & 0xfffff000u), product = whole_ * v.high;
            const Vector<T> low = ((coarse_ * upper - product) + (coarse_ * (v.high - upper) + fine_ * v.high)) + whole_ * v.low;
            // Beyond, a power is nothing or too much.
            return {product, magnitude_of(product) < T(88) ? low : Vector<T>{}};
        }
    }

  private:
    static double upper_half(double x) {
        int power = 0;
        const double fraction = std::frexp(x, &power);
        return std::ldexp(std::nearbyint(std::ldexp(fraction, 12)), power - 12);
    }

    T whole_, coarse_, fine_;
};

// Probabilities and log-ratios v of one row from its statistics.
template <class T>
struct Normalised {
    T scale_p, scale_q;
    T over_p, over_q;
    Centre<T> gap;

    explicit Normalised(const RowStatistics& s)
        : scale_p(T(s.scale[0])),
          scale_q(T(s.scale[1])),
          over_p(T(1 / s.total[0])),
          over_q(T(1 / s.total[1])),
          gap({s.gap, s.gap_low}) {}

    Vector<T> p(Vector<T> a) const { return scaled_exp<T>(a, fill(scale_p)) * over_p; }
    Vector<T> q(Vector<T> b) const { return scaled_exp<T>(b, fill(scale_q)) * over_q; }
    Vector<T> log_ratio(Vector<T> a, Vector<T> b, Vector<T> missing = Vector<T>{}) const { return gap.log_ratio(a, b, missing); }
};

// Of what b - a misses in a block (null: nothing); only rows of doubles miss anything.
template <class T>
inline Vector<T> missing_at(const T* low, int64_t k) {
    if constexpr (sizeof(T) == 8) return low == nullptr ? Vector<T>{} : load_lanes(low + k);
    else return Vector<T>{};
}

// q - p as the larger of the two times 1 - e^-|v|: one exponential of a log-weight, nothing overflows or cancels.
template <class T>
inline Vector<T> excess_of_q(const Normalised<T>& is, Vector<T> a, Vector<T> b, Vector<T> v) {
    const Mask<T> q_larger = v > T(0);
    const Vector<T> origin = q_larger ? fill(Format<T>::kRound - is.scale_q) : fill(Format<T>::kRound - is.scale_p);
    const Vector<T> over = q_larger ? fill(-is.over_q) : fill(is.over_p);
    return scaled_exp_from<T>(q_larger ? b : a, origin) * over * expm1_below<T>(-magnitude_of(v));
}

struct Moments {
    double excess;  // sum p phi(v) + q outside the support of p
    double mean;    // sum p v

    double growth() const { return excess + mean; }  // e^d - 1, d the error of D
};

// A number held as an unevaluated sum, and one more.
inline Difference<double> moved(double high, double low, double change) { return exact_difference(high, -(low + change)); }

// Corrects D by d, e^d - 1 = growth = sum (q - p), and with it the sum of e^b.
inline void move_gap(RowStatistics& s, double growth) {
    s.total[1] *= 1 + growth;
    const Difference<double> gap = moved(s.gap, s.gap_low, std::log1p(growth));
    s.gap = gap.high, s.gap_low = gap.low;
}

template <class T, bool kHasMask>
Moments second_pass(const RowPair<T>& row, const RowStatistics& statistics) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    const Normalised<T> is(statistics);
    Accumulator<T> excess, mean;
    row.template each_exact_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t, const T* low) {
        Accumulator<T> block_excess, block_mean;
        for (int64_t i = 0; i < rounded_up<T>(count); i += kGroup<T>) {
            V sum_excess{}, sum_mean{};
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const V x = load_lanes(a + i + j * kCount), y = load_lanes(b + i + j * kCount);
                V p = is.p(x), v = is.log_ratio(x, y, missing_at(low, i + j * kCount));
                M far = magnitude_of(v) > T(1);
                if constexpr (kHasMask) {
                    const M in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
                    p = in_p ? p : V{};
                    v = in_p & in_q ? v : V{};
                    far = (far & in_p & in_q) | (in_q & ~in_p);
                }
                const V weighted = p * v;
                V terms = weighted * v * exp_remainder<T>(v);
                // p e^v = q neither overflows nor needs a p that underflowed.
                if (any(far)) terms = far ? is.q(y) - (p + weighted) : terms;
                sum_excess += terms, sum_mean += weighted;
            }
            block_excess.add(sum_excess), block_mean.add(sum_mean);
        }
        excess.add(block_excess), mean.add(block_mean);
    });
    return {excess.total(), mean.total()};
}

// Finds D from sum (q - p) = 0, for a row whose KL does not need it more accurately while its other divergences do.
template <class T, bool kHasMask>
void refine_gap(const RowPair<T>& row, RowStatistics& s) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    s.state |= kRefined;
    for (int round = 0; round < 2; ++round) {
        const Normalised<T> is(s);
        Accumulator<T> growth;
        row.template each_exact_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t, const T* low) {
            Accumulator<T> block;
            for (int64_t i = 0; i < rounded_up<T>(count); i += kGroup<T>) {
                V sum{};
#pragma GCC unroll 4
                for (int64_t k = i; k < i + kGroup<T>; k += kCount) {
                    const V x = load_lanes(a + k), y = load_lanes(b + k);
                    V v = is.log_ratio(x, y, missing_at(low, k));
                    if constexpr (kHasMask) {
                        const M in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
                        v = in_p ? (in_q ? v : fill(-kInfinity<T>)) : fill(kInfinity<T>);
                        sum += in_p | in_q ? excess_of_q(is, x, y, v) : V{};
                    } else {
                        sum += excess_of_q(is, x, y, v);
                    }
                }
                block.add(sum);
            }
            growth.add(block);
        });
        move_gap(s, growth.total());
    }
}

// y - log(1 + y) >= 0.
[[gnu::always_inline]] inline double log1p_remainder(double y) { return -log1pmx_of(y); }

// D as an unevaluated sum, and the direct form of KL.
struct DirectForm {
    double gap, gap_low, kl;
};

[[gnu::always_inline]] inline DirectForm direct_form(double scale_p, double scale_q, double total_p, double total_q, double cross) {
    const double orders = scale_q - scale_p;
    // A large multiple of log 2 does not round away the rest.
    const Difference<double> gap = exact_difference(
        orders * Format<double>::kLog2High,
        -(log1p_of((total_q - total_p) / total_p) + orders * Format<double>::kLog2Low));
    return {gap.high, gap.low, (gap.high - cross / total_p) + gap.low};
}

// What the sums of a row tell: the direct form of KL and all else of the statistics.
inline void describe_row(const RowSums& sums, const DirectForm& direct, RowStatistics& s) {
    s.scale[0] = sums.scale_p, s.scale[1] = sums.scale_q;
    s.total[0] = sums.total_p, s.total[1] = sums.total_q;
    s.gap = direct.gap, s.gap_low = direct.gap_low;
    s.kl = direct.kl;
    if (!sums.leaks) return;
    s.kl = kInfinity<double>;
    s.state |= kInfinite;
}

inline void describe_row(const RowSums& sums, RowStatistics& s) {
    describe_row(sums, direct_form(sums.scale_p, sums.scale_q, sums.total_p, sums.total_q, sums.cross), s);
}

// Improves on the direct form of a finite row where that is not accurate.
template <class T, bool kHasMask>
void refine_kl(const RowPair<T>& row, RowStatistics& s) {
    if ((s.state & kInfinite) || direct_form_is_accurate(s.kl, s.gap)) return;
    s.state |= kRefined;
    for (int round = 0; round < 3; ++round) {
        const Moments m = second_pass<T, kHasMask>(row, s);
        const double correction = log1p_remainder(m.growth());
        s.kl = m.excess > correction ? m.excess - correction : 0.0;
        move_gap(s, m.growth());
        // The correction is as accurate as its relative size allows.
        if (correction <= 0.25 * s.kl) return;
    }
}

}  // namespace kullback::KULLBACK_SET
