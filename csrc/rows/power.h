// L = log sum p^alpha q^(1-alpha) of a row and its gradients. rows.cpp makes three divergences of it (outer.h): Renyi's of order alpha,
// chi-squared (alpha = 2) and Hellinger's distance (alpha = 1/2).
//
// With v = log q/p from the statistics of the row and g = 1 - alpha, the sum is 1 - Y,
//
//     Y = sum p (g phi(v) - phi(g v)),    phi(x) = e^x - 1 - x >= 0,
//
// in which nothing cancels where p and q are close. Below alpha = 1/2 the sides change places (g = alpha, v turns its sign), so that
// g <= 1/2. Where the sum is small, and where terms overflow, L is a logarithm of a scaled sum.
//
// With r = p^alpha q^(1-alpha) / e^L the gradients are
//
//     dL/da = alpha (r - p),        r/p = e^(g (u - C)),        C = D + L/g,
//     dL/db = (1 - alpha) (r - q),  r/q = e^(-alpha (u - C)),   C = D - L/alpha,
//
// u = b - a. Both sum to 0 over a row, which tells how well each centre C is known, as for KL (gradient.h).
#pragma once

#include "gradient.h"
#include "strip.h"

namespace kullback::KULLBACK_SET {

// e^z - 1 for |z| <= -kLeastPowerOfE.
template <class T>
inline Vector<T> expm1_of(Vector<T> z) {
    const PowerOfE<T> below = exp_below<T>(-magnitude_of(z));
    return z > T(0) ? -below.less_one / below.value : below.less_one;
}

// Beyond this exponent a term of Y is off by more than its share in a row of floats, and about to overflow in a row of doubles.
template <class T>
inline constexpr T kLargestPower = T(sizeof(T) == 4 ? 8 : 600);

// Finds L from Y; false where that loses digits or overflows.
template <class T, bool kHasMask>
bool sum_power_terms(const RowPair<T>& row, double alpha, RowStatistics& s) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    const Normalised<T> is(s);
    const bool turned = alpha < 0.5;
    const double exact_gamma = turned ? alpha : 1 - alpha;
    const T gamma = T(exact_gamma), sign = turned ? T(-1) : T(1);
    const V scale = fill(turned ? is.scale_q : is.scale_p), other_scale = fill(turned ? is.scale_p : is.scale_q);
    const T over = turned ? is.over_q : is.over_p, other_over = turned ? is.over_p : is.over_q;
    Accumulator<T> sum;
    V steepest{};
    row.template each_exact_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t, const T* low) {
        Accumulator<T> block;
        for (int64_t i = 0; i < rounded_up<T>(count); i += kGroup<T>) {
            V sum_terms{};
#pragma GCC unroll 2
            for (int64_t k = i; k < i + kGroup<T>; k += kCount) {
                const V x = load_lanes(a + k), y = load_lanes(b + k);
                const V base_log = turned ? y : x, other_log = turned ? x : y;
                V base = scaled_exp<T>(base_log, scale) * over, w = sign * is.log_ratio(x, y, missing_at(low, k));
                M shared = ~M{}, in_base = shared, in_other = shared;
                if constexpr (kHasMask) {
                    in_base = base_log > -kInfinity<T>, in_other = other_log > -kInfinity<T>;
                    shared = in_base & in_other;
                    base = in_base ? base : V{}, w = shared ? w : V{};
                }
                const V power = gamma * w;
                steepest = larger(power, steepest);
                const M far = magnitude_of(w) > T(1), steep = magnitude_of(power) > T(1);
                V terms = base * (w * w * gamma * exp_remainder<T>(w));
                if (gamma > 0) {
                    terms -= base * (power * power * exp_remainder<T>(power));
                    if (any(far)) {
                        const V other = scaled_exp<T>(other_log, other_scale) * other_over;
                        terms = far ? gamma * (other - base) - base * expm1_of<T>(power) : terms;
                    }
                } else {
                    if (any(far)) {
                        const V other = scaled_exp<T>(other_log, other_scale) * other_over;
                        terms = far ? gamma * (other - (base + base * w)) : terms;
                    }
                    V remainder = power * power * exp_remainder<T>(power);
                    if (any(steep)) remainder = steep ? expm1_of<T>(power) - power : remainder;
                    terms -= base * remainder;
                }
                if constexpr (kHasMask) {
                    const V other = in_other ? scaled_exp<T>(other_log, other_scale) * other_over : V{};
                    // Only rows in which g > 0 have a class that the other side lacks: the others are infinite.
                    terms = shared ? terms : base * (T(1) - gamma) + other * gamma;
                }
                sum_terms += terms;
            }
            block.add(sum_terms);
        }
        sum.add(block);
    });
    const double y = sum.total();
    if (!(y < 0.6) || !(double(largest_of<T>(steepest)) < double(kLargestPower<T>)) || !(y > -kInfinity<double>)) return false;
    s.value = std::log1p(-y);
    return true;
}

