// KL(Poisson || Poisson) = lambda_p log(lambda_p/lambda_q) - lambda_p + lambda_q, the generalised divergence of the rates.
//
// As kl_div_of, but float32 stays in float, where a vector has twice the lanes: near equality the divergence is a sum of
// products of relatively accurate factors, elsewhere its terms cancel to a third at worst. That leaves 4 ulp of float32.
#pragma once

#include "../math/entropy.h"

namespace kullback::KULLBACK_SET {

struct Poisson {
    using Single = float;
    static constexpr int kArity = 2;

    template <class T>
    static bool holds(const T (&x)[2]) {
        return x[0] >= 0 && x[1] >= 0;
    }

    template <class T>
    struct Ratio {
        T k, s, remainder;  // log(p/q) = k log 2 + 2 s (1 + s^2 remainder)
    };

    template <class T>
    static Ratio<T> ratio(T p, T q) {
        const Scaled<T> p2 = split_log(p), q2 = split_log(q);
        const bool near = p < T(2.5) * q && p > T(0.4) * q;
        // Scaled by the exponent of q, which leaves no sum of p and q to overflow.
        const T m = p2.mantissa * power_of_two(near ? p2.exponent - q2.exponent : T(0));
        const T s = (m - q2.mantissa) / (m + q2.mantissa);
        return {near ? T(0) : p2.exponent - q2.exponent, s, atanh_remainder(s * s)};
    }

    template <class T>
    static T log_of_ratio(const Ratio<T>& l) {
        using F = Format<T>;
        const T twice = l.s + l.s;
        return l.k * F::kLog2High + (twice + (twice * (l.s * l.s) * l.remainder + l.k * F::kLog2Low));
    }

    template <class T>
    static T value(const T (&x)[2]) {
        const T p = x[0], q = x[1], gap = p - q;
        const Ratio<T> l = ratio(p, q);
        const T near = gap * l.s + p * (T(2) * (l.s * l.s * l.s) * l.remainder);
        // Scaled, because p log(p/q) may overflow where the sum does not.
        const T scale = p > T(1) ? T(0.0625) : T(1), back = p > T(1) ? T(16) : T(1);
        const T far = ((scale * p) * log_of_ratio(l) - scale * gap) * back;
        const T inside = p == kInfinity<T> || q == kInfinity<T> ? kInfinity<T> : (l.k == T(0) ? near : far);
        return on_domain(p, q, inside, q);
    }

    // Zero outside the domain, at infinite rates, and at a rate of 0 of p, where the limit is -inf.
    template <class T>
    static void slopes(const T (&x)[2], T (&d)[2]) {
        const T p = x[0], q = x[1];
        // Outside the condition below, where it is one with that of the value.
        const T log = log_of_ratio(ratio(p, q));
        d[0] = slope_on_domain(p, q, p, q == kInfinity<T> ? -kInfinity<T> : log, T(0));
        d[1] = slope_on_domain(p, q, q, (q - p) / q, T(1));
    }
};

}  // namespace kullback::KULLBACK_SET
