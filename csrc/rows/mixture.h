// A KL(p || m) + B KL(q || m), m = alpha p + beta q, alpha + beta = 1: skewed KL and the Jensen-Shannon family.
//
// With v = log q/p known from the statistics of the row, no sum of a class's terms cancels. Both divergences of a class are
//
//     p g(beta (q/p - 1)),    q g(alpha (p/q - 1)),    g(w) = w - log(1 + w) >= 0.
//
// With r = (q - p)/m, p/m = 1 - beta r and q/m = 1 + alpha r, the derivatives with respect to p and q are, up to a constant
// that drops out where p and q are normalised,
//
//     h_p = -A g(-beta r) - k r,    h_q = -B g(alpha r) + k r,    k = A beta^2 + B alpha^2,
//
// both 0 at p = q and monotonic in q/p; the gradients are p (h_p - E_p h_p) and q (h_q - E_q h_q).
//
// Where most classes have the same ratio q/p = t and few make up for it, the derivatives of all those differ from each other by
// less than they are rounded to. About t instead of 1, with P and Q the shares of p and q in m there (P = alpha/(alpha + beta t)),
//
//     h_p(q/p) - h_p(t) = h_p'(q/(p t)),    h_q(q/p) - h_q(t) = h_q'(q/(p t))/t,
//
// h' being the derivatives of the mixture P, Q with the weights A and B t: log(q/p) - log t is a difference of log-weights.
//
// An error d of the statistics' log-ratio changes the value by about d sqrt(value), and by d^2.
//
// A class is computed from the larger of its two probabilities and s = e^-|v|, so that nothing overflows; where q is the
// larger one, A and B, alpha and beta change places.
#pragma once

#include "gradient.h"

namespace kullback::KULLBACK_SET {

// 2 z^2 (1/3 + z^2/5 + z^4/7 + ...), what is left of (log(1 + w) - w)/z + w, for z = w/(2 + w) and |z| <= 1/3.
template <class T>
inline Vector<T> atanh_tail(Vector<T> z) {
    constexpr T kSeries[] = {T(2) / 3,  T(2) / 5,  T(2) / 7,  T(2) / 9,  T(2) / 11, T(2) / 13, T(2) / 15, T(2) / 17,
                             T(2) / 19, T(2) / 21, T(2) / 23, T(2) / 25, T(2) / 27, T(2) / 29, T(2) / 31, T(2) / 33};
    constexpr T kShort[] = {kSeries[0], kSeries[1], kSeries[2], kSeries[3], kSeries[4], kSeries[5], kSeries[6]};
    const Vector<T> square = z * z;
    if constexpr (sizeof(T) == 4) return square * polynomial<T>(square, kShort);
    else return square * polynomial<T>(square, kSeries);
}

// y in (0, 1] as 2^power (1 + rest). Above y = 1/2 nothing is taken out: the rest is y - 1 as accurately as it is given.
template <class T>
struct Split {
    Vector<T> power, rest;
};

template <class T>
inline Split<T> split(Vector<T> y, Vector<T> y_less_one) {
    using F = Format<T>;
    const Mask<T> bits = (Mask<T>)y;
    const Mask<T> power = y > T(0.5) ? Mask<T>{} : (bits - F::kRootHalf) >> F::kFraction;
    const Vector<T> rest = (Vector<T>)(bits - (power << F::kFraction)) - T(1);
    return {__builtin_convertvector(power, Vector<T>), y > T(0.5) ? y_less_one : rest};
}

template <class T>
struct Mixture {
    T share, rest, weight_p, weight_q;
    T both;              // k
    T tilt;              // A beta - B alpha
    T alone_p, alone_q;  // a class that only p, only q has: the value and the derivative per unit of it
    bool q_at_zero;      // whether the derivative with respect to q is finite at q = 0 < p
    T from_zero;         // what it is there

    explicit Mixture(const RowsCall& call) : Mixture(call.share, 1 - call.share, call.weights[0], call.weights[1]) {}

    Mixture(double alpha, double beta, double a, double b)
        : share(T(alpha)),
          rest(T(beta)),
          weight_p(T(a)),
          weight_q(T(b)),
          both(T(a * beta * beta + b * alpha * alpha)),
          tilt(T(a * beta - b * alpha)),
          alone_p(T(a * alone(alpha, beta) + b * alpha)),
          alone_q(T(b * alone(beta, alpha) + a * beta)),
          q_at_zero(b == 0),
          from_zero(T(-a * beta * beta / alpha)) {}