// L of a row of doubles as the logarithm of a scaled sum; -inf where the sides share no class.
template <bool kHasMask>
double log_of_power_sum(const RowPair<double>& row, double alpha, const RowStatistics& s) {
    using V = DoubleVector;
    constexpr int kCount = Lanes<double>::kCount;
    const Normalised<double> is(s);
    const double gamma = 1 - alpha, about = std::nearbyint(s.scale[0] * 0.6931471805599453);
    // Less about the largest log-weight of p, so that a common shift of all does not round the exponents.
    const auto exponents = [&](const double* a, const double* b, const double* low, int64_t k) {
        const V x = load_lanes(a + k), y = load_lanes(b + k);
        V exponent = (x - about) + gamma * is.log_ratio(x, y, missing_at(low, k));
        if constexpr (kHasMask) {
            exponent = (x > -kInfinity<double>)&(y > -kInfinity<double>) ? exponent : fill(-kInfinity<double>);
        }
        return exponent;
    };
    V top = fill(-kInfinity<double>);
    row.template each_exact_block<kHasMask>([&](const double* a, const double* b, int64_t count, int64_t, const double* low) {
        for (int64_t k = 0; k < rounded_up<double>(count); k += kCount) top = larger(exponents(a, b, low, k), top);
    });
    const double highest = largest_of<double>(top);
    if (!(highest > -kInfinity<double>)) return highest;
    Accumulator<double> sum;
    row.template each_exact_block<kHasMask>([&](const double* a, const double* b, int64_t count, int64_t, const double* low) {
        for (int64_t k = 0; k < rounded_up<double>(count); k += kCount) {
            const V exponent = exponents(a, b, low, k) - highest;
            sum.add(exponent > kLeastPowerOfE<double> ? exp_below<double>(exponent).value : V{});
        }
    });
    const double shift = (s.scale[0] * Format<double>::kLog2High - about) + s.scale[0] * Format<double>::kLog2Low;
    return (std::log(sum.total() / s.total[0]) + highest) - shift;
}

// Sets L of a row of floats, found directly, where what it is off by is small beside it.
inline bool take_direct_power(const RowsCall& call, double value, double error, RowStatistics& s) {
    // Of e^L it is the absolute error of L that counts.
    const double size = call.outer == int64_t(Outer::kExpm1) && value > 0.7 ? 0.7 : magnitude(value);
    if (!(error <= 1e-6 * size)) return false;
    s.value = value;
    return true;
}

// L as the logarithm of sum p e^(g v), for rows of floats that are far apart: one exponential a class where those of p are kept. Below
// alpha = 1/2 the sides change places.
template <bool kKept>
class DirectPower {
    using V = FloatVector;

  public:
    DirectPower(const RowsCall& call, const RowStatistics& s)
        : turned_(call.share < 0.5),
          gap_({s.gap, s.gap_low}),
          scale_(fill(float(s.scale[turned_ ? 1 : 0]))),
          total_(s.total[turned_ ? 1 : 0]),
          gamma_(turned_ ? -call.share : 1 - call.share) {}

    // Whether it is worth trying: for close sides L is about -alpha (1 - alpha) KL.
    static bool may_do(const RowsCall& call, const RowStatistics& s) {
        return !(s.state & (kMasked | kDouble | kUndefined | kAbsent)) && call.share * magnitude(1 - call.share) * s.kl > 0.1;
    }

