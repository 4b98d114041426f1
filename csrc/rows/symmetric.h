// Jeffreys' divergence and total variation of a row, and their gradients, from the log-ratios v = log q/p of its statistics.
//
//     J  = sum (q - p) v,         dJ/da = -p (v + KL(p || q)) - (q - p),    dJ/db = q (v - KL(q || p)) + (q - p),
//     TV = sum_{q > p} (q - p),   with s the sign of p - q:  dTV/da = p (s - E_p s)/2,    dTV/db = -q (s - E_q s)/2.
//
// q - p is the larger one times 1 - e^-|v|: every term has one sign and nothing cancels where p and q are close.
#pragma once

#include "gradient.h"
#include "strip.h"

namespace kullback::KULLBACK_SET {

// Both divergences directly, for rows of floats without masks that are far apart: q - p is off by up to 1e-7 of the larger one, v by
// half its last bit.
template <bool kJeffreys, bool kKept>
class DirectSymmetric {
    using V = FloatVector;

  public:
    explicit DirectSymmetric(const RowStatistics& s)
        : gap_({s.gap, s.gap_low}),
          scale_p_(fill(float(s.scale[0]))),
          scale_q_(fill(float(s.scale[1]))),
          over_p_(float(1 / s.total[0])),
          over_q_(float(1 / s.total[1])) {}

    static bool may_do(const RowStatistics& s) {
        return !(s.state & (kMasked | kDouble | kUndefined | kAbsent)) && s.kl > 0.05 && magnitude(s.gap) < 100;
    }

    [[gnu::always_inline]] void add(const float* a, const float* b, int64_t padded, [[maybe_unused]] KeptExponentials<float> kept = {}) {
        constexpr int kCount = Lanes<float>::kCount;
        const Centre<float> centre = gap_;
        const V scale_p = scale_p_, scale_q = scale_q_;
        const float over_p = over_p_, over_q = over_q_;
        Accumulator<float> block;
        for (int64_t i = 0; i < padded; i += kGroup<float>) {
            V sum{};
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const int64_t k = i + j * kCount;
                [[maybe_unused]] V x{}, y{};
                if constexpr (kJeffreys || !kKept) x = load_lanes(a + k), y = load_lanes(b + k);
                V p, q;
                if constexpr (kKept) p = load_lanes(kept.p + k), q = load_lanes(kept.q + k);
                else p = scaled_exp<float>(x, scale_p), q = scaled_exp<float>(y, scale_q);
                const V excess = q * over_q - p * over_p;
                if constexpr (kJeffreys) sum += excess * centre.log_ratio_unless_tied(x, y);
                else sum += magnitude_of(excess);
            }
            block.add(sum);
        }
        sum_.add(block);
    }

    bool finish(const RowsCall&, RowStatistics& s) const {
        const double value = kJeffreys ? sum_.total() : 0.5 * sum_.total();
        if (!(value > (kJeffreys ? 0.5 : 0.1))) return false;
        s.value = value;
        return true;
    }

  private:
    Centre<float> gap_;
    V scale_p_, scale_q_;
    float over_p_, over_q_;
    Accumulator<float> sum_{};
};

template <bool kJeffreys>
bool symmetric_row_directly(const RowPair<float>& row, const RowsCall& call, RowStatistics& s) {
    if (!DirectSymmetric<kJeffreys, false>::may_do(s)) return false;
    DirectSymmetric<kJeffreys, false> sum(s);
    row.each_block<false>([&](const float* a, const float* b, int64_t count, int64_t) { sum.add(a, b, rounded_up<float>(count)); });
    return sum.finish(call, s);
}

// J of a row of floats without masks as E_q u - E_p u, where both of its parts are accurate in the direct form (kl.h).
inline bool take_direct_jeffreys(double value, RowStatistics& s) {
    const double reverse = value - s.kl;
    if ((s.state & (kMasked | kDouble | kUndefined | kAbsent | kRefined)) || !direct_form_is_accurate(s.kl, s.gap) ||
        !direct_form_is_accurate(reverse, s.gap)) {
        return false;
    }
    s.value = value, s.mean[1] = reverse;
    return true;
}

