// The instructions of a program: torch's elementwise operations, on doubles. A truth value is 1 or 0; a NaN counts as true.
#pragma once

#include "../math/exp.h"
#include "../math/log.h"

namespace kullback::KULLBACK_SET {

// A NaN on either side is the result, as in torch.maximum and torch.clamp.
[[gnu::always_inline]] inline double larger_of(double a, double b) { return a != a || a > b ? a : b; }
[[gnu::always_inline]] inline double smaller_of(double a, double b) { return a != a || a < b ? a : b; }

[[gnu::always_inline]] inline double sign_of(double a) { return a != a ? a : double(a > 0) - double(a < 0); }

#define KULLBACK_INSTRUCTIONS_1(X)                                     \
    X(neg, -a)                                                         \
    X(abs, __builtin_fabs(a))                                          \
    X(sqrt, __builtin_sqrt(a))                                         \
    X(reciprocal, 1 / a)                                               \
    X(exp, exp_of(a))                                                  \
    X(expm1, expm1_of(a))                                              \
    X(log, log_of(a))                                                  \
    X(log1p, log1p_of(a))                                              \
    X(sigmoid, 1 / (1 + exp_of(-a)))                                   \
    X(sign, sign_of(a))                                                \
    X(not, a == 0 ? 1.0 : 0.0)                                         \
    X(isnan, a != a ? 1.0 : 0.0)                                       \
    X(isinf, __builtin_fabs(a) == kInfinity<double> ? 1.0 : 0.0)       \
    X(erf, __builtin_erf(a))                                                \
    X(sin, __builtin_sin(a))                                                \
    X(cos, __builtin_cos(a))

#define KULLBACK_INSTRUCTIONS_2(X)                                     \
    X(add, a + b)                                                      \
    X(sub, a - b)                                                      \
    X(mul, a * b)                                                      \
    X(div, a / b)                                                      \
    X(maximum, larger_of(a, larger_of(b, a)))                          \
    X(minimum, smaller_of(a, smaller_of(b, a)))                        \
    X(lt, a < b ? 1.0 : 0.0)                                           \
    X(le, a <= b ? 1.0 : 0.0)                                          \
    X(eq, a == b ? 1.0 : 0.0)                                          \
    X(and, a != 0 && b != 0 ? 1.0 : 0.0)                               \
    X(or, a != 0 || b != 0 ? 1.0 : 0.0)                                \
    X(pow, __builtin_pow(a, b))

#define KULLBACK_INSTRUCTIONS_3(X) X(where, a != 0 ? b : c)

}  // namespace kullback::KULLBACK_SET