  private:
    // -log(share) - rest, from whichever of the two is small.
    static double alone(double share, double rest) { return rest < 0.5 ? -log1pmx_of(-rest) : -std::log(share) - rest; }
};

// What the value and the slopes of a class have in common. Primes: of the larger probability.
template <class T>
struct MixedClass {
    Mask<T> turned;              // q is the larger one
    Vector<T> alpha, beta;       // alpha', beta'
    Vector<T> weight, other;     // A', B'
    Vector<T> x;                 // log s
    PowerOfE<T> s;               // the lesser probability over the larger one
    Vector<T> w, y;              // y = m over the larger one, w = y - 1
    Vector<T> log_remainder;     // log y - w
    Mask<T> near;                // w' = m over the lesser one, less 1, is below 1
    Vector<T> up;                // s w'
    Vector<T> lesser_remainder;  // s g(w')
};

template <class T>
inline MixedClass<T> mix_class(const Mixture<T>& of, Vector<T> v) {
    using V = Vector<T>;
    MixedClass<T> c;
    c.turned = v > T(0);
    c.alpha = c.turned ? fill(of.rest) : fill(of.share), c.beta = c.turned ? fill(of.share) : fill(of.rest);
    c.weight = c.turned ? fill(of.weight_q) : fill(of.weight_p);
    c.other = c.turned ? fill(of.weight_p) : fill(of.weight_q);
    c.x = -magnitude_of(v);
    c.s = exp_below<T>(c.x);
    // Times a log-ratio of any size it is nothing: a finite log-weight may stand for an excluded class.
    c.s.value = c.x < kLeastPowerOfE<T> ? V{} : c.s.value;
    c.w = c.beta * c.s.less_one, c.y = c.alpha + c.beta * c.s.value;
    const Split<T> of_y = split<T>(c.y, c.w);
    // s g(w') with w' = -alpha (s - 1)/s: from z' = w'/(2 + w') while w' < 1, else from log(1 + w') = log y - log s.
    c.up = -c.alpha * c.s.less_one;
    c.near = c.up < c.s.value;
    const V below = of_y.rest + T(2), below_up = c.s.value + c.s.value + c.up, over = T(1) / (below * below_up);
    const V z = of_y.rest * (below_up * over), z_up = (c.near ? c.up : V{}) * (below * over);
    c.log_remainder = (of_y.power * T(0.6931471805599453) + (of_y.rest - c.w)) + z * (atanh_tail<T>(z) - of_y.rest);
    c.lesser_remainder = c.near ? z_up * (c.up - c.s.value * atanh_tail<T>(z_up))
                                : c.up - c.s.value * ((c.log_remainder + c.w) - c.x);
    return c;
}

// A p g + B q g, over the larger probability.
template <class T>
inline Vector<T> mixed_value(const MixedClass<T>& c) {
    return c.other * c.lesser_remainder - c.weight * c.log_remainder;
}

template <class T>
struct Slopes {
    Vector<T> p, q;
};

// h_p and h_q. Of the larger probability, 1/y = p/m may be large: its slope is then alpha r (A beta - B alpha) - A log y.
template <class T>
inline Slopes<T> mixed_slopes(const Mixture<T>& of, const MixedClass<T>& c) {
    using V = Vector<T>;
    const V r = c.s.less_one / c.y, moved = of.both * r, log_y = c.log_remainder + c.w;
    const V tilt = c.turned ? fill(-of.tilt) : fill(of.tilt);
    const V of_larger = c.y > T(0.5) ? -c.weight * (c.log_remainder + c.w * (c.beta * r)) - moved
                                     : c.alpha * r * tilt - c.weight * log_y;
    const V remainder = c.near ? (c.up * c.up / c.y - c.lesser_remainder) / c.s.value : c.alpha * r - c.x + log_y;
    const V of_lesser = moved - c.other * remainder;
    return {c.turned ? of_lesser : of_larger, c.turned ? of_larger : of_lesser};
}

// Completes the statistics of a row whose log-ratios are known.
template <class T, bool kHasMask, bool kForGradient>
void mix_row(const RowPair<T>& row, const RowsCall& call, RowStatistics& s) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    const Normalised<T> is(s);
    const Mixture<T> of(call);
    Accumulator<T> value, slope_p;
    row.template each_exact_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t, const T* low) {
        Accumulator<T> block_value, block_slope_p;
        for (int64_t i = 0; i < rounded_up<T>(count); i += kGroup<T>) {
            V sum{}, sum_slope{};
#pragma GCC unroll 2
            for (int64_t k = i; k < i + kGroup<T>; k += kCount) {
                const V x = load_lanes(a + k), y = load_lanes(b + k);
                V v = is.log_ratio(x, y, missing_at(low, k));
                M in_p{}, in_q{};
                if constexpr (kHasMask) {
                    in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
                    v = in_p & in_q ? v : V{};
                }
                const MixedClass<T> c = mix_class<T>(of, v);
                const V larger_one = scaled_exp<T>(c.turned ? y : x, c.turned ? fill(is.scale_q) : fill(is.scale_p)) *
                                     (c.turned ? fill(is.over_q) : fill(is.over_p));
                V terms = larger_one * mixed_value(c);
                V p{}, slopes{};
                if constexpr (kForGradient) {
                    p = c.turned ? larger_one * c.s.value : larger_one;
                    slopes = p * mixed_slopes(of, c).p;
                }
                if constexpr (kHasMask) {
                    const V only_p = in_p ? is.p(x) * of.alone_p : V{}, only_q = in_q ? is.q(y) * of.alone_q : V{};
                    terms = in_p & in_q ? terms : only_p + only_q;
                    slopes = in_p & in_q ? slopes : only_p;
                }
                sum += terms, sum_slope += slopes;
            }
            block_value.add(sum);
            if constexpr (kForGradient) block_slope_p.add(sum_slope);
        }
        value.add(block_value), slope_p.add(block_slope_p);
    });
    s.value = value.total();
    // The two means add up to the value, as alpha E_p r + beta E_q r = 0.
    s.mean[0] = slope_p.total(), s.mean[1] = s.value - s.mean[0];
}