    [[gnu::always_inline]] void add(const float* a, const float* b, int64_t padded, [[maybe_unused]] KeptExponentials<float> kept = {}) {
        constexpr int kCount = Lanes<float>::kCount;
        const Centre<float> centre = gap_;
        const V scale = scale_;
        const float *const base = turned_ ? b : a, *const kept_base = turned_ ? kept.q : kept.p;
        const Factor<float> gamma = gamma_;
        V top = steepest_;
        Accumulator<float> block;
        for (int64_t i = 0; i < padded; i += kGroup<float>) {
            V sum{};
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const int64_t k = i + j * kCount;
                const Exponent<float> power = gamma.times(centre, load_lanes(a + k), load_lanes(b + k));
                const V weight = kKept ? load_lanes(kept_base + k) : scaled_exp<float>(load_lanes(base + k), scale);
                sum += weight * power.of(scaled_exp<float>(power.high, V{})), top = larger(power.high, top);
            }
            block.add(sum);
        }
        sum_.add(block), steepest_ = top;
    }

    bool finish(const RowsCall& call, RowStatistics& s) const {
        const double error = 1e-7 * (2 + magnitude(double(gamma_.value())));
        return largest_of<float>(steepest_) < 80 && take_direct_power(call, std::log(sum_.total() / total_), error, s);
    }

  private:
    bool turned_;
    Centre<float> gap_;
    V scale_, steepest_{};
    double total_;
    Factor<float> gamma_;
    Accumulator<float> sum_{};
};

inline bool power_row_directly(const RowPair<float>& row, const RowsCall& call, RowStatistics& s) {
    if (!DirectPower<false>::may_do(call, s)) return false;
    DirectPower<false> power(call, s);
    row.each_block<false>([&](const float* a, const float* b, int64_t count, int64_t) { power.add(a, b, rounded_up<float>(count)); });
    return power.finish(call, s);
}

// L of the orders 2 and 1/2 from the sum of powers that a first pass has found (strip.h). Every exponential is off by 1e-7: p^2/q by three
// times that, a root by as much. Products of two exponentials below 1e-38 are 0; beside a sum of 1e-10 a million roots of them are
// nothing.
inline bool take_power_of_first_pass(const RowsCall& call, double sum, RowStatistics& s) {
    const bool in_range = sum > 1e-10 && sum < 1e30;
    return in_range && DirectPower<false>::may_do(call, s) && take_direct_power(call, std::log(sum), call.share == 2 ? 3e-7 : 1.5e-7, s);
}

// The gradients for the orders 2 and 1/2 of a row of floats whose sides are far apart: r is p^2/q or sqrt(p q), by e^L. False where
// an entry is small beside what it is a difference of, or q is rounded to 0.
template <bool kToP, bool kToQ>
bool power_gradient_row_directly(const RowPair<float>& row, const RowsCall& call, const RowStatistics& s, double grad,
                                 const Writer<float>& to_p, const Writer<float>& to_q) {
    using V = FloatVector;
    constexpr float kSmallest = Format<float>::kSmallestNormal;
    const bool squared = call.share == 2;
    if ((!squared && call.share != 0.5) || !(magnitude(s.value) > 0.1) || !(magnitude(s.value) < 20)) return false;
    const Normalised<float> is(s);
    const float factor_p = float(call.share * grad), factor_q = float((1 - call.share) * grad);
    double over_sum = std::exp(-s.value);
    for (int round = 0; round < 2; ++round) {
        const float over = float(over_sum);
        V most{};
        FloatMask lost{};
        const Balances<float> found = write_gradients<float, false, kToP, kToQ>(row, 1.0f, to_p, to_q, [&](V x, V y, V) {
            Entries<float> to;
            const V p = is.p(x), q = is.q(y);
            V r;
            if (squared) {
                lost |= (q < kSmallest) & (p > 0.0f);
                r = p * (p * reciprocal(larger(q, fill(kSmallest)))) * over;
            } else {
                r = square_root(p * q) * over;
            }
            most = larger(larger(p, q), larger(r, most));
            if constexpr (kToP) to.p = {r - p, r - p, (r - p) * factor_p};
            if constexpr (kToQ) to.q = {r - q, r - q, (r - q) * factor_q};
            return to;
        });
        const double largest = double(largest_of<float>(most));
        // A root is off by a third of what p^2/q is.
        const auto is_clear = [&](const Balance<float>& side) { return side.largest() >= (squared ? 0.5 : 0.25) * largest; };
        if (any(lost) || (kToP && !is_clear(found.p)) || (kToQ && !is_clear(found.q))) return false;
        if ((!kToP || found.p.holds(largest)) && (!kToQ || found.q.holds(largest))) return true;
        over_sum /= 1 + (kToP ? found.p : found.q).excess();
    }
    return false;
}

