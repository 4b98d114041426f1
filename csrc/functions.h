// The elementwise functions of the library: how many arguments, and in which precision float32 input is computed.
//
// A gradient function takes the incoming gradient first and multiplies it in; where that is zero the result is zero, so
// that an infinite slope under a masked element does not become a NaN.
#pragma once

#include "math/entropy.h"
#include "math/logexp.h"

namespace kullback::KULLBACK_SET {

template <class T>
inline T chain(T grad, T slope) {
    return grad == T(0) ? T(0) : grad * slope;
}

// X(name, precision of float32 and below, arguments, expression)
#define KULLBACK_UNARY(X)                                                                  \
    X(expm1mx, float, expm1mx_of(x))                                                       \
    X(log1pmx, float, log1pmx_of(x))                                                       \
    X(log1mexp, double, log1mexp_of(x))

#define KULLBACK_BINARY(X)                                                                 \
    X(rel_entr, float, rel_entr_of(x, y))                                                  \
    X(kl_div, float, kl_div_of(x, y))                                                      \
    X(logdiffexp, double, logdiffexp_of(x, y))                                             \
    X(expm1mx_grad, float, chain(x, magnitude(y) == kInfinity<T> ? T(0) : expm1_of(y)))    \
    X(log1pmx_grad, float, chain(x, magnitude(y) == kInfinity<T> ? T(0) : -y / (T(1) + y))) \
    X(log1mexp_grad, float, chain(x, log1mexp_slope(y)))

#define KULLBACK_TERNARY(X)                                                                \
    X(rel_entr_grad_p, float, chain(x, rel_entr_slope_p(y, z)))                            \
    X(rel_entr_grad_q, float, chain(x, rel_entr_slope_q(y, z)))                            \
    X(kl_div_grad_p, float, chain(x, kl_div_slope_p(y, z)))                                \
    X(kl_div_grad_q, float, chain(x, kl_div_slope_q(y, z)))                                \
    X(logdiffexp_grad_a, double, chain(x, logdiffexp_slope_a(y, z)))                       \
    X(logdiffexp_grad_b, double, chain(x, logdiffexp_slope_b(y, z)))

}  // namespace kullback::KULLBACK_SET