// The ratio about which derivatives are taken.
template <class T>
struct Pivot {
    Centre<T> log_ratio;  // log t + D, so that b - a less it is the logarithm of q/(p t)
    Mixture<T> mixture;
    T over_ratio;  // 1/t

    // t = 1.
    Pivot(const RowsCall& call, const RowStatistics& s) : log_ratio({s.gap, s.gap_low}), mixture(call), over_ratio(1) {}

    Pivot(const RowsCall& call, const Difference<double>& log_weights, double t)
        : log_ratio(log_weights), mixture(of(call.share, (1 - call.share) * t, call.weights[0], call.weights[1] * t)), over_ratio(T(1 / t)) {}

  private:
    static Mixture<T> of(double p, double q, double a, double b) { return {p / (p + q), q / (p + q), a, b}; }
};

template <class T, bool kHasMask, bool kToP, bool kToQ>
Balances<T> mixture_gradient_pass(const RowPair<T>& row, const RowsCall& call, const RowStatistics& s, const Pivot<T>& about,
                                  const Difference<double> (&mean)[2], T grad, const Writer<T>& to_p,
                                  const Writer<T>& to_q) {
    using V = Vector<T>;
    using M = Mask<T>;
    const Normalised<T> is(s);
    const Mixture<T>& of = about.mixture;
    const bool p_linear = call.sides[0].linear != 0, q_linear = call.sides[1].linear != 0;
    const Centre<T> mean_p(mean[0]), mean_q(mean[1]);
    const T per_p = p_linear ? one_over_sum<T>(s, 0) : T(1), per_q = q_linear ? one_over_sum<T>(s, 1) : T(1);
    return write_gradients<T, kHasMask, kToP, kToQ>(row, grad, to_p, to_q, [&](V x, V y, V missing) {
        Entries<T> to;
        V v = about.log_ratio.log_ratio(x, y, missing);
        M in_p{}, in_q{};
        if constexpr (kHasMask) {
            in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
            v = in_p & in_q ? v : V{};
        }
        const Slopes<T> h = mixed_slopes(of, mix_class<T>(of, v));
        if constexpr (kToP) {
            V less = mean_p.less(h.p), p = is.p(x), size = less;
            if constexpr (kHasMask) {
                less = in_q ? less : mean_p.less(fill(of.alone_p));
                less = in_p | (p_linear ? ~in_q : M{}) ? less : V{};
                p = in_p ? p : V{}, size = in_p ? less : V{};
            }
            const V g = p * less;
            to.p = {g, p_linear ? size : g, p_linear ? less * per_p : g};
        }
        if constexpr (kToQ) {
            // Times t throughout.
            V less = mean_q.less(h.q), q = is.q(y), size = less;
            if constexpr (kHasMask) {
                less = in_p ? (in_q ? less : mean_q.less(fill(of.from_zero))) : mean_q.less(fill(of.alone_q));
                const M at_zero = q_linear ? (of.q_at_zero ? ~M{} : ~in_p) : M{};
                less = in_q | at_zero ? less : V{};
                q = in_q ? q : V{}, size = in_q ? less : V{};
            }
            const V g = q * less;
            to.q = {g, q_linear ? size : g, (q_linear ? less * per_q : g) * about.over_ratio};
        }
        return to;
    });
}