// J of a row with equal supports, and E_q v = KL(q || p) as mean[1].
template <class T, bool kHasMask>
void sum_jeffreys(const RowPair<T>& row, RowStatistics& s) {
    using V = Vector<T>;
    constexpr int kCount = Lanes<T>::kCount;
    const Normalised<T> is(s);
    Accumulator<T> sum;
    row.template each_exact_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t, const T* low) {
        Accumulator<T> block;
        for (int64_t i = 0; i < rounded_up<T>(count); i += kGroup<T>) {
            V terms{};
#pragma GCC unroll 2
            for (int64_t k = i; k < i + kGroup<T>; k += kCount) {
                const V x = load_lanes(a + k), y = load_lanes(b + k), v = is.log_ratio(x, y, missing_at(low, k));
                V term = excess_of_q(is, x, y, v) * v;
                if constexpr (kHasMask) term = (x > -kInfinity<T>)&(y > -kInfinity<T>) ? term : V{};
                terms += term;
            }
            block.add(terms);
        }
        sum.add(block);
    });
    s.value = sum.total();
    s.mean[1] = s.value - s.kl;
}

// Whether a class belongs to one side only; the row is then infinite by Jeffreys.
template <class T>
bool supports_differ(const RowPair<T>& row) {
    bool differ = false;
    row.template each_block<true>([&](const T* a, const T* b, int64_t count, int64_t) {
        for (int64_t i = 0; i < count; ++i) differ |= (a[i] == -kInfinity<T>) != (b[i] == -kInfinity<T>);
    });
    return differ;
}

// The same numbers with p and q in each other's place.
template <class T>
inline Normalised<T> swapped(const Normalised<T>& is) {
    Normalised<T> turned = is;
    turned.scale_p = is.scale_q, turned.scale_q = is.scale_p, turned.over_p = is.over_q, turned.over_q = is.over_p;
    return turned;
}

template <class T, bool kHasMask, bool kToP, bool kToQ>
Balances<T> jeffreys_gradient_pass(const RowPair<T>& row, const RowStatistics& s, const Difference<double> (&centres)[2], T grad,
                                   const Writer<T>& to_p, const Writer<T>& to_q, bool p_linear, bool q_linear) {
    using V = Vector<T>;
    using M = Mask<T>;
    const Normalised<T> is(s), turned = swapped(is);
    const Centre<T> centre_p(centres[0]), centre_q(centres[1]);
    const T per_p = p_linear ? one_over_sum<T>(s, 0) : T(1), per_q = q_linear ? one_over_sum<T>(s, 1) : T(1);
    return write_gradients<T, kHasMask, kToP, kToQ>(row, grad, to_p, to_q, [&](V x, V y, V missing) {
        Entries<T> to;
        V v = is.log_ratio(x, y, missing);
        M shared = ~M{};
        if constexpr (kHasMask) shared = (x > -kInfinity<T>)&(y > -kInfinity<T>), v = shared ? v : V{};
        V excess = excess_of_q(is, x, y, v);
        if constexpr (kHasMask) excess = shared ? excess : V{};
        const auto entry = [&](V probability, V centred, V difference, bool linear, T per, V relative) {
            if constexpr (kHasMask) centred = shared ? centred : V{}, probability = shared ? probability : V{};
            const V counted = probability * centred, g = counted + difference;
            V size = g;
            if (linear) {
                size = centred + relative;
                if constexpr (kHasMask) size = shared ? size : V{};
            }
            return Entry<T>{counted, size, linear ? size * per : g, probability > T(0.5) ? V{} : g};
        };
        if constexpr (kToP) {
            const V relative = p_linear ? to_weight(turned, y, x, -v, -missing) : V{};
            to.p = entry(is.p(x), -centre_p.log_ratio(x, y, missing), -excess, p_linear, per_p, relative);
        }
        if constexpr (kToQ) {
            const V relative = q_linear ? to_weight(is, x, y, v, missing) : V{};
            to.q = entry(is.q(y), centre_q.log_ratio(x, y, missing), excess, q_linear, per_q, relative);
        }
        return to;
    });
}

