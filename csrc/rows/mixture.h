// A KL(p || m) + B KL(q || m), m = alpha p + beta q, alpha + beta = 1: skewed KL and the Jensen-Shannon family.
//
// With v = log q/p known from the statistics of the row, no sum of a class's terms cancels. Both divergences of a class are
//
//     p g(beta (q/p - 1)),    q g(alpha (p/q - 1)),    g(w) = w - log(1 + w) >= 0.
//
// An error d of the statistics' log-ratio changes the value by a relative 2d, and by d^2.
//
// A class is computed from the larger of its two probabilities and s = e^-|v|, so that nothing overflows; where q is the
// larger one, A and B, alpha and beta change places.
#pragma once

#include "kl.h"

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

    explicit Mixture(const RowsCall& call)
        : share(T(call.share)), rest(T(1 - call.share)), weight_p(T(call.weights[0])), weight_q(T(call.weights[1])) {}
};

// A p g + B q g.
template <class T>
inline Vector<T> mixture_terms(const Mixture<T>& of, const Normalised<T>& is, Vector<T> a, Vector<T> b, Vector<T> v) {
    using V = Vector<T>;
    const Mask<T> turned = v > T(0);
    const V larger_one = scaled_exp<T>(turned ? b : a, turned ? fill(is.scale_q) : fill(is.scale_p)) *
                         (turned ? fill(is.over_q) : fill(is.over_p));
    const V alpha = turned ? fill(of.rest) : fill(of.share), beta = turned ? fill(of.share) : fill(of.rest);
    const V weight = turned ? fill(of.weight_q) : fill(of.weight_p), other = turned ? fill(of.weight_p) : fill(of.weight_q);

    const V x = turned ? -v : v;
    const PowerOfE<T> s = exp_below<T>(x);
    const V w = beta * s.less_one, y = alpha + beta * s.value;  // m over the larger one
    const Split<T> of_y = split<T>(y, w);
    // s g(w') with w' = -alpha (s - 1)/s: from z' = w'/(2 + w') while w' < 1, else from log(1 + w') = log y - log s.
    const V up = -alpha * s.less_one;
    const Mask<T> near = up < s.value;
    const V below = of_y.rest + T(2), below_up = s.value + s.value + up, over = T(1) / (below * below_up);
    const V z = of_y.rest * (below_up * over), z_up = (near ? up : V{}) * (below * over);
    const V log_remainder =
        (of_y.power * T(0.6931471805599453) + (of_y.rest - w)) + z * (atanh_tail<T>(z) - of_y.rest);  // log(y) - w
    const V lesser = near ? z_up * (up - s.value * atanh_tail<T>(z_up)) : up - s.value * ((log_remainder + w) - x);

    return larger_one * (other * lesser - weight * log_remainder);
}

// The value of a row whose statistics are known.
template <class T>
double mix_row(const RowPair<T>& row, const RowsCall& call, const RowStatistics& s) {
    using V = Vector<T>;
    constexpr int kCount = Lanes<T>::kCount;
    const Normalised<T> is(s);
    const Mixture<T> of(call);
    Accumulator<T> value;
    row.template each_block<false>([&](const T* a, const T* b, int64_t count, int64_t) {
        Accumulator<T> block_value;
        for (int64_t i = 0; i < rounded_up<T>(count); i += kGroup<T>) {
            V sum{};
#pragma GCC unroll 2
            for (int64_t k = i; k < i + kGroup<T>; k += kCount) {
                const V x = load_lanes(a + k), y = load_lanes(b + k);
                sum += mixture_terms<T>(of, is, x, y, is.log_ratio(x, y));
            }
            block_value.add(sum);
        }
        value.add(block_value);
    });
    return value.total();
}

}  // namespace kullback::KULLBACK_SET