// The ratio of the class, of those that both sides have, with most of one side; t = 1 where there is none or t is out of range.
template <bool kHasMask>
Pivot<double> pivot_of(const RowPair<double>& row, const RowsCall& call, const RowStatistics& s, int side) {
    double top = -kInfinity<double>, a_there = 0, b_there = 0, low_there = 0;
    row.template each_exact_block<kHasMask>([&](const double* a, const double* b, int64_t count, int64_t, const double* low) {
        for (int64_t i = 0; i < count; ++i) {
            const double weight = side == 0 ? a[i] : b[i], other = side == 0 ? b[i] : a[i];
            if (!(weight > top) || other == -kInfinity<double>) continue;
            top = weight, a_there = a[i], b_there = b[i], low_there = low == nullptr ? 0 : low[i];
        }
    });
    const Difference<double> u = exact_difference(b_there, a_there);
    const double log_t = (u.high - s.gap) + ((u.low + low_there) - s.gap_low);
    if (!(top > -kInfinity<double>) || !(magnitude(log_t) < 300)) return {call, s};
    return {call, moved(u.high, u.low, low_there), std::exp(log_t)};
}

// One side of a row about a ratio t of its own.
template <bool kHasMask, bool kToP>
void pivoted_gradient_row(const RowPair<double>& row, const RowsCall& call, const RowStatistics& s, double grad,
                          const Writer<double>& to_p, const Writer<double>& to_q) {
    const Pivot<double> about = pivot_of<kHasMask>(row, call, s, kToP ? 0 : 1);
    const double weight = call.sides[kToP ? 0 : 1].linear ? 1 : 1 / s.total[kToP ? 0 : 1];
    Difference<double> mean[2] = {{0, 0}, {0, 0}};
    for (int round = 0; round < 4; ++round) {
        const Balances<double> found =
            mixture_gradient_pass<double, kHasMask, kToP, !kToP>(row, call, s, about, mean, grad, to_p, to_q);
        const Balance<double>& side = kToP ? found.p : found.q;
        if (side.holds(weight)) return;
        Difference<double>& centre = mean[kToP ? 0 : 1];
        centre = moved(centre.high, centre.low, side.excess());
    }
}

// False for a row of floats in which derivatives differ by less than their rounding allows: it wants double.
template <class T, bool kHasMask, bool kToP, bool kToQ>
bool mixture_gradient_row(const RowPair<T>& row, const RowsCall& call, RowStatistics s, T grad, const Writer<T>& to_p,
                          const Writer<T>& to_q) {
    Difference<double> mean[2] = {{s.mean[0], 0}, {s.mean[1], 0}};
    const double weight[2] = {call.sides[0].linear ? 1 : 1 / s.total[0], call.sides[1].linear ? 1 : 1 / s.total[1]};
    for (int round = 0; round < 4; ++round) {
        const Balances<T> found =
            mixture_gradient_pass<T, kHasMask, kToP, kToQ>(row, call, s, Pivot<T>(call, s), mean, grad, to_p, to_q);
        const bool p_holds = !kToP || found.p.holds(weight[0]), q_holds = !kToQ || found.q.holds(weight[1]);
        const bool p_flat = kToP && magnitude(mean[0].high) * weight[0] > 8 * found.p.largest();
        const bool q_flat = kToQ && magnitude(mean[1].high) * weight[1] > 8 * found.q.largest();
        if (sizeof(T) == 4 && (p_flat || q_flat)) return false;
        // Where every entry is small beside its probability, the error of a log-ratio from the first pass matters.
        const bool coarse = !(s.state & kRefined) && ((kToP && found.p.largest() < 0.1 * weight[0]) ||
                                                      (kToQ && found.q.largest() < 0.1 * weight[1]));
        if ((p_holds || p_flat) && (q_holds || q_flat) && !coarse) {
            if constexpr (sizeof(T) == 8) {
                if (p_flat) pivoted_gradient_row<kHasMask, true>(row, call, s, grad, to_p, to_q);
                if (q_flat) pivoted_gradient_row<kHasMask, false>(row, call, s, grad, to_p, to_q);
            }
            return true;
        }
        if (coarse) refine_gap<T, kHasMask>(row, s);
        if (!p_holds) mean[0] = moved(mean[0].high, mean[0].low, found.p.excess());
        if (!q_holds) mean[1] = moved(mean[1].high, mean[1].low, found.q.excess());
    }
    return true;
}

}  // namespace kullback::KULLBACK_SET