// False for a row of floats that wants double. The gap comes from a second pass unless the sides are far apart.
template <class T, bool kHasMask, bool kToP, bool kToQ>
bool jeffreys_gradient_row(const RowPair<T>& row, const RowsCall& call, const RowStatistics& s, double grad, const Writer<T>& to_p,
                           const Writer<T>& to_q) {
    const bool p_linear = call.sides[0].linear != 0, q_linear = call.sides[1].linear != 0;
    Difference<double> centres[2] = {moved(s.gap, s.gap_low, -s.kl), moved(s.gap, s.gap_low, s.mean[1])};
    for (int round = 0; round < 3; ++round) {
        const Balances<T> found =
            jeffreys_gradient_pass<T, kHasMask, kToP, kToQ>(row, s, centres, T(grad), to_p, to_q, p_linear, q_linear);
        const double weight_p = p_linear ? 1 : 1 / s.total[0], weight_q = q_linear ? 1 : 1 / s.total[1];
        constexpr double kCoarse = 3.6e-15 / 1e-7;
        if (sizeof(T) == 4 && ((kToP && found.p.largest() < kCoarse * (magnitude(centres[0].high) + magnitude(s.gap)) * weight_p) ||
                               (kToQ && found.q.largest() < kCoarse * (magnitude(centres[1].high) + magnitude(s.gap)) * weight_q))) {
            return false;
        }
        const bool p_holds = !kToP || found.p.holds(weight_p), q_holds = !kToQ || found.q.holds(weight_q);
        if ((p_holds && q_holds) || round == 2) {
            if constexpr (kClosed<T>) close_row<T, kHasMask, kToP, kToQ, true>(row, s, found, T(grad), to_p, to_q, p_linear, q_linear, T(1), T(1));
            return true;
        }
        if (!p_holds) centres[0] = moved(centres[0].high, centres[0].low, -found.p.excess());
        if (!q_holds) centres[1] = moved(centres[1].high, centres[1].low, found.q.excess());
    }
    return true;
}

// A log-ratio this small is the rounding of a tie, by multiples of E_p |v|.
inline constexpr double kTie = 8.881784197001252e-16, kTieOfEqualWeights = 4.76837158203125e-07;

// The sign of p - q, 0 where they tie: the limits are for a class, and for one with equal weights.
template <class T, bool kHasMask>
inline Vector<T> sign_of_change(Vector<T> x, Vector<T> y, Vector<T> v, T tie, T tie_of_equals) {
    using V = Vector<T>;
    const V limit = x == y ? fill(tie_of_equals) : fill(tie);
    V sign = magnitude_of(v) <= limit ? V{} : v > T(0) ? fill(T(-1)) : fill(T(1));
    if constexpr (kHasMask) {
        const Mask<T> in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
        sign = in_p & in_q ? sign : (in_p ? fill(T(1)) : V{}) - (in_q ? fill(T(1)) : V{});
    }
    return sign;
}

// The mean of a sign s as its distance from 1 or -1, whichever is nearer, so that it is known however close it is: -E(1 - s) <= -0 or
// E(1 + s) >= 0.
inline double distance_of_mean(double below_one, double above_minus_one) {
    return below_one <= above_minus_one ? -below_one : above_minus_one;
}

struct VariationSums {
    double rise, fall;              // sum of q - p where q is larger, of p - q where p is
    double below_one[2], above[2];  // sum p (1 - s) and sum p (1 + s), of q likewise
    double typical;                 // sum p |v| over the classes that both have
    double least;                   // the least |v|
    int heaviest;                   // the sign of p - q in a class with more than half of p; 0: there is none, or a tie
};

