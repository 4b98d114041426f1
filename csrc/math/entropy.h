// p log(p/q) and p log(p/q) - p + q with SciPy's conventions: a limit at p = 0 <= q, infinity outside the domain.
#pragma once

#include "log.h"

namespace kullback::KULLBACK_SET {

template <class T>
[[gnu::always_inline]] inline T on_domain(T p, T q, T inside, T edge) {
    const T outside = p != p || q != q ? kNaN<T> : kInfinity<T>;
    return p > T(0) && q > T(0) ? inside : (p == T(0) && q >= T(0) ? edge : outside);
}

// log(p/q) for positive p and q, infinite ones included.
template <class T>
[[gnu::always_inline]] inline double log_ratio_of(T p, T q) {
    constexpr double inf = kInfinity<double>;
    const double value = log_of(split_log_ratio(p, q));
    const double q_infinite = q == kInfinity<T> ? -inf : value;
    return p == kInfinity<T> ? (q == kInfinity<T> ? kNaN<double> : inf) : q_infinite;
}

template <class T>
[[gnu::always_inline]] inline T rel_entr_of(T p, T q) {
    return on_domain(p, q, T(double(p) * log_ratio_of(p, q)), T(0));
}

template <class T>
[[gnu::always_inline]] inline T kl_div_of(T p, T q) {
    const LogRatio l = split_log_ratio(p, q);
    // p/q in [0.4, 2.5]: with log(p/q) = 2 atanh(s) and s = (p-q)/(p+q) the leading terms 2 p s - (p - q) are exactly
    // (p - q) s, so what is left is a sum whose second term is small and nothing cancels.
    const double wide = double(p), gap = wide - double(q);
    const double near = gap * l.s + wide * (2 * (l.s * l.s * l.s) * l.remainder);
    // Elsewhere the three terms cancel to a third of the largest at worst; scaled, because p log(p/q) may overflow
    // where the sum does not.
    const double scale = wide > 1 ? 0.0625 : 1.0;
    const double far = ((scale * wide) * log_of(l) - scale * gap) / scale;
    const T inside = p == kInfinity<T> || q == kInfinity<T> ? kInfinity<T> : T(l.k == 0 ? near : far);
    return on_domain(p, q, inside, q);
}

// Derivatives: zero outside the domain, at infinite arguments, and at p = 0 where the limit in p is -inf.
template <class T>
[[gnu::always_inline]] inline T slope_on_domain(T p, T q, T moved, T inside, T edge) {
    const T outside = p != p || q != q ? kNaN<T> : (p == T(0) && q >= T(0) ? edge : T(0));
    const T value = p > T(0) && q > T(0) ? inside : outside;
    return moved == kInfinity<T> ? T(0) : value;
}

template <class T>
[[gnu::always_inline]] inline T rel_entr_slope_p(T p, T q) {
    using F = Format<double>;
    const LogRatio l = split_log_ratio(p, q);
    const double twice = l.s + l.s;
    // 1 joins the multiple of log 2 first: near p/q = 1/e the two cancel while they are still exact.
    const double finite = (l.k * F::kLog2High + 1) + (twice + (twice * (l.s * l.s) * l.remainder + l.k * F::kLog2Low));
    const T value = q == kInfinity<T> ? -kInfinity<T> : T(finite);
    return slope_on_domain(p, q, p, value, T(0));
}

template <class T>
[[gnu::always_inline]] inline T rel_entr_slope_q(T p, T q) {
    return slope_on_domain(p, q, q, -(p / q), T(0));
}

template <class T>
[[gnu::always_inline]] inline T kl_div_slope_p(T p, T q) {
    return slope_on_domain(p, q, p, T(log_ratio_of(p, q)), T(0));
}

template <class T>
[[gnu::always_inline]] inline T kl_div_slope_q(T p, T q) {
    return slope_on_domain(p, q, q, (q - p) / q, T(1));
}

}  // namespace kullback::KULLBACK_SET
