// p log(p/q) and p log(p/q) - p + q with SciPy's conventions: a limit at p = 0 <= q, infinity outside the domain.
//
// Each has a form for positive normal numbers, which is what blocks of data usually hold, and one for everything.
#pragma once

#include "ratio.h"

namespace kullback::KULLBACK_SET {

template <class T>
[[gnu::always_inline]] inline T on_domain(T p, T q, T inside, T edge) {
    const T outside = p != p || q != q ? kNaN<T> : kInfinity<T>;
    return p > T(0) && q > T(0) ? inside : (p == T(0) && q >= T(0) ? edge : outside);
}

// log(p/q) for positive p and q, infinite ones included, from what it is for finite ones.
template <class T>
[[gnu::always_inline]] inline T at_infinity(T p, T q, T value) {
    const T q_infinite = q == kInfinity<T> ? -kInfinity<T> : value;
    return p == kInfinity<T> ? (q == kInfinity<T> ? kNaN<T> : kInfinity<T>) : q_infinite;
}

template <class T>
[[gnu::always_inline]] inline T rel_entr_inside(T p, const RatioLog<T>& l) {
    const Sum<T> log = log_with_rest(l, T(0));
    return fused(p, log.high, p * log.low);
}

template <class T>
[[gnu::always_inline]] inline T rel_entr_ordinary(T p, T q) {
    return rel_entr_inside(p, log_ratio_parts(p, q));
}

template <class T>
[[gnu::always_inline]] inline T rel_entr_of(T p, T q) {
    return on_domain(p, q, at_infinity(p, q, rel_entr_inside(p, log_ratio_parts_anywhere(p, q))), T(0));
}

template <class T>
[[gnu::always_inline]] inline T kl_div_inside(T p, T q, const RatioLog<T>& l) {
    // p/q around 1: with log(p/q) = 2 atanh(s) and s = (p-q)/(p+q) the leading terms 2 p s - (p - q) are exactly
    // (p - q) s, so what is left is a sum whose other terms are small and nothing cancels.
    const T gap = p - q;
    const T near = fused(gap, l.s, fused(gap, l.s_low, p * l.tail));
    // Elsewhere p (log(p/q) - 1) + q, which cancels to a tenth at worst and is rounded once.
    const Sum<T> log_less_one = log_with_rest(l, T(-1));
    const T far = product_plus(p, log_less_one.high, q, p * log_less_one.low);
    return l.k == T(0) ? near : far;
}

template <class T>
[[gnu::always_inline]] inline T kl_div_ordinary(T p, T q) {
    return kl_div_inside(p, q, log_ratio_parts(p, q));
}

template <class T>
[[gnu::always_inline]] inline T kl_div_of(T p, T q) {
    const T finite = kl_div_inside(p, q, log_ratio_parts_anywhere(p, q));
    const T inside = p == kInfinity<T> || q == kInfinity<T> ? kInfinity<T> : finite;
    return on_domain(p, q, inside, q);
}

// Derivatives: zero outside the domain, at infinite arguments, and at p = 0 where the limit in p is -inf.
template <class T>
[[gnu::always_inline]] inline T slope_on_domain(T p, T q, T moved, T inside, T edge) {
    const T outside = p != p || q != q ? kNaN<T> : (p == T(0) && q >= T(0) ? edge : T(0));
    const T value = p > T(0) && q > T(0) ? inside : outside;
    return magnitude(moved) == kInfinity<T> ? T(0) : value;
}

// log(p/q) + shift; 1 joins the multiple of log 2 first: near p/q = 1/e the two cancel while they are still exact.
template <class T>
[[gnu::always_inline]] inline T log_ratio_slope(T p, T q, T shift) {
    const Sum<T> log = log_with_rest(log_ratio_parts_anywhere(p, q), shift);
    const T value = q == kInfinity<T> ? -kInfinity<T> : log.high + log.low;
    return slope_on_domain(p, q, p, value, T(0));
}

template <class T>
[[gnu::always_inline]] inline T rel_entr_slope_p(T p, T q) {
    return log_ratio_slope(p, q, T(1));
}

template <class T>
[[gnu::always_inline]] inline T rel_entr_slope_q(T p, T q) {
    return slope_on_domain(p, q, q, -(p / q), T(0));
}

template <class T>
[[gnu::always_inline]] inline T kl_div_slope_p(T p, T q) {
    return log_ratio_slope(p, q, T(0));
}

template <class T>
[[gnu::always_inline]] inline T kl_div_slope_q(T p, T q) {
    return slope_on_domain(p, q, q, (q - p) / q, T(1));
}

}  // namespace kullback::KULLBACK_SET