template <class T, bool kHasMask>
VariationSums sum_variation(const RowPair<T>& row, const RowStatistics& s, T tie, T tie_of_equals) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    const Normalised<T> is(s);
    Accumulator<T> rise, fall, below_p, above_p, below_q, above_q, typical;
    V least = fill(kInfinity<T>);
    M p_heavy{}, q_heavy{};
    row.template each_exact_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t, const T* low) {
        for (int64_t k = 0; k < rounded_up<T>(count); k += kCount) {
            const V x = load_lanes(a + k), y = load_lanes(b + k);
            V v = is.log_ratio(x, y, missing_at(low, k)), p = is.p(x), q = is.q(y), size = magnitude_of(v);
            V excess = excess_of_q(is, x, y, v);
            if constexpr (kHasMask) {
                const M in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
                p = in_p ? p : V{}, q = in_q ? q : V{}, size = in_p & in_q ? size : V{};
                excess = in_p & in_q ? excess : q - p;
                least = in_p & in_q & (size < least) ? size : least;
            } else {
                least = size < least ? size : least;
            }
            const V sign = sign_of_change<T, kHasMask>(x, y, v, tie, tie_of_equals), less = T(1) - sign, more = T(1) + sign;
            rise.add(excess > T(0) ? excess : V{}), fall.add(excess > T(0) ? V{} : -excess);
            below_p.add(p * less), above_p.add(p * more), below_q.add(q * less), above_q.add(q * more);
            typical.add(p * size);
            p_heavy |= (p > T(0.5)) & (excess < T(0)), q_heavy |= (p > T(0.5)) & (excess > T(0));
        }
    });
    double smallest = kInfinity<double>;
    for (int i = 0; i < kCount; ++i) smallest = double(least[i]) < smallest ? double(least[i]) : smallest;
    return {rise.total(), fall.total(), {below_p.total(), below_q.total()}, {above_p.total(), above_q.total()},
            typical.total(), smallest, any(p_heavy) ? 1 : any(q_heavy) ? -1 : 0};
}

// Sets the means of the sign of p - q over p and q, as their distances from 1 or -1, and E_p |v| in place of KL: ties are told by it.
// False for a row of floats in which a sign is not certain and matters.
template <class T, bool kHasMask>
bool measure_variation(const RowPair<T>& row, const RowsCall& call, RowStatistics& s) {
    const bool for_gradient = call.statistics != nullptr;
    VariationSums sums = sum_variation<T, kHasMask>(row, s, T(0), T(0));
    if (sizeof(T) == 4 && for_gradient && !(sums.least > 1e-5 * (sums.typical + magnitude(s.gap)))) return false;
    const double tie_of_equals = (call.sides[0].linear && call.sides[1].linear ? kTieOfEqualWeights : kTie) * sums.typical;
    if (sizeof(T) == 8 && for_gradient && !(sums.least > tie_of_equals)) {
        sums = sum_variation<T, kHasMask>(row, s, T(kTie * sums.typical), T(tie_of_equals));
    }
    // A class that is nearly certain, whose change is the small difference of large numbers, is left out.
    s.value = sums.heaviest > 0 ? sums.rise : sums.heaviest < 0 ? sums.fall : 0.5 * (sums.rise + sums.fall);
    s.kl = sums.typical;
    for (int side = 0; side < 2; ++side) s.mean[side] = distance_of_mean(sums.below_one[side], sums.above[side]);
    return true;
}

