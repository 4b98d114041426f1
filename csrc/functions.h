// The elementwise functions of the library: how many arguments, and in which precision narrow input is computed. float32
// is computed in float where that keeps 2 ulp of the float64 answer, in double otherwise; 16 bits in float where float32
// comes within a few of its own ulps.
//
// A gradient function takes the incoming gradient first and multiplies it in; where that is zero the result is zero, so
// that an infinite slope under a masked element does not become a NaN. It is zero as well where the argument it belongs to
// is infinite, whatever stands beside it.
#pragma once

#include "math/bessel.h"
#include "math/bessel_zero.h"
#include "math/binet.h"
#include "math/entropy.h"
#include "math/gamma.h"
#include "math/lgamma_bregman.h"
#include "math/logexp.h"
#include "math/normal.h"
#include "math/normal_difference.h"

namespace kullback::KULLBACK_SET {

template <class T>
[[gnu::always_inline]] inline T chain(T grad, T argument, T slope) {
    return grad == T(0) || magnitude(argument) == kInfinity<T> ? T(0) : grad * slope;
}

// X(name, precision for float32, precision for float16 and bfloat16, expression)
#define KULLBACK_UNARY(X)                                                                  \
    X(expm1mx, float, float, expm1mx_of(x))                                                       \
    X(log1pmx, float, float, log1pmx_of(x))                                                       \
    X(log1mexp, float, float, log1mexp_of(x))                                                    \
    X(log_ndtr, float, float, log_ndtr_of(x))

#define KULLBACK_BINARY(X)                                                                 \
    X(logdiffexp, float, float, logdiffexp_of(x, y))                                             \
    X(expm1mx_grad, float, float, chain(x, y, expm1_of(y)))                \
    X(gaussian_kl, float, float, T(0.5) * (x * x + expm1mx_of(y)))        \
    X(gaussian_kl_grad_offset, float, float, chain(x, y, y))               \
    X(log1pmx_grad, float, float, chain(x, y, -y / (T(1) + y)))            \
    X(log1mexp_grad, double, float, chain(x, y, log1mexp_slope(y)))                                   \
    X(log_ndtr_grad, double, double, chain(x, y, log_ndtr_slope(y)))                                  \
    X(lgamma_bregman, float, float, lgamma_bregman_of(x, y))                                     \
    X(log_ndtr_diff, double, double, log_ndtr_diff_of(x, y))

// X(name, precisions, expression where both arguments are positive normal numbers, expression for all): a block without
// exceptions runs the first only.
#define KULLBACK_BINARY_GUARDED(X)                                                         \
    X(rel_entr, float, float, rel_entr_ordinary(x, y), rel_entr_of(x, y))                  \
    X(kl_div, float, float, kl_div_ordinary(x, y), kl_div_of(x, y))

#define KULLBACK_TERNARY(X)                                                                \
    X(rel_entr_grad_p, float, float, chain(x, y, rel_entr_slope_p(y, z)))                            \
    X(rel_entr_grad_q, float, float, chain(x, z, rel_entr_slope_q(y, z)))                            \
    X(kl_div_grad_p, float, float, chain(x, y, kl_div_slope_p(y, z)))                                \
    X(kl_div_grad_q, float, float, chain(x, z, kl_div_slope_q(y, z)))                                \
    X(logdiffexp_grad_a, double, double, chain(x, y, logdiffexp_slope_a(y, z)))                       \
    X(logdiffexp_grad_b, double, double, chain(x, z, logdiffexp_slope_b(y, z)))                       \
    X(lgamma_bregman_grad_a, float, float, chain(x, y, lgamma_bregman_slope_a(y, z)))               \
    X(lgamma_bregman_grad_b, float, float, chain(x, z, lgamma_bregman_slope_b(y, z)))               \
    X(log_ndtr_diff_grad_a, double, double, chain(x, y, log_ndtr_diff_slope_a(y, z)))                 \
    X(log_ndtr_diff_grad_b, double, double, chain(x, z, log_ndtr_diff_slope_b(y, z)))                 \
    X(bessel_order_grad, double, double, chain(x, y, kInfinity<T>))                                   \
    X(bessel_ratio_grad, double, double, chain(x, z, bessel_ratio_slope(y, z)))

// X(name, both precisions, expression for most, condition, expression for the few that need it): the first runs vectorised
// over the whole block, the second afterwards where the condition holds.
#define KULLBACK_UNARY_REPAIRED(X)                                                         \
    X(digamma, float, float, digamma_positive(x), x < 0, T(digamma_negative(x)))                    \
    X(trigamma, float, float, trigamma_positive(x), x < 0, T(trigamma_negative(x))) \
    X(binet_0, double, double, binet_above<0>(x), !is_above<0>(x), binet_below<0>(x)) \
    X(binet_1, double, double, binet_above<1>(x), !is_above<1>(x), binet_below<1>(x)) \
    X(binet_2, double, double, binet_above<2>(x), !is_above<2>(x), binet_below<2>(x)) \
    X(binet_3, double, double, binet_above<3>(x), !is_above<3>(x), binet_below<3>(x))

#define KULLBACK_BINARY_REPAIRED(X)                                                        \
    X(digamma_grad, float, float, chain(x, y, trigamma_positive(y)), y < 0, \
      chain(x, y, T(trigamma_negative(y))))                            \
    X(trigamma_grad, double, double, chain(x, y, -minus_tetragamma_positive(y)), y < 0, \
      chain(x, y, tetragamma_negative(y)))                          \
    X(binet_0_grad, double, double, chain(x, y, binet_above<1>(y)), !is_above<1>(y), \
      chain(x, y, binet_below<1>(y)))                                                         \
    X(binet_1_grad, double, double, chain(x, y, binet_above<2>(y)), !is_above<2>(y), \
      chain(x, y, binet_below<2>(y)))                                                         \
    X(binet_2_grad, double, double, chain(x, y, binet_above<3>(y)), !is_above<3>(y), \
      chain(x, y, binet_below<3>(y)))                                                         \
    X(binet_3_grad, double, double, chain(x, y, binet_above<4>(y)), !is_above<4>(y), \
      chain(x, y, binet_below<4>(y)))                                                         \
    X(binet_bregman, double, double, binet_bregman_above(x, y), is_binet_exception(x, y),      \
      binet_bregman_exception(x, y))                                                       \
    X(log_iv, double, double, log_i0_of(y), !is_order_zero(x, y), log_iv_of(x, y))             \
    X(log_ive, double, double, log_i0e_of(y), !is_order_zero(x, y), log_ive_of(x, y))          \
    X(bessel_ratio, double, double, i1_over_i0(y), !is_order_zero(x, y), bessel_ratio_of(x, y))

#define KULLBACK_TERNARY_REPAIRED(X)                                                       \
    X(binet_bregman_grad_a, double, double, chain(x, y, -(z - y) * binet_above<2>(y)),            \
      !is_above<2>(y) || is_binet_exception(y, z), chain(x, y, binet_bregman_slope_a_exception(y, z)))                                     \
    X(binet_bregman_grad_b, double, double, chain(x, z, binet_slope_difference_above(y, z)), is_binet_exception(y, z), \
      chain(x, z, binet_bregman_slope_b_exception(y, z)))                                     \
    X(log_iv_grad, double, double, chain(x, z, i1_over_i0(z)), !is_order_zero(y, z),              \
      chain(x, z, log_bessel_slope(y, z, 0)))                                                 \
    X(log_ive_grad, double, double, chain(x, z, i1_over_i0(z) - 1), !(is_order_zero(y, z) && z < 50), \
      chain(x, z, log_bessel_slope(y, z, 1)))

}  // namespace kullback::KULLBACK_SET