// One side of a vector of classes: log-weights, what makes probabilities of them, and z = log r/p.
template <class T>
struct PowerSide {
    Vector<T> log_weight, scale;
    Exponent<T> z;
    T over;

    Vector<T> probability() const { return scaled_exp<T>(log_weight, scale) * over; }
};

// Beyond this z, p is too small to be told from r.
template <class T>
inline constexpr T kLargestRatio = T(sizeof(T) == 4 ? 40 : 600);

// The entries r - p, and r/p - 1, of one side.
template <class T>
struct PowerEntries {
    Vector<T> absolute, relative;
};

template <class T>
inline PowerEntries<T> power_entries(const PowerSide<T>& p, const PowerSide<T>& q) {
    const Vector<T> probability = p.probability(), rounded = expm1_of<T>(p.z.high);
    const Vector<T> relative = sizeof(T) == 8 ? rounded : rounded + (rounded + T(1)) * p.z.low;
    Vector<T> absolute = probability * relative;
    // Where p is far below r, or below the normal numbers, r is found from q if that is nearer.
    const Mask<T> steep = p.z.high > kLargestRatio<T>, nearer = steep & (q.z.high < p.z.high) & (q.z.high < kLargestRatio<T>);
    if (any(steep)) {
        const Vector<T> from_p = scaled_exp<T>(p.log_weight + p.z.high, p.scale) * p.over;
        const Vector<T> from_q = q.probability() * q.z.of(expm1_of<T>(q.z.high) + T(1));
        absolute = nearer ? from_q : steep ? from_p : absolute;
    }
    return {absolute, relative};
}

// The centres of both sides.
struct PowerCentres {
    Difference<double> p, q;
};

template <class T>
struct PowerBalances {
    Balances<T> of;
    bool too_steep;
};

template <class T, bool kHasMask, bool kToP, bool kToQ>
PowerBalances<T> power_gradient_pass(const RowPair<T>& row, const RowsCall& call, const RowStatistics& s, const PowerCentres& centres,
                                     double grad, const Writer<T>& to_p, const Writer<T>& to_q) {
    using V = Vector<T>;
    using M = Mask<T>;
    const Normalised<T> is(s);
    const bool p_linear = call.sides[0].linear != 0, q_linear = call.sides[1].linear != 0;
    const double alpha = call.share;
    const Centre<T> centre_p(centres.p), centre_q(centres.q);
    const Factor<T> gamma(1 - alpha), minus_alpha(-alpha);
    const V scale_p = fill(is.scale_p), scale_q = fill(is.scale_q);
    const T over_p = is.over_p, over_q = is.over_q;
    const T factor_p = T(alpha * grad), factor_q = T((1 - alpha) * grad);
    const T per_p = p_linear ? one_over_sum<T>(s, 0) : T(1), per_q = q_linear ? one_over_sum<T>(s, 1) : T(1);
    V steepest{};
    Balances<T> found = write_gradients<T, kHasMask, kToP, kToQ>(row, T(1), to_p, to_q, [&](V x, V y, V missing) {
        Entries<T> to;
        M in_p = ~M{}, in_q = ~M{};
        if constexpr (kHasMask) in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
        Exponent<T> z_p = gamma.times(centre_p, x, y, missing), z_q = minus_alpha.times(centre_q, x, y, missing);
        if constexpr (kHasMask) {
            const M shared = in_p & in_q;
            z_p = {shared ? z_p.high : V{}, shared ? z_p.low : V{}}, z_q = {shared ? z_q.high : V{}, shared ? z_q.low : V{}};
        }
        const PowerSide<T> of_p{x, scale_p, z_p, over_p}, of_q{y, scale_q, z_q, over_q};
        if constexpr (kToP) {
            steepest = larger(z_p.high, steepest);
            const PowerEntries<T> of = power_entries<T>(of_p, of_q);
            V g = of.absolute, h = of.relative;
            if constexpr (kHasMask) {
                // Without a class of q, or of both, r is 0 for g > 0; where p is 0 < q, it is so for g < 0. All else is infinite: 0.
                h = in_p ? (in_q ? h : fill(T(-1))) : (in_q ? M(fill(gamma.value()) < T(0)) : M(fill(gamma.value()) > T(0))) ? fill(T(-1)) : V{};
                g = in_p ? (in_q ? g : -scaled_exp<T>(x, scale_p) * over_p) : V{};
            }
            const V p = kClosed<T> ? scaled_exp<T>(x, scale_p) * over_p : V{};
            to.p = {g, p_linear ? (kHasMask ? (in_p ? h : V{}) : h) : g, (p_linear ? h * per_p : g) * factor_p, p > T(0.5) ? V{} : g};
        }
        if constexpr (kToQ) {
            steepest = larger(z_q.high, steepest);
            const PowerEntries<T> of = power_entries<T>(of_q, of_p);
            V g = of.absolute, h = of.relative;
            if constexpr (kHasMask) {
                h = in_p ? (in_q ? h : V{}) : fill(T(-1));
                g = in_q ? (in_p ? g : -scaled_exp<T>(y, scale_q) * over_q) : V{};
            }
            const V q = kClosed<T> ? scaled_exp<T>(y, scale_q) * over_q : V{};
            to.q = {g, q_linear ? (kHasMask ? (in_q ? h : V{}) : h) : g, (q_linear ? h * per_q : g) * factor_q, q > T(0.5) ? V{} : g};
        }
        return to;
    });
    return {found, sizeof(T) == 4 && !(largest_of<T>(steepest) < kLargestRatio<T>)};
}