// The same directly, for a row of floats without masks whose sides are far apart, from the exponentials of a first pass.
inline bool measure_variation_directly(int64_t padded, KeptExponentials<float> kept, RowStatistics& s) {
    using V = FloatVector;
    constexpr int kCount = Lanes<float>::kCount;
    const float over_p = float(1 / s.total[0]), over_q = float(1 / s.total[1]);
    Accumulator<float> rise, fall, above_p, above_q, below_p, below_q;
    FloatMask uncertain{};
    for (int64_t i = 0; i < padded; i += kGroup<float>) {
        V up{}, down{}, p_falls{}, q_falls{}, p_rises{}, q_rises{};
#pragma GCC unroll 4
        for (int64_t k = i; k < i + kGroup<float>; k += kCount) {
            const V p = load_lanes(kept.p + k) * over_p, q = load_lanes(kept.q + k) * over_q, excess = q - p;
            const FloatMask rises = excess > 0.0f;
            uncertain |= magnitude_of(excess) < 1e-5f * p;
            up += rises ? excess : V{}, down -= rises ? V{} : excess;
            p_falls += rises ? V{} : p, q_falls += rises ? V{} : q;
            p_rises += rises ? p : V{}, q_rises += rises ? q : V{};
        }
        rise.add(up), fall.add(down), above_p.add(p_falls), above_q.add(q_falls);
        below_p.add(p_rises), below_q.add(q_rises);
    }
    const double value = 0.5 * (rise.total() + fall.total());
    if (!(value > 0.1) || any(uncertain)) return false;
    s.value = value, s.kl = 0;
    s.mean[0] = distance_of_mean(2 * below_p.total(), 2 * above_p.total());
    s.mean[1] = distance_of_mean(2 * below_q.total(), 2 * above_q.total());
    return true;
}

// kDirectly: the row was measured directly and has no tie and no sign that rounding could turn.
template <class T, bool kHasMask, bool kToP, bool kToQ, bool kDirectly>
void write_variation_gradients(const RowPair<T>& row, const RowsCall& call, const RowStatistics& s, double grad,
                               const Writer<T>& to_p, const Writer<T>& to_q) {
    using V = Vector<T>;
    const Normalised<T> is(s);
    const bool p_linear = call.sides[0].linear != 0, q_linear = call.sides[1].linear != 0;
    const T per_p = p_linear ? one_over_sum<T>(s, 0) : T(1), per_q = q_linear ? one_over_sum<T>(s, 1) : T(1);
    const T tie = T(kTie * s.kl), tie_of_equals = p_linear && q_linear ? T(kTieOfEqualWeights * s.kl) : tie;
    const T near_p = std::signbit(s.mean[0]) ? T(1) : T(-1), near_q = std::signbit(s.mean[1]) ? T(1) : T(-1);
    const T mean_p = T(s.mean[0]), mean_q = T(s.mean[1]);
    const Balances<T> found = write_gradients<T, kHasMask, kToP, kToQ>(row, T(0.5 * grad), to_p, to_q, [&](V x, V y, V missing) {
        Entries<T> to;
        V p = is.p(x), q = is.q(y), sign;
        if constexpr (kDirectly) sign = q > p ? fill(T(-1)) : fill(T(1));
        else sign = sign_of_change<T, kHasMask>(x, y, is.log_ratio(x, y, missing), tie, tie_of_equals);
        if constexpr (kToP) {
            V less = (sign - near_p) - mean_p;
            if constexpr (kHasMask) p = x > -kInfinity<T> ? p : V{};
            const V g = p * less;
            to.p = {g, g, p_linear ? less * per_p : g, p > T(0.5) ? V{} : g};
        }
        if constexpr (kToQ) {
            V less = mean_q - (sign - near_q);
            if constexpr (kHasMask) q = y > -kInfinity<T> ? q : V{};
            const V g = q * less;
            to.q = {g, g, q_linear ? less * per_q : g, q > T(0.5) ? V{} : g};
        }
        return to;
    });
    if constexpr (kClosed<T>) {
        close_row<T, kHasMask, kToP, kToQ, true>(row, s, found, T(0.5 * grad), to_p, to_q, p_linear, q_linear, T(1), T(1));
    }
}

template <class T, bool kHasMask, bool kToP, bool kToQ>
void variation_gradient_row(const RowPair<T>& row, const RowsCall& call, const RowStatistics& s, double grad, const Writer<T>& to_p,
                            const Writer<T>& to_q) {
    if constexpr (sizeof(T) == 4 && !kHasMask) {
        if (s.kl == 0) return write_variation_gradients<T, kHasMask, kToP, kToQ, true>(row, call, s, grad, to_p, to_q);
    }
    write_variation_gradients<T, kHasMask, kToP, kToQ, false>(row, call, s, grad, to_p, to_q);
}

}  // namespace kullback::KULLBACK_SET