// False for a row of floats that wants double.
template <class T, bool kHasMask, bool kToP, bool kToQ>
bool power_gradient_row(const RowPair<T>& row, const RowsCall& call, const RowStatistics& s, double grad, const Writer<T>& to_p,
                        const Writer<T>& to_q) {
    if constexpr (sizeof(T) == 4 && !kHasMask) {
        if (power_gradient_row_directly<kToP, kToQ>(row, call, s, grad, to_p, to_q)) return true;
    }
    const double alpha = call.share, gamma = 1 - alpha;
    const bool p_linear = call.sides[0].linear != 0, q_linear = call.sides[1].linear != 0;
    PowerCentres centres{moved(s.gap, s.gap_low, s.value / gamma), moved(s.gap, s.gap_low, -s.value / alpha)};
    for (int round = 0; round < 4; ++round) {
        const PowerBalances<T> pass = power_gradient_pass<T, kHasMask, kToP, kToQ>(row, call, s, centres, grad, to_p, to_q);
        const Balance<T>&p = pass.of.p, &q = pass.of.q;
        const double weight_p = p_linear ? 1 : 1 / s.total[0], weight_q = q_linear ? 1 : 1 / s.total[1];
        constexpr double kCoarse = 3.6e-15 / 1e-7;
        if (sizeof(T) == 4 &&
            (pass.too_steep || (kToP && p.largest() < kCoarse * magnitude(centres.p.high * gamma) * weight_p) ||
             (kToQ && q.largest() < kCoarse * magnitude(centres.q.high * alpha) * weight_q))) {
            return false;
        }
        // Entries grow with the order times what the centres are off by.
        const auto holds = [](const Balance<T>& side, double weight) {
            // An entry moves with r, which is at most p and the largest entry together.
            return sizeof(T) == 8 ? side.holds(8 * weight) : side.holds(0.4 * (weight + side.largest()));
        };
        const bool p_holds = !kToP || holds(p, weight_p), q_holds = !kToQ || holds(q, weight_q);
        if ((p_holds && q_holds) || round == 3) {
            if constexpr (kClosed<T>) close_row<T, kHasMask, kToP, kToQ, true>(row, s, pass.of, T(grad), to_p, to_q, p_linear, q_linear, T(alpha), T(gamma));
            return true;
        }
        if (!p_holds) centres.p = moved(centres.p.high, centres.p.low, std::log1p(p.excess()) / gamma);
        if (!q_holds) centres.q = moved(centres.q.high, centres.q.low, -std::log1p(q.excess()) / alpha);
    }
    return true;
}

}  // namespace kullback::KULLBACK_SET
